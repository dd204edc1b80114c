// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"testing"

	"tributary.dev/tributary/reconcile/corpus"
)

// TestUpstreamAgreesWithTheCorpus asks upstream's controllers about the members
// of the golden corpus, from which people learn what to expect.
func TestUpstreamAgreesWithTheCorpus(t *testing.T) {
	stories, err := corpus.Load("../../reconcile/corpus/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, story := range stories {
		for _, member := range story.Members {
			for i, svc := range member.Services {
				c := &Case{Number: uint64(i), Service: svc}
				for _, p := range member.Pods {
					if p.Namespace == svc.Namespace {
						c.Pods = append(c.Pods, p)
					}
				}
				c = c.edit(moveTo(c.Name()))
				if d := diff(t, c); d != "" {
					t.Errorf("story %s, %s in %s:\n%s", story.Name, svc.Name, member.Name, d)
				}
			}
		}
	}
}

// moveTo renames the namespace to that of the case.
func moveTo(namespace string) func(*Case) {
	return func(c *Case) {
		for _, p := range c.Pods {
			p.Namespace = namespace
		}
		c.Service.Namespace = namespace
	}
}
