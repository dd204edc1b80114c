// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
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
				w.settle(mergeOrNil(all, w.current, settings), settings, nil)
				if e := w.current.Endpoints; settings.WriteEndpoints && len(statesOf(e.Subsets)) != 3 {
					t.Fatalf("Endpoints %+v", e.Subsets)
				}
				away := w.current.Share("idc-a")
				for i := range away {
					away[i].Stale = test.stale
				}
				if p := Diff(w.current, mergeOrNil(append(away, all[2]), w.current, settings), settings); !p.Empty() {
					t.Errorf("a restart writes:\n%s", textOf(t, p))
				}
			}
		})
	}
}

// The Service of a replica is deleted, by hand, while a member cannot be asked. What
// others say of its ports counts; where there is nobody the guess is reported until
// somebody corrects it, and a restart writes nothing.
func TestServiceThatNobodyRemembers(t *testing.T) {
	a, b := from("idc-a", 100, "http:80>8080", "10.0.0.1"), from("idc-b", 200, "http:80>8080", "10.1.0.1")
	deleted := func(contributions ...Contribution) *world {
		w := newWorld(t, shopWeb)
		w.settle(mergeOrNil(contributions, w.current, bothKinds), bothKinds, nil)
		w.current.Service = nil
		return w
	}
	settled := func(w *world, others ...Contribution) Desired {
		t.Helper()
		var r Desired
		for range 2 {
			r = Merge(shopWeb, append(others, w.current.Share("idc-a")...), w.current, bothKinds)
			w.settle(&r, bothKinds, nil)
		}
		r = Merge(shopWeb, append(others, w.current.Share("idc-a")...), w.current, bothKinds)
		if p := Diff(w.current, &r, bothKinds); !p.Empty() {
			t.Errorf("a restart writes:\n%s", textOf(t, p))
		}
		return r
	}
	w := deleted(a)
	r := settled(w)
	if got := portsText(&r); got != "http:8080/TCP→8080" || reasons(&r) != "port@idc-a" {
		t.Errorf("ports %s, conflicts %v", got, r.Conflicts)
	}
	w.current.Service.Ports = []syncer.ServicePort{port("http:80>8080")}
	if r = settled(w); portsText(&r) != "http:80/TCP→8080" || len(r.Conflicts) > 0 {
		t.Errorf("ports %s, conflicts %v, after they were corrected", portsText(&r), r.Conflicts)
	}
	r = settled(deleted(a, b), b)
	if portsText(&r) != "http:80/TCP→8080" || servedText(&r) != "10.0.0.1:http:8080 10.1.0.1:http:8080" || len(r.Conflicts) > 0 {
		t.Errorf("ports %s, served %s, conflicts %v, with idc-b", portsText(&r), servedText(&r), r.Conflicts)
	}
}

func TestConflictsBetweenNamespacesOfAMemberNameBoth(t *testing.T) {
	a := inFamilies(from("idc-a", 100, "http:80"), shopWeb, []syncer.Family{syncer.IPv4}, pods("idc-a", "10.0.0.1")...)
	b := inFamilies(from("idc-a", 200, "http:99"), storeWeb, []syncer.Family{syncer.IPv4}, pods("idc-a2", "10.0.0.2")...)
	r := Merge(shopWeb, []Contribution{a, b}, Current{}, bothKinds)
	want := `port "http" is 99/TCP in store/web of idc-a and 80/TCP in shop/web of idc-a, which is older and wins`
	if len(r.Conflicts) != 1 || !strings.HasPrefix(r.Conflicts[0].Message, want) {
		t.Errorf("conflicts %+v", r.Conflicts)
	}
}
