// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// probeEvery is how often a follower asks whether the store went back, and probeTimeout
	// bounds one question.
	probeEvery   = 10 * time.Second
	probeTimeout = 5 * time.Second
)

// probe asks now and then for the revision of a list. Lists are never older than the store,
// so one below what the stream had shown when the list was asked for tells that the store
// was restored from a backup; the stream would stay silent until the revisions have caught
// up (kubernetes#107457).
func (f *Follower[T]) probe(ctx context.Context) {
	for wait := rand.N(probeEvery); ; wait = probeEvery {
		select {
		case <-ctx.Done():
			return
		case <-f.hurry:
		case <-time.After(wait):
		}
		sent := f.revision.Load()
		s := f.access.Current()
		if s == nil || sent == 0 {
			continue
		}
		// Without selectors, for which old servers would search their whole store.
		q := query{resource: f.kind.Resource, namespace: f.kind.Namespace}
		ask, cancel := context.WithTimeout(ctx, probeTimeout)
		_, revision, err := s.page(ask, q, metav1.ListOptions{Limit: 1})
		cancel()
		if err == nil && revision < sent && f.revision.Load() >= sent {
			signal(f.back)
		}
	}
}
