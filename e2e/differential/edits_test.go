// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"slices"
)

// edit is one kind of edit. do reports false if the world has nothing to which it
// applies.
type edit struct {
	name   string
	weight int
	do     func(*world, context.Context) (bool, error)
	// needsControllers is set if the result in the member depends on when its
	// controllers saw the edit: a Service that loses its selector retains the
	// Endpoints that they wrote last.
	needsControllers bool
}

// edits are all kinds. Readiness is gained more often than lost, and pods come
// as often as they go, so that a long run stays lively.
var edits = []edit{
	{name: "pod: start", weight: 8, do: (*world).startPod},
	{name: "pod: pend", weight: 1, do: (*world).pendPod},
	{name: "pod: ready", weight: 9, do: (*world).readyPod},
	{name: "pod: unready", weight: 6, do: (*world).unreadyPod},
	{name: "pod: flap", weight: 3, do: (*world).flapPod},
	{name: "pod: relabel", weight: 6, do: (*world).relabelPod},
	{name: "pod: annotate", weight: 2, do: (*world).annotatePod},
	{name: "pod: readdress", weight: 2, do: (*world).readdressPod},
	{name: "pod: finish", weight: 3, do: (*world).finishPod},
	{name: "pod: terminate", weight: 6, do: (*world).terminatePod},
	{name: "pod: end of termination", weight: 5, do: (*world).endPod},
	{name: "pod: force delete", weight: 2, do: (*world).forcePod},
	{name: "service: create", weight: 2, do: (*world).createService},
	{name: "service: delete", weight: 2, do: (*world).deleteService},
	{name: "service: recreate", weight: 2, do: (*world).recreateService, needsControllers: true},
	{name: "service: ports", weight: 4, do: (*world).editPorts},
	{name: "service: selector", weight: 3, do: (*world).editSelector},
	{name: "service: labels", weight: 3, do: (*world).editLabels},
	{name: "service: annotations", weight: 1, do: (*world).editAnnotations},
	{name: "service: publish not ready", weight: 3, do: (*world).editPublish},
	{name: "service: families", weight: 3, do: (*world).editFamilies},
	{name: "service: external", weight: 1, do: (*world).editType, needsControllers: true},
	{name: "service: lose selector", weight: 2, do: (*world).loseSelector, needsControllers: true},
	{name: "service: gain selector", weight: 2, do: (*world).gainSelector},
	{name: "written: endpoints", weight: 3, do: (*world).editEndpoints},
	{name: "written: no endpoints", weight: 1, do: (*world).dropEndpoints},
	{name: "written: new slice", weight: 2, do: (*world).addSlice},
	{name: "written: slice", weight: 2, do: (*world).editSlice},
	{name: "written: no slice", weight: 1, do: (*world).dropSlice},
}

// churn makes n random edits, one after the other.
func (w *world) churn(n int, allowed func(edit) bool) {
	w.Helper()
	var bag []int
	for i, e := range edits {
		if allowed(e) {
			bag = append(bag, slices.Repeat([]int{i}, e.weight)...)
		}
	}
	for made := 0; made < n; {
		e := edits[bag[w.rng.IntN(len(bag))]]
		done, err := e.do(w, w.Context())
		if err != nil {
			w.Fatalf("edit %d, %s: %v", w.total, e.name, err)
		}
		if done {
			made++
			w.total++
			w.made[e.name]++
			w.history = append(w.history, event{w.total, e.name, w.subject})
		}
	}
}

// event is an edit that was made.
type event struct {
	number  int
	name    string
	subject key
}

// anyPod draws a pod that matches, nil if none does.
func (w *world) anyPod(match func(*pod) bool) *pod {
	p := draw(w, w.pods, match)
	if p != nil {
		w.subject = key{p.namespace, p.name}
	}
	return p
}

// anyService draws a Service that matches, nil if none does.
func (w *world) anyService(match func(*service) bool) *service {
	s := draw(w, w.services, match)
	if s != nil {
		w.subject = key{s.namespace, s.name}
	}
	return s
}

func draw[T any](w *world, all []*T, match func(*T) bool) *T {
	if len(all) == 0 {
		return nil
	}
	start := w.rng.IntN(len(all))
	for i := range all {
		if x := all[(start+i)%len(all)]; match(x) {
			return x
		}
	}
	return nil
}

// chance is true with a probability in percent.
func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) someNamespace() string { return w.namespaces[w.rng.IntN(len(w.namespaces))] }

func (w *world) newServiceName() string {
	w.next++
	return fmt.Sprintf("svc-%d", w.next)
}
