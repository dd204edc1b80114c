// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestRetakePod(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	p1, p2 := aPod("p1", "web", 1), aPod("p2", "web", 2)
	w.ReplacePods(podsAt(100, p1, p2), 100)
	p1.Ready = false
	w.dirty("not ready by an event", w.UpsertPod(podsAt(200, p1)[0]), change("web", syncer.Removal))
	kept := p1
	kept.Ready = true
	w.dirty("kept", w.RetakePod(&kept), change("web", syncer.Addition))
	w.expect(in("web"), 1, 2)
	w.dirty("an event older than the last", w.UpsertPod(podsAt(150, p1)[0]))
	w.dirty("let go", w.RetakePod(&p1), change("web", syncer.Removal))

	other := p1
	other.UID = "another"
	w.dirty("another pod of its name", w.RetakePod(&other))
	unknown := aPod("p9", "web", 9)
	w.dirty("a pod that is gone", w.RetakePod(&unknown))
	w.PlanReplacePods(podsAt(300, p1), 300).Apply(keepAll)
	unready := p2
	unready.Ready = false
	w.dirty("one that is held", w.RetakePod(&unready))
	if pods, services := w.Held(); pods != 1 || services != 0 {
		t.Errorf("%d pods and %d Services held", pods, services)
	}
	if pods, services := w.Size(); pods != 2 || services != 1 {
		t.Errorf("%d pods and %d Services", pods, services)
	}
}
