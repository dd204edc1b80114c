// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
)

// A Service of ours that lost its label is somebody else's. What is left of ours
// under its name follows removals, and nothing else.
func TestRemovalsReachWhatIsLeftUnderAForeignService(t *testing.T) {
	const ports = "http:80>8080 admin:81>9000"
	tests := []struct {
		name   string
		now    []Contribution
		damage func(*Current)
		writes int
		served []string
	}{
		{"nothing changed", []Contribution{from("idc-a", 100, ports, "10.0.0.1", "10.0.0.2", "10.0.0.3!", "10.0.0.4"), from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")},
			nil, 0, []string{"10.0.0.1", "10.0.0.2", "10.0.0.4", "10.1.0.1", "10.1.0.2"}},
		{"a pod goes, another comes, a third turns ready", []Contribution{from("idc-a", 100, ports, "10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.9"), from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")},
			nil, 2, []string{"10.0.0.1", "10.0.0.4", "10.1.0.1", "10.1.0.2"}},
		{"one turns unready", []Contribution{from("idc-a", 100, ports, "10.0.0.1!", "10.0.0.2", "10.0.0.3!", "10.0.0.4"), from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")},
			nil, 2, []string{"10.0.0.2", "10.0.0.4", "10.1.0.1", "10.1.0.2"}},
		{"one terminates", []Contribution{from("idc-a", 100, ports, "10.0.0.1~!", "10.0.0.2", "10.0.0.3!", "10.0.0.4"), from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")},
			nil, 2, []string{"10.0.0.2", "10.0.0.4", "10.1.0.1", "10.1.0.2"}},
		{"a whole member leaves", []Contribution{from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")},
			nil, 3, []string{"10.1.0.1", "10.1.0.2"}},
		{"ports change", []Contribution{from("idc-a", 100, "http:80>8081", "10.0.0.1", "10.0.0.2"), from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")},
			nil, 3, []string{"10.0.0.1", "10.0.0.2", "10.1.0.1", "10.1.0.2"}},
		{"Endpoints are foreign too", []Contribution{from("idc-a", 100, ports, "10.0.0.1"), from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")},
			func(o *Current) { o.Endpoints.strip() }, 2, []string{"10.0.0.1", "10.1.0.1", "10.1.0.2"}},
		{"a slice is foreign too", []Contribution{from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")},
			func(o *Current) { o.Slices[0].strip() }, 2, []string{"10.1.0.1", "10.1.0.2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, _ := stand(t)
			w.current.Service.strip()
			if tt.damage != nil {
				tt.damage(&w.current)
			}
			foreign, before := w.foreignSnapshot(), w.dumbStates()
			p := Diff(w.current, mergeOrNil(tt.now, w.current, bothKinds), bothKinds)
			if len(p.Conflicts) == 0 || p.Conflicts[0].Reason != ConflictForeign {
				t.Errorf("conflicts %+v", p.Conflicts)
			}
			for _, stage := range p.Sequence() {
				for _, a := range stage {
					if a.Verb != Update || a.Kind == KindService {
						t.Errorf("%s %s %s under a foreign Service", a.Verb, a.Kind, a.Name)
					}
				}
			}
			w.execute(p, nil)
			if w.writes != tt.writes {
				t.Errorf("%d writes, want %d: %s", w.writes, tt.writes, textOf(t, p))
			}
			if w.foreignSnapshot() != foreign {
				t.Error("a foreign object changed")
			}
			if d := dumbDelta(before, w.dumbStates()); len(d.Added)+len(d.Readied) > 0 || !slices.Equal(d.Removed, p.Delta.Removed) || !slices.Equal(d.Unreadied, p.Delta.Unreadied) {
				t.Errorf("delta %+v, the plan says %+v", d, p.Delta)
			}
			if got := readyAddresses(w); !slices.Equal(got, tt.served) {
				t.Errorf("%v are served, want %v", got, tt.served)
			}
			if p := Diff(w.current, mergeOrNil(tt.now, w.current, bothKinds), bothKinds); !p.Empty() {
				t.Errorf("not settled: %s", textOf(t, p))
			}
		})
	}
}

// readyAddresses are those that our objects show as ready, sorted.
func readyAddresses(w *world) []string {
	var out []string
	for at, state := range w.dumbStates() {
		if state == ready {
			out = append(out, at.Addr().String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Endpoints that lost our label are left alone; the slices beside them are kept up.
func TestStrippedEndpointsAreLeftAlone(t *testing.T) {
	w, _ := stand(t)
	w.current.Endpoints.strip()
	foreign := w.foreignSnapshot()
	settled(t, w, []Contribution{from("idc-a", 100, "http:80>8080", "10.0.0.1", "10.0.0.9"), from("idc-b", 200, "http:80>8080", "10.1.0.1")})
	if w.foreignSnapshot() != foreign {
		t.Error("a foreign object changed")
	}
	if got, want := readyAddresses(w), []string{"10.0.0.1", "10.0.0.9", "10.1.0.1"}; !slices.Equal(got, want) {
		t.Errorf("slices serve %v, want %v", got, want)
	}
}

// A slice that lost our label is left alone, and its endpoints get another.
func TestStrippedSliceIsReplaced(t *testing.T) {
	w, contributions := stand(t)
	w.current.Slices[0].strip()
	foreign := w.foreignSnapshot()
	settled(t, w, contributions)
	if w.foreignSnapshot() != foreign {
		t.Error("a foreign object changed")
	}
	mine := func(s CurrentSlice) bool { return s.Owned && s.Cluster == "idc-a" }
	if at := slices.IndexFunc(w.current.Slices, mine); at < 0 {
		t.Error("the endpoints have no slice of ours")
	}
}
