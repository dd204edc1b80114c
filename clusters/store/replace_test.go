// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"testing"

	"tributary.dev/tributary/syncer"
)

func podsAt(rv uint64, pods ...syncer.Pod) []Versioned[syncer.Pod] {
	var list []Versioned[syncer.Pod]
	for _, p := range pods {
		list = append(list, Versioned[syncer.Pod]{Object: p, RV: rv})
	}
	return list
}

func absentNames(r *PodReplacement) (names []string) {
	for _, a := range r.Absent {
		names = append(names, fmt.Sprintf("%s held=%v reused=%v", a.Pod.Name, a.Held, a.Reused))
	}
	return names
}

func keepAll(AbsentPod) bool { return true }

// TestHeldPods follows pods that a list does not show through all that can
// become of them.
func TestHeldPods(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.serve(aService("api", "api"))
	p1, p2, p3, p4 := aPod("p1", "web", 1), aPod("p2", "web", 2), aPod("p3", "web", 3), aPod("p4", "api", 4)
	w.ReplacePods(podsAt(100, p1, p2, p3, p4), 100)

	plan := w.PlanReplacePods(nil, 200)
	if got := plan.Impact; got.Before != 4 || got.After != 0 || got.Removed != 4 || !slices.Equal(got.Emptied, []syncer.Key{in("api"), in("web")}) {
		t.Errorf("impact of an empty list: %+v", got)
	}
	w.expect(in("web"), 1, 2, 3)
	w.dirty("held", plan.Apply(keepAll))
	w.expect(in("web"), 1, 2, 3)
	if got := w.Stats(); got.HeldPods != 4 || len(w.HeldPods()) != 4 {
		t.Errorf("stats %+v", got)
	}

	p1.Ready = false
	w.dirty("an event confirms one", w.UpsertPod(podsAt(201, p1)[0]), change("web", syncer.Removal))
	w.dirty("an event removes one", w.DeletePod(podsAt(202, p2)[0]), change("web", syncer.Removal))
	if got := w.Stats().HeldPods; got != 2 {
		t.Errorf("%d held, want 2", got)
	}

	plan = w.PlanReplacePods(podsAt(300, p1, p4), 300)
	if got := absentNames(plan); !slices.Equal(got, []string{"p3 held=true reused=false"}) {
		t.Errorf("absent at the second look: %v", got)
	}
	w.dirty("a list shows one, not the other, which goes", plan.Apply(nil), change("web", syncer.Removal))
	w.expect(in("web"))
	w.expect(in("api"), 4)
	if got := w.Stats(); got.HeldPods != 0 || got.Pods != 2 {
		t.Errorf("stats %+v", got)
	}
}

func TestReleaseHeldPods(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.serve(aService("api", "api"))
	w.ReplacePods(podsAt(100, aPod("p1", "web", 1), aPod("p2", "api", 2), aPod("p3", "api", 3)), 100)
	w.PlanReplacePods(nil, 200).Apply(func(a AbsentPod) bool {
		w.Stats() // no lock is held
		return a.Pod.Name != "p3"
	})
	w.expect(in("api"), 2)
	w.dirty("released by replica", w.ReleaseHeldPods(func(p *syncer.Pod) bool { return slices.Contains(w.ReplicasOf(p.Key), in("api")) }),
		change("api", syncer.Removal))
	w.expect(in("web"), 1)
	w.dirty("the rest", w.ReleaseHeldPods(nil), change("web", syncer.Removal))
	w.dirty("nothing is held", w.ReleaseHeldPods(nil))
	w.expect(in("web"))
}

// TestUnwatchedRollOut checks that pods which others have replaced do not look
// like a Service that is emptied, and that reused addresses are told.
func TestUnwatchedRollOut(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.ReplacePods(podsAt(100, aPod("old-1", "web", 1), aPod("old-2", "web", 2)), 100)
	plan := w.PlanReplacePods(podsAt(200, aPod("new-1", "web", 1), aPod("new-2", "web", 3)), 200)
	if got := plan.Impact; got.Before != 2 || got.After != 2 || got.Removed != 2 || got.Lost != 0 || got.Emptied != nil {
		t.Errorf("impact %+v", got)
	}
	if got := absentNames(plan); !slices.Equal(got, []string{"old-1 held=false reused=true", "old-2 held=false reused=false"}) {
		t.Errorf("absent %v", got)
	}
	w.dirty("applied", plan.Apply(nil), change("web", syncer.Removal))
	w.expect(in("web"), 1, 3)
}

func TestImpactCountsWhatNothingReplaces(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.serve(aService("api", "api"))
	w.serve(aService("db", "db"))
	w.ReplacePods(podsAt(100, aPod("w1", "web", 1), aPod("w2", "web", 2), aPod("a1", "api", 3), aPod("a2", "api", 4), aPod("d1", "db", 5)), 100)
	unready := aPod("d1", "db", 5)
	unready.Ready = false
	// web is rolled out, api loses one, db's pod is listed as not ready: no absence.
	plan := w.PlanReplacePods(podsAt(200, aPod("w3", "web", 6), aPod("w4", "web", 7), aPod("a1", "api", 3), unready), 200)
	if got := plan.Impact; got.Lost != 1 || got.Removed != 3 || !slices.Equal(got.Losing, []syncer.Key{in("api")}) || got.Emptied != nil {
		t.Errorf("impact %+v", got)
	}
	if ready, known := w.ReadyEndpoints(in("web")); ready != 2 || !known {
		t.Errorf("web has %d ready, known=%v", ready, known)
	}
	if ready, _ := w.ReadyEndpoints(in("nobody")); ready != 0 {
		t.Errorf("a replica that does not exist has %d ready", ready)
	}
}

// TestSharedAddressIsNotReused checks that pods of one host's network do not look
// as if they had taken each other's address over.
func TestSharedAddressIsNotReused(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	agent := aPod("agent", "agent", 1)
	w.ReplacePods(podsAt(100, aPod("web-1", "web", 1), agent), 100)
	plan := w.PlanReplacePods(podsAt(200, agent), 200)
	if got := absentNames(plan); !slices.Equal(got, []string{"web-1 held=false reused=false"}) {
		t.Errorf("absent %v", got)
	}
}

// TestListFromThePast checks that a list is the truth though its revisions are
// lower, as after a restored etcd, and that what follows is not taken for old.
func TestListFromThePast(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.ReplacePods(podsAt(5000, aPod("p1", "web", 1), aPod("p2", "web", 2)), 5000)
	w.DeletePod(podsAt(6000, aPod("p9", "web", 9))[0])
	p1 := aPod("p1", "web", 8)
	plan := w.PlanReplacePods(podsAt(1000, p1), 1001)
	plan.Apply(keepAll)
	w.expect(in("web"), 2, 8)
	w.dirty("a new pod", w.UpsertPod(podsAt(1002, aPod("p3", "web", 3))[0]), change("web", syncer.Addition))
	w.dirty("a change", w.UpsertPod(podsAt(1003, aPod("p1", "web", 7))[0]), change("web", syncer.Removal))
	w.dirty("the held one is deleted", w.DeletePod(podsAt(1004, aPod("p2", "web", 2))[0]), change("web", syncer.Removal))
	w.expect(in("web"), 3, 7)
}

func TestListWithoutNewsIsNoNews(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	list := podsAt(100, aPod("p1", "web", 1), aPod("p2", "web", 2))
	w.dirty("the first list", w.ReplacePods(slices.Clone(list), 100), change("web", syncer.Addition))
	w.dirty("again", w.ReplacePods(slices.Clone(list), 101))
	services := []Versioned[syncer.Service]{{Object: aService("web", "web"), RV: 101}}
	w.dirty("Services", w.ReplaceServices(slices.Clone(services), 101))
}

func TestHeldServices(t *testing.T) {
	w := newWorld(t)
	list := []Versioned[syncer.Service]{{Object: aService("api", "api"), RV: 50}, {Object: aService("db", "db"), RV: 50}, {Object: aService("web", "web"), RV: 50}}
	w.ReplaceServices(slices.Clone(list), 50)
	w.upsert(aPod("p1", "api", 1))
	w.upsert(aPod("p2", "web", 2))

	plan := w.PlanReplaceServices(nil, 60)
	if got := plan.Impact; got.Before != 2 || got.Removed != 2 || got.After != 0 || !slices.Equal(got.Emptied, []syncer.Key{in("api"), in("web")}) {
		t.Errorf("impact %+v", got)
	}
	w.dirty("one goes, two are held", plan.Apply(func(a AbsentService) bool { return a.Replica != in("db") }), change("db", syncer.Removal))
	w.dirty("a held one follows its pods", w.upsert(aPod("p3", "web", 3)), change("web", syncer.Addition))
	w.expect(in("web"), 2, 3)
	list[2].RV = 61
	w.dirty("an event confirms", w.UpsertService(list[2]))
	w.dirty("released", w.ReleaseHeldServices(nil), change("api", syncer.Removal))
	if got := w.Stats(); got.HeldServices != 0 || got.Services != 1 || len(w.HeldServices()) != 0 {
		t.Errorf("stats %+v", got)
	}

	w.PlanReplaceServices(nil, 70).Apply(func(AbsentService) bool { return true })
	plan = w.PlanReplaceServices(nil, 71)
	if len(plan.Absent) != 1 || !plan.Absent[0].Held {
		t.Errorf("second look: %+v", plan.Absent)
	}
	w.dirty("the second look is believed", plan.Apply(nil), change("web", syncer.Removal))
}

// TestLargeList covers lists of several chunks and long lists of dirty replicas.
func TestLargeList(t *testing.T) {
	w := newWorld(t)
	const services = 3 * applyChunk
	var pods []Versioned[syncer.Pod]
	var list []Versioned[syncer.Service]
	for i := range services {
		name := fmt.Sprint("s", i)
		list = append(list, Versioned[syncer.Service]{Object: aService(name, name), RV: 10})
		pods = append(pods, podsAt(10, aPod(name+"-a", name, 1), aPod(name+"-b", name, 2))...)
	}
	w.ReplaceServices(list, 10)
	if got := w.ReplacePods(pods, 10); len(got) != services {
		t.Errorf("%d dirty, want each of %d once", len(got), services)
	}
	if got := w.Stats(); got.Ready != 2*services {
		t.Errorf("stats %+v", got)
	}
	if got := w.ReplacePods(nil, 11); len(got) != services || got[0].Effect != syncer.Removal {
		t.Errorf("%d dirty, want each of %d once", len(got), services)
	}
}

func TestCountsFollowPublishedPods(t *testing.T) {
	w := newWorld(t)
	svc := aService("web", "web")
	svc.Annotations = map[string]string{syncer.TolerateUnreadyAnnotation: "true"}
	w.serve(svc)
	unready, leaving, done, bad := aPod("p1", "web", 1), aPod("p2", "web", 2), aPod("p3", "web", 3), aPod("p4", "web", 4)
	unready.Ready, leaving.Deleted, done.Terminal, bad.IPs = false, 1, true, []syncer.PodIP{{Raw: "bad"}}
	w.ReplacePods(podsAt(10, unready, leaving, done, bad, aPod("p5", "web", 5)), 10)
	if got := w.Stats(); got.Ready != 1 || got.NotReady != 1 {
		t.Errorf("stats %+v", got)
	}
	w.dirty("rules", w.SetRules(syncer.Options{TolerateUnreadyAnnotation: true}), change("web", syncer.Addition))
	if got := w.Stats(); got.Ready != 3 || got.NotReady != 0 {
		t.Errorf("stats with the annotation honoured %+v", got)
	}
}
