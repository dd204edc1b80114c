// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
)

// triggerTimes drives a Trigger as a store does: its input are the times of the pods
// at each computation, by name.
type triggerTimes struct {
	trigger *Trigger
	created int64
	pods    map[string]int64
}

func (s *triggerTimes) compute(created int64, pods map[string]int64) int64 {
	if s.trigger == nil || s.created != created {
		s.trigger, s.created = new(Trigger), created
		s.trigger.Changed()
	}
	for name, at := range pods {
		if before, had := s.pods[name]; !had || before != at {
			s.trigger.Note(name, before)
		}
	}
	for name, before := range s.pods {
		if _, there := pods[name]; !there {
			s.trigger.Note(name, before)
		}
	}
	s.pods = maps.Clone(pods)
	return s.time()
}

func (s *triggerTimes) time() int64 {
	svc := newService(func(svc *Service) { svc.Created = s.created })
	return unix(s.trigger.Time(svc, func(name string) int64 { return s.pods[name] }))
}

func unix(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

// triggerStep is one computation, with the time expected, 0 for none.
type triggerStep struct {
	created int64
	pods    map[string]int64
	want    int64
}

// TestTrigger has the cases of upstream's tests of TriggerTimeTracker.
func TestTrigger(t *testing.T) {
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
		{"a pod's time went back (late heartbeat)", []triggerStep{{100, map[string]int64{"a": 150}, 100}, {100, map[string]int64{"a": 120}, 0},
			{100, map[string]int64{"a": 150}, 150}}},
		{"pod deleted, then added", []triggerStep{{100, map[string]int64{"a": 101, "b": 102}, 100}, {100, map[string]int64{"a": 101}, 0},
			{100, map[string]int64{"a": 101, "b": 102}, 102}}},
		{"Service recreated without our seeing it go", []triggerStep{{100, map[string]int64{"a": 101}, 100}, {200, map[string]int64{"a": 101}, 200}}},
		{"a pod without Ready condition", []triggerStep{{100, map[string]int64{"a": 0}, 100}, {100, map[string]int64{"a": 130}, 130},
			{100, map[string]int64{"a": 0}, 0}, {100, map[string]int64{"a": 130}, 130}}},
		{"no time at all", []triggerStep{{0, nil, 0}, {0, map[string]int64{"a": 0}, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s triggerTimes
			for i, step := range c.steps {
				if got := s.compute(step.created, step.pods); got != step.want {
					t.Errorf("step %d: %v, want %v", i, got, step.want)
				}
				if again := s.time(); again != step.want {
					t.Errorf("step %d: %v when it is asked again, want %v", i, again, step.want)
				}
			}
		})
	}
}

// TestTriggerOfAChangeWithoutTime: a change of the Service ends what pods said before.
func TestTriggerOfAChangeWithoutTime(t *testing.T) {
	var s triggerTimes
	s.compute(100, nil)
	if at := s.compute(100, map[string]int64{"a": 130}); at != 130 {
		t.Errorf("%d", at)
	}
	s.trigger.Changed()
	if at := s.time(); at != 0 {
		t.Errorf("%d after a change of the Service", at)
	}
}

// TestTriggerEqualsItsTwin: the twin remembers what the last computation saw of each pod,
// however often they changed between.
func TestTriggerEqualsItsTwin(t *testing.T) {
	for seed := range dice.Seeds(t, 1000) {
		r := dice.From(seed, 8)
		svc := newService()
		trigger, told, pods := new(Trigger), map[string]int64(nil), map[string]int64{}
		at := func(name string) int64 { return pods[name] }
		for step := range 12 {
			changes := r.IntN(8)
			for range changes {
				name := fmt.Sprint("p", r.IntN(5))
				trigger.Note(name, pods[name])
				if pods[name] = int64(r.IntN(5) * 30); r.IntN(4) == 0 {
					delete(pods, name)
				}
			}
			if changes == 0 && told != nil {
				continue
			}
			var want int64
			for _, name := range slices.Sorted(maps.Keys(pods)) {
				if at := pods[name]; at > told[name] && (want == 0 || at < want) {
					want = at
				}
			}
			if told == nil {
				want = svc.Created
			}
			told = maps.Clone(pods)
			if got := unix(trigger.Time(svc, at)); got != want {
				t.Fatalf("seed %d, step %d: %d, want %d", seed, step, got, want)
			}
		}
	}
}
