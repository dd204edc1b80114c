// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"
	"time"
)

// TestDamping: the narrowest that says anything decides, each of the two by itself.
func TestDamping(t *testing.T) {
	const file = `clusters:
- {name: a, kubeconfig: a}
- name: b
  kubeconfig: b
  readiness:
    stableFor: 20s
    namespaces:
    - {names: [shop], keepOne: false}
    - {names: ["pay-*"], stableFor: 0s}
readiness:
  stableFor: 5s
  namespaces:
  - {names: [shop], stableFor: 10s}
  - {names: ["*p"], stableFor: 11s, keepOne: false}
`
	c := mustParse(t, header+file)
	tests := []struct {
		name, cluster, namespace string
		stableFor, keepOne       string // annotations
		wantFor                  time.Duration
		wantOne                  bool
	}{
		{name: "what is said for all", cluster: "a", namespace: "x", wantFor: 5 * time.Second, wantOne: true},
		{name: "the member over the file", cluster: "b", namespace: "x", wantFor: 20 * time.Second, wantOne: true},
		{name: "a namespace of the file", cluster: "a", namespace: "shop", wantFor: 10 * time.Second, wantOne: true},
		{name: "the first that matches", cluster: "a", namespace: "pop", wantFor: 11 * time.Second},
		{name: "a namespace over the member, field by field", cluster: "b", namespace: "shop", wantFor: 10 * time.Second},
		{name: "nothing is a length, too", cluster: "b", namespace: "pay-1", wantOne: true},
		{name: "an annotation over all", cluster: "b", namespace: "shop", stableFor: "1s", keepOne: "true", wantFor: time.Second, wantOne: true},
		{name: "an annotation switches off", cluster: "a", namespace: "x", stableFor: "0s", wantOne: true},
		{name: "no length", cluster: "a", namespace: "x", stableFor: "soon", keepOne: "perhaps", wantFor: 5 * time.Second, wantOne: true},
		{name: "too long", cluster: "a", namespace: "x", stableFor: "2h", wantFor: 5 * time.Second, wantOne: true},
		{name: "negative", cluster: "a", namespace: "x", stableFor: "-5s", wantFor: 5 * time.Second, wantOne: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			svc := service(test.namespace, "web")
			svc.Annotations = map[string]string{}
			misread := ""
			if test.stableFor != "" {
				svc.Annotations[AnnotationStableFor] = test.stableFor
			}
			if test.keepOne != "" {
				svc.Annotations[AnnotationKeepOne] = test.keepOne
			}
			stableFor, keepOne := byName(c.Clusters)[test.cluster].Damping(svc)
			if stableFor != test.wantFor || keepOne != test.wantOne {
				t.Errorf("stable for %v, keep one %v; want %v, %v", stableFor, keepOne, test.wantFor, test.wantOne)
			}
			misread = c.Policy().Misread(svc)
			if wrong := test.name == "no length" || test.name == "too long" || test.name == "negative"; (misread != "") != wrong {
				t.Errorf("misread: %q", misread)
			}
		})
	}
}

// TestDampingOfAll: members share what is said for all of them, and an edit of it changes them.
func TestDampingOfAll(t *testing.T) {
	file := func(top string) string {
		return header + "clusterDefaults: {readiness: {keepOne: false}}\nclusters: [{name: a, kubeconfig: a, readiness: {stableFor: 1s}}, {name: b, kubeconfig: b}]\n" + top
	}
	old, edited := mustParse(t, file("")), mustParse(t, file("readiness: {stableFor: 3s}\n"))
	if stableFor, keepOne := edited.Clusters[0].Damping(service("x", "y")); stableFor != time.Second || keepOne {
		t.Errorf("a: %v, %v", stableFor, keepOne)
	}
	if stableFor, keepOne := edited.Clusters[1].Damping(service("x", "y")); stableFor != 3*time.Second || keepOne {
		t.Errorf("b: %v, %v", stableFor, keepOne)
	}
	if d := Compare(&Loaded{Config: old}, &Loaded{Config: edited}); len(d.Changed) != 2 {
		t.Errorf("changed: %v", d.Changed)
	}
}
