// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"testing"

	"tributary.dev/tributary/syncer"
)

// handMade is a Service without selector.
func handMade(name string) syncer.Service {
	svc := aService(name, "")
	svc.Selector = nil
	return svc
}

func written(name string, last ...byte) Versioned[Endpoints] {
	subset := syncer.Subset{Ports: []syncer.Port{{Protocol: "TCP", Number: 5432}}}
	for _, octet := range last {
		subset.Ready = append(subset.Ready, syncer.Address{Addr: netip.AddrFrom4([4]byte{10, 0, 0, octet})})
	}
	return Versioned[Endpoints]{Object: Endpoints{Key: in(name), Subsets: []syncer.Subset{subset}}}
}

func writtenSlice(service, name string, derived bool, last ...byte) Versioned[Slice] {
	s := Slice{Key: in(name), Service: service, Derived: derived, Content: syncer.Slice{Name: name, Family: syncer.IPv4}}
	for _, octet := range last {
		s.Content.Endpoints = append(s.Content.Endpoints, syncer.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, octet}), Ready: true})
	}
	return Versioned[Slice]{Object: s}
}

func TestWrittenByHand(t *testing.T) {
	w := newWorld(t)
	w.dirty("a Service without selector", w.serve(handMade("db")), change("db", syncer.Addition))
	if !w.IsManual(in("db")) || len(w.ManualSources()) != 1 {
		t.Error("its endpoints are not asked for")
	}
	if got := w.Contributions(in("db")); len(got) != 1 || !got[0].Pending || got[0].Service.Name != "db" {
		t.Errorf("before they are known: %+v", got)
	}
	e := written("db", 1, 2)
	w.dirty("Endpoints alone", w.replaceEndpoints(in("db"), &e, 10))
	w.dirty("slices too", w.replaceSlices(in("db"), nil, 10), change("db", syncer.Addition))
	w.expect(in("db"), 1, 2)
	if ready := w.ReadyEndpoints(in("db")); ready != 2 {
		t.Errorf("%d ready", ready)
	}
	if got := w.Stats(); got.Ready != 2 {
		t.Errorf("stats %+v", got)
	}
	e.RV = 11
	w.dirty("the same again", w.UpsertEndpoints(e))
	less := written("db", 1)
	less.RV = 12
	w.dirty("an address leaves", w.UpsertEndpoints(less), change("db", syncer.Removal))
	w.dirty("old news", w.UpsertEndpoints(e))
	w.dirty("a slice", w.UpsertSlice(writtenSlice("db", "db-x", false, 7)), change("db", syncer.Addition))
	w.dirty("a slice made by a controller", w.UpsertSlice(writtenSlice("db", "db-y", true)))
	w.expect(in("db"), 1, 7)
	w.dirty("the slice goes", w.deleteManual(ManualObject{in("db"), "db-x"}, 0), change("db", syncer.Removal))
	w.dirty("Endpoints go", w.deleteManual(ManualObject{Service: in("db")}, 20), change("db", syncer.Removal))
	w.dirty("an old creation after the deletion", w.UpsertEndpoints(less))
	w.expect(in("db"))
}

// TestSelectorLostWithoutAGap checks that a Service that loses its selector is
// served by it, and by its pods as they come and go, until what was written by
// hand is known; and that one which gains a selector is served at once.
func TestSelectorLostWithoutAGap(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("db", "db"))
	w.upsert(aPod("p1", "db", 1))
	svc := handMade("db")
	svc.UID = "uid-db"
	w.dirty("selector lost", w.serve(svc), change("db", syncer.Removal))
	w.expect(in("db"), 1)
	w.dirty("a pod comes", w.upsert(aPod("p2", "db", 2)), change("db", syncer.Addition))
	w.expect(in("db"), 1, 2)
	svc.Labels = map[string]string{"still": "none"}
	w.serve(svc)
	w.expect(in("db"), 1, 2)
	if got := w.Peek(in("db"))[0].Service; got.Selector != nil || got.Labels["still"] != "none" {
		t.Errorf("the Service itself is %+v", got)
	}

	e := written("db", 9)
	w.dirty("Endpoints", w.replaceEndpoints(in("db"), &e, 0))
	w.dirty("and slices", w.replaceSlices(in("db"), nil, 0), change("db", syncer.Removal))
	w.expect(in("db"), 9)
	w.dirty("a pod comes that nobody selects", w.upsert(aPod("p3", "db", 3)))

	w.dirty("a selector again", w.serve(aService("db", "db")), change("db", syncer.Removal))
	w.expect(in("db"), 1, 2, 3)
	if w.IsManual(in("db")) {
		t.Error("hand-written endpoints are still asked for")
	}
	w.serve(svc)
	if got := w.Peek(in("db")); len(got[0].Endpoints) != 3 {
		t.Errorf("what was written before it had a selector is taken for what is: %+v", got)
	}
}

// TestRecreatedWithoutSelectorFollowsItsPods: what stands of one that lists show made again
// stays until what is written by hand is read, and its pods go on to count.
func TestRecreatedWithoutSelectorFollowsItsPods(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("db", "db"))
	w.upsert(aPod("p1", "db", 1))
	w.upsert(aPod("p2", "db", 2))
	svc := handMade("db")
	svc.UID = "another"
	w.serve(svc)
	w.expect(in("db"), 1, 2)
	gone := aPod("p2", "db", 2)
	gone.Ready = false
	w.dirty("a pod turns not ready", w.upsert(gone), change("db", syncer.Removal))

	e := written("db", 9)
	w.replaceEndpoints(in("db"), &e, 0)
	w.dirty("all is read", w.replaceSlices(in("db"), nil, 0), change("db", syncer.Removal))
	w.expect(in("db"), 9)
}

// TestWrittenForAServiceThatWentAndCameBack checks that nothing that was written is
// taken for known which nobody looked at meanwhile, be it in a list that was begun
// before.
func TestWrittenForAServiceThatWentAndCameBack(t *testing.T) {
	w := newWorld(t)
	e := written("db", 1)
	w.dirty("Endpoints of no Service", w.replaceEndpoints(in("db"), &e, 0))
	w.serve(handMade("db"))
	w.replaceEndpoints(in("db"), &e, 0)
	w.replaceSlices(in("db"), nil, 0)
	w.expect(in("db"), 1)
	before := w.ManualSources()[in("db")]
	w.BeginManual(false, []syncer.Key{in("db")}, 5, false)
	w.RemoveService(in("db"))
	w.serve(handMade("db"))
	w.KnowManual(false, in("db"))
	w.BeginManual(true, []syncer.Key{in("db")}, 5, false)
	w.KnowManual(true, in("db"))
	if got := w.Peek(in("db")); !got[0].Pending {
		t.Errorf("%+v", got)
	}
	if w.ManualSources()[in("db")] == before {
		t.Error("nobody can see that it is to be read anew")
	}
}

// TestKeptThroughAListFromThePast checks that what was kept against a list that
// went back in time still follows its events.
func TestKeptThroughAListFromThePast(t *testing.T) {
	w := newWorld(t)
	w.serve(handMade("db"))
	e, s := written("db", 1, 2), writtenSlice("db", "db-x", false, 3, 4)
	e.RV, s.RV = 900, 900
	w.replaceEndpoints(in("db"), &e, 1000)
	w.replaceSlices(in("db"), []Versioned[Slice]{s}, 1000)
	for _, ofSlices := range []bool{false, true} {
		services := []syncer.Key{in("db")}
		w.BeginManual(ofSlices, services, 500, true)
		for _, o := range w.LackingManual(ofSlices, services, 500, true) {
			w.HoldManual(o)
		}
	}
	if ready, seen := w.ReadyEndpoints(in("db")), w.SeenEndpoints(in("db"), false); ready != 4 || seen != 0 {
		t.Errorf("%d ready, %d seen", ready, seen)
	}
	w.expect(in("db"), 1, 2, 3, 4)
	e, s = written("db", 1), writtenSlice("db", "db-x", false, 3)
	e.RV, s.RV = 501, 501
	w.dirty("Endpoints", w.UpsertEndpoints(e), change("db", syncer.Removal))
	w.dirty("slices", w.UpsertSlice(s), change("db", syncer.Removal))
	w.expect(in("db"), 1, 3)
}
