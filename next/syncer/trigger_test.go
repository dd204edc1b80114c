// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"slices"
	"testing"
	"time"
)

// triggerStep is one computation: the Service's creation time, the pods' Ready
// transition times by name, and the trigger time expected, 0 for none.
type triggerStep struct {
	created int64
	pods    map[string]int64
	want    int64
}

func TestNextTrigger(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []triggerStep
	}{
		{"new Service without pods", []triggerStep{{100, nil, 100}}},
		{"new Service with pods: its own time counts, though it is later", []triggerStep{{100, map[string]int64{"a": 50, "b": 60}, 100}}},
		{"pods added: the earliest", []triggerStep{{100, nil, 100}, {100, map[string]int64{"a": 120, "b": 110}, 110}}},
		{"pods changed: the earliest of the changed", []triggerStep{
			{100, map[string]int64{"a": 101, "b": 102, "c": 103}, 100},
			{100, map[string]int64{"a": 101, "b": 130, "c": 120}, 120}}},
		{"nothing changed", []triggerStep{{100, map[string]int64{"a": 101}, 100}, {100, map[string]int64{"a": 101}, 0}}},
		{"a pod's time went back (late heartbeat)", []triggerStep{{100, map[string]int64{"a": 150}, 100}, {100, map[string]int64{"a": 120}, 0},
			{100, map[string]int64{"a": 150}, 150}}},
		{"pod deleted, then added", []triggerStep{{100, map[string]int64{"a": 101, "b": 102}, 100}, {100, map[string]int64{"a": 101}, 0},
			{100, map[string]int64{"a": 101, "b": 102}, 102}}},
		{"Service recreated without our seeing it go", []triggerStep{{100, map[string]int64{"a": 101}, 100}, {200, map[string]int64{"a": 101}, 200}}},
		{"a pod without Ready condition", []triggerStep{{100, map[string]int64{"a": 0}, 100}, {100, map[string]int64{"a": 0}, 0},
			{100, map[string]int64{"a": 130}, 130}, {100, map[string]int64{"a": 0}, 0}, {100, map[string]int64{"a": 130}, 130}}},
		{"no time at all", []triggerStep{{0, nil, 0}, {0, nil, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var state TriggerState
			for i, s := range c.steps {
				var pods []*Pod
				for name, at := range s.pods {
					pods = append(pods, newPod(name, "10.0.0.1", func(p *Pod) { p.ReadySince = at }))
				}
				svc := newService(func(svc *Service) { svc.Created = s.created })
				var at time.Time
				state, at = NextTrigger(state, svc, slices.Values(pods))
				want := time.Time{}
				if s.want != 0 {
					want = time.Unix(s.want, 0).UTC()
				}
				if !at.Equal(want) || at.IsZero() != want.IsZero() {
					t.Errorf("step %d: %v, want %v", i, at, want)
				}
			}
		})
	}
}

// TestTriggerOfAServiceThatWasForgotten: whoever forgets a Service forgets its state.
func TestTriggerOfAServiceThatWasForgotten(t *testing.T) {
	svc := newService(func(s *Service) { s.Created = 300 })
	if _, at := NextTrigger(nil, svc, slices.Values([]*Pod{newPod("a", "10.0.0.1")})); at.Unix() != 300 {
		t.Errorf("%v", at)
	}
}
