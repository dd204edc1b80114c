// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"tributary.dev/tributary/syncer"
)

// inFamilies makes a contribution again for other families of its Service.
func inFamilies(c Contribution, source syncer.Key, families []syncer.Family, pods ...*syncer.Pod) Contribution {
	svc := *c.Service
	svc.Key, svc.IPFamilies = source, families
	c.Source = source
	c.Contribution = syncer.Compute(&svc, func(yield func(*syncer.Pod) bool) {
		for _, pod := range pods {
			if !yield(pod) {
				return
			}
		}
	}, syncer.Options{})
	return c
}

// Two namespaces of a member that have one name in the ingress cluster are two sources
// of one replica: a restart while the member is away writes nothing of either, nor does
// its coming back.
func TestTwoSourcesOfAMemberThatIsAway(t *testing.T) {
	v4, v6 := []syncer.Family{syncer.IPv4}, []syncer.Family{syncer.IPv6}
	for _, test := range []struct {
		name          string
		first, second []syncer.Family
		addresses     [2]string
		stale         bool
	}{
		{"one family", v4, v4, [2]string{"10.0.0.1", "10.0.0.2"}, false},
		{"a family each", v4, v6, [2]string{"10.0.0.1", "fd00::1"}, false},
		{"a family each, the other way round", v6, v4, [2]string{"fd00::1", "10.0.0.1"}, false},
		{"out of sight for long", v4, v4, [2]string{"10.0.0.1", "10.0.0.2"}, true},
		{"a family each, out of sight for long", v4, v6, [2]string{"10.0.0.1", "fd00::1"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, settings := range []Settings{bothKinds, {WriteEndpoints: true}, {WriteSlices: true}} {
				a := inFamilies(from("idc-a", 100, "http:80"), shopWeb, test.first, pods("idc-a", test.addresses[0])...)
				b := inFamilies(from("idc-a", 200, "http:80"), storeWeb, test.second, pods("idc-a2", test.addresses[1])...)
				a.Stale, b.Stale = test.stale, test.stale
				all := []Contribution{a, b, from("idc-b", 300, "http:80", "10.1.0.1")}
				w := newWorld(t, shopWeb)
				w.settle(mergeOrNil(all, w.observed, settings), settings, nil)
				if e := w.observed.Endpoints; settings.WriteEndpoints && len(addressesOf(e.Subsets)) != 3 {
					t.Fatalf("Endpoints %+v", e.Subsets)
				}
				away := Recover("idc-a", w.observed)
				for i := range away {
					away[i].Stale = test.stale
				}
				if p := Diff(w.observed, mergeOrNil(append(away, all[2]), w.observed, settings), settings); !p.Empty() {
					t.Errorf("a restart writes:\n%s", textOf(t, p))
				}
			}
		})
	}
}
