// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

var (
	key  = syncer.Key{Namespace: "shop", Name: "web"}
	noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// step is one change of one side.
type step struct {
	at     int // seconds after noon
	theirs bool
	set    Addresses
	gone   bool
}

// tell applies the step.
func (s step) tell(to *Tracker) (late time.Duration, measured bool) {
	if s.theirs {
		return to.Theirs(key, s.set, !s.gone, after(s.at))
	}
	return to.Ours(key, Expected{Addresses: s.set}, !s.gone, after(s.at))
}

// listed returns a Tracker that knows since long ago that nothing of theirs exists.
func listed() *Tracker {
	tracker := NewTracker()
	tracker.Replace("", nil, after(-100))
	return tracker
}

func TestTheirsIsMeasuredFromOurChange(t *testing.T) {
	a, b := Addresses{"10.0.0.1:80/TCP"}, Addresses{"10.0.0.1:80/TCP", "10.0.0.2:80/TCP"}
	for _, test := range []struct {
		name  string
		steps []step
		want  []time.Duration
		open  bool
	}{
		{"theirs follows", []step{{0, false, a, false}, {3, true, a, false}}, []time.Duration{3 * time.Second}, false},
		{"theirs is first", []step{{0, true, a, false}, {3, false, a, false}}, nil, false},
		{"measured from the oldest change", []step{{0, false, a, false}, {1, false, b, false}, {5, true, b, false}}, []time.Duration{5 * time.Second}, false},
		{"a stale state in between does not end it", []step{{0, true, a, false}, {1, false, a, false}, {2, false, b, false}, {4, true, nil, false}, {9, true, b, false}}, []time.Duration{7 * time.Second}, false},
		{"a flip back before they noticed is no sample", []step{{0, false, a, false}, {1, true, a, false}, {2, false, b, false}, {3, false, a, false}}, []time.Duration{time.Second}, false},
		{"theirs is told before ours, which was earlier", []step{{0, false, a, false}, {0, true, a, false}, {5, true, b, false}, {3, false, b, false}}, []time.Duration{0, 2 * time.Second}, false},
		{"never followed", []step{{0, false, a, false}}, nil, true},
		{"a Service that is gone is not waited for", []step{{0, false, a, false}, {1, false, nil, true}}, nil, false},
		{"empty for us and no object there agree", []step{{0, false, nil, false}}, nil, false},
	} {
		tracker := listed()
		var got []time.Duration
		for _, s := range test.steps {
			if late, measured := s.tell(tracker); measured {
				got = append(got, late)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: measured %v, want %v", test.name, got, test.want)
		}
		if open := tracker.Behind(after(100)) > 0; open != test.open {
			t.Errorf("%s: waiting for them: %t, want %t", test.name, open, test.open)
		}
	}
}

func TestDisagreementsHaveBothSidesAndAge(t *testing.T) {
	tracker := listed()
	ours := Addresses{"10.0.0.1:80/TCP"}
	theirs := Addresses{"10.0.0.9:80/TCP"}
	tracker.Theirs(key, theirs, true, after(0))
	tracker.Ours(key, Expected{Addresses: ours}, true, after(10))
	if got := tracker.Disagreements(after(10)); len(got) != 0 {
		t.Errorf("a difference of no age is reported: %v", got)
	}
	got := tracker.Disagreements(after(11))
	if len(got) != 1 || got[0].Namespace != key.Namespace || got[0].Service != key.Name || !got[0].Since.Equal(after(10)) || !slices.Equal(got[0].Ours, ours) || !slices.Equal(got[0].Theirs, theirs) {
		t.Errorf("disagreements %v", got)
	}
	tracker.Theirs(key, ours, true, after(20))
	if got := tracker.Disagreements(after(100)); len(got) != 0 {
		t.Errorf("agreement is reported: %v", got)
	}
}

func TestNothingIsComparedBeforeTheFirstList(t *testing.T) {
	ours, theirs := Addresses{"10.0.0.1:80/TCP"}, Addresses{"10.0.0.9:80/TCP"}
	tracker := NewTracker()
	tracker.Ours(key, Expected{Addresses: ours}, true, after(0))
	if behind, differing := tracker.Behind(after(100)), tracker.Disagreements(after(100)); behind != 0 || len(differing) != 0 {
		t.Errorf("before the first list: %v behind, differing %v", behind, differing)
	}
	tracker.Replace("", map[syncer.Key]Addresses{key: theirs}, after(100))
	if behind := tracker.Behind(after(110)); behind != 10*time.Second {
		t.Errorf("%v behind, want the time since the list", behind)
	}
	tracker.Replace("", map[syncer.Key]Addresses{key: ours}, after(120))
	if len(tracker.Disagreements(after(125))) != 0 {
		t.Error("a list that agrees does not end the difference")
	}
	tracker.Replace("", nil, after(130))
	if got := tracker.Disagreements(after(140)); len(got) != 1 || len(got[0].Theirs) != 0 {
		t.Errorf("differing %v after a list that lacks theirs", got)
	}
	if behind := tracker.Behind(after(140)); behind != 0 {
		t.Errorf("%v behind: theirs was the one to change", behind)
	}
}

func TestWhatWentOnOutOfSightIsNotHeldAgainstThem(t *testing.T) {
	a, b := Addresses{"10.0.0.1:80/TCP"}, Addresses{"10.0.0.1:80/TCP", "10.0.0.2:80/TCP"}
	level := []step{{0, false, a, false}, {0, true, a, false}}
	for _, test := range []struct {
		name          string
		before, after []step // the gap, which ends at 60 s
		behind        time.Duration
		measured      []time.Duration
	}{
		{"theirs followed in the gap", []step{{1, false, b, false}}, []step{{60, true, b, false}}, 0, nil},
		{"theirs follows later", []step{{1, false, b, false}}, []step{{65, true, b, false}}, 0, nil},
		{"theirs does not follow", []step{{1, false, b, false}}, nil, 10 * time.Second, nil},
		{"ours is caught up with", []step{{30, true, b, false}}, []step{{61, false, b, false}}, 0, nil},
		{"ours had come before", []step{{58, true, b, false}}, []step{{57, false, b, false}}, 0, nil},
		{"a change after it", nil, []step{{61, false, b, false}, {63, true, b, false}}, 0, []time.Duration{2 * time.Second}},
	} {
		tracker := listed()
		var measured []time.Duration
		play := func(steps []step) {
			for _, s := range steps {
				if late, ok := s.tell(tracker); ok {
					measured = append(measured, late)
				}
			}
		}
		play(level)
		play(test.before)
		measured = nil
		tracker.See(after(60))
		if got := tracker.Disagreements(after(60)); len(got) != 0 {
			t.Errorf("%s: at once it is said to have differed for long: %v", test.name, got)
		}
		play(test.after)
		if got := tracker.Behind(after(70)); got != test.behind {
			t.Errorf("%s: %v behind, want %v", test.name, got, test.behind)
		}
		if !slices.Equal(measured, test.measured) {
			t.Errorf("%s: measured %v, want %v", test.name, measured, test.measured)
		}
	}
}

func TestForgetsWhatBothSidesLost(t *testing.T) {
	tracker := listed()
	tracker.Ours(syncer.Key{Namespace: "shop", Name: "unknown"}, Expected{}, false, after(0))
	tracker.Theirs(syncer.Key{Namespace: "shop", Name: "unknown"}, nil, false, after(0))
	tracker.Ours(key, Expected{Addresses: Addresses{"10.0.0.1"}}, true, after(0))
	tracker.Theirs(key, Addresses{"10.0.0.1"}, true, after(1))
	tracker.Ours(key, Expected{}, false, after(2))
	tracker.Theirs(key, nil, false, after(3))
	if len(tracker.services) != 0 {
		t.Errorf("%d Services are remembered", len(tracker.services))
	}
}

func TestOfIgnoresGrouping(t *testing.T) {
	address := func(s string) syncer.Address { return syncer.Address{Addr: netip.MustParseAddr(s)} }
	http, dns := syncer.Port{Name: "http", Protocol: syncer.TCP, Number: 80}, syncer.Port{Name: "dns", Protocol: syncer.UDP, Number: 53}
	one := []syncer.Subset{{Ready: []syncer.Address{address("10.0.0.1")}, NotReady: []syncer.Address{address("10.0.0.2")}, Ports: []syncer.Port{http, dns}}}
	two := []syncer.Subset{
		{NotReady: []syncer.Address{address("10.0.0.2")}, Ports: []syncer.Port{dns, http}},
		{Ready: []syncer.Address{address("10.0.0.1")}, Ports: []syncer.Port{dns}},
		{Ready: []syncer.Address{address("10.0.0.1")}, Ports: []syncer.Port{http}},
	}
	want := Addresses{"10.0.0.1:53/UDP", "10.0.0.1:80/TCP", "10.0.0.2:53/UDP not ready", "10.0.0.2:80/TCP not ready"}
	for _, subsets := range [][]syncer.Subset{one, two} {
		if got := Of(subsets); !slices.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
	}
	if got := Of([]syncer.Subset{{Ready: []syncer.Address{address("fd00::1")}}}); !slices.Equal(got, Addresses{"fd00::1"}) {
		t.Errorf("without ports: %v", got)
	}
}
