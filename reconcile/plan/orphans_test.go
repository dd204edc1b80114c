// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

// leave takes clusters out of the configuration: what stands of them comes with the
// contributions of the others.
func leave(w *world, contributions []Contribution, out ...string) []Contribution {
	all := slices.DeleteFunc(slices.Clone(contributions), func(c Contribution) bool { return slices.Contains(out, c.Cluster) })
	for _, cluster := range out {
		for _, c := range w.current.Share(cluster) {
			c.Orphan = true
			all = append(all, c)
		}
	}
	return all
}

func TestKeptOfClustersThatAreNotConfigured(t *testing.T) {
	w := newWorld(t, shopWeb)
	all := []Contribution{from("idc-a", 1, "http:80", "10.1.0.1"), from("idc-b", 2, "http:80", "10.2.0.1"),
		from("idc-empty", 3, "http:80"), from("idc-old", 4, "http:80", "10.0.0.1", "10.0.0.2!")}
	w.settle(mergeOrNil(all, w.current, bothKinds), bothKinds, nil)
	r := Merge(shopWeb, leave(w, all, "idc-old", "idc-empty"), w.current, bothKinds)
	if p := Diff(w.current, &r, bothKinds); !slices.Equal(p.Kept, []Kept{{"idc-old", 2}}) {
		t.Errorf("kept %v", p.Kept)
	}
}

// orders is a Policy that lists an order for the cluster with the oldest source.
type orders map[string]string

func (o orders) Order(_ syncer.Key, cluster string, _ *syncer.Service) []string {
	return strings.Fields(o[cluster])
}
func (orders) Drain(string) (drain, force bool) { return false, false }
func (orders) Misread(*syncer.Service) string   { return "" }

// What others serve in place of a cluster that is not configured any more goes in one
// plan, slices and record included, as if it had never been there: then a restart
// finds nothing to write.
func TestOthersTakeThePlaceOfAnAbandonedCluster(t *testing.T) {
	a, b, c := from("idc-a", 100, "http:80", "10.0.0.1"), from("idc-b", 200, "http:80", "10.1.0.1"), from("idc-c", 300, "http:80", "10.2.0.1")
	for _, test := range []struct {
		name   string
		orders orders // once idc-a is out
		b      Contribution
		served string
		kept   bool
	}{
		{"union", nil, b, "10.0.0.1:http:80 10.1.0.1:http:80 10.2.0.1:http:80", true},
		{"failover", orders{"idc-a": "idc-b idc-c", "idc-b": "idc-b idc-c"}, b, "10.1.0.1:http:80", false},
		{"failover that only idc-a wanted", orders{"idc-a": "idc-b idc-c"}, b, "10.0.0.1:http:80 10.1.0.1:http:80 10.2.0.1:http:80", true},
		{"failover with nobody ready", orders{"idc-a": "idc-b", "idc-b": "idc-b"}, from("idc-b", 200, "http:80", "10.1.0.1!"), "10.0.0.1:http:80", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, settings := range []Settings{bothKinds, {WriteEndpoints: true}, {WriteSlices: true}} {
				w := newWorld(t, shopWeb)
				all := []Contribution{a, test.b, c}
				if strings.Contains(test.name, "nobody") {
					all = all[:2]
				}
				w.settle(mergeOrNil(all[:1], w.current, settings), settings, nil)
				settings.Policy = test.orders
				run := func() (Desired, Plan) {
					contributions := leave(w, all, "idc-a")
					Steer(shopWeb, contributions, settings.Policy)
					r := Merge(shopWeb, contributions, w.current, settings)
					return r, Diff(w.current, &r, settings)
				}
				r, p := run()
				if got := servedText(&r); settings.WriteSlices && got != test.served {
					t.Errorf("served %q, want %q", got, test.served)
				}
				if len(p.Kept) > 0 != test.kept {
					t.Errorf("kept %v", p.Kept)
				}
				w.execute(p, nil)
				if _, again := run(); !again.Empty() {
					t.Errorf("a second look writes:\n%s", textOf(t, again))
				}
				if stands := slices.Contains(w.current.Clusters(), "idc-a"); stands != test.kept {
					t.Errorf("idc-a is on record: %v", stands)
				}
			}
		})
	}
}

// A cluster with a new name is one taken out and one put in: what the one says that is
// followed counts, not what stood of the other.
func TestAFollowedMemberOutranksAnAbandonedOne(t *testing.T) {
	for _, test := range []struct{ name, live, served string }{
		{"not ready", "10.0.0.1!", "!10.0.0.1:http:80"},
		{"terminating", "10.0.0.1~", "!10.0.0.1:http:80"},
		{"ready", "10.0.0.1", "10.0.0.1:http:80"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, shopWeb)
			old := []Contribution{from("idc-a", 100, "http:80", "10.0.0.1")}
			w.settle(mergeOrNil(old, w.current, bothKinds), bothKinds, nil)
			live := from("idc-z", 100, "http:80", test.live)
			r := Merge(shopWeb, leave(w, append(old, live), "idc-a"), w.current, bothKinds)
			if got := servedText(&r); got != test.served {
				t.Errorf("served %q, want %q", got, test.served)
			}
			if slices.ContainsFunc(r.Slices, func(s SliceSpec) bool { return s.Cluster != "idc-z" }) || len(r.Conflicts) > 0 {
				t.Errorf("something of idc-a is left: %+v, %v", r.Slices, r.Conflicts)
			}
		})
	}
	// Where the new one does not name an address, the old one's stays.
	w := newWorld(t, shopWeb)
	old := []Contribution{from("idc-a", 100, "http:80", "10.0.0.1", "10.0.0.2")}
	w.settle(mergeOrNil(old, w.current, bothKinds), bothKinds, nil)
	r := Merge(shopWeb, leave(w, append(old, from("idc-z", 100, "http:80", "10.0.0.1!")), "idc-a"), w.current, bothKinds)
	if got := servedText(&r); got != "!10.0.0.1:http:80 10.0.0.2:http:80" || len(r.Conflicts) > 0 {
		t.Errorf("served %q, conflicts %v", got, r.Conflicts)
	}
}

// What is not followed is no reason to take away what is: neither what stands of a
// cluster that is not configured nor what a member said long ago.
func TestWhatIsNotFollowedIsNotCounted(t *testing.T) {
	const orphan = "10.0.0.1:http:80"
	type flags struct {
		drain, stale, panicking bool
		failover                int
	}
	for _, test := range []struct {
		name            string
		b, c            string // addresses of idc-b and idc-c beside an orphan's ready one
		fb, fc          flags
		served, trouble string
	}{
		{"the only member is drained", "10.1.0.1", "", flags{drain: true}, flags{}, orphan + " 10.1.0.1:http:80", "drain_last_ready@idc-b"},
		{"another member is ready", "10.1.0.1", "10.2.0.1", flags{drain: true}, flags{}, orphan + " 10.2.0.1:http:80", ""},
		{"another member is not ready", "10.1.0.1", "10.2.0.1!", flags{drain: true}, flags{}, "!10.2.0.1:http:80 " + orphan + " 10.1.0.1:http:80", "drain_last_ready@idc-b"},
		{"another member is stale", "10.1.0.1", "10.2.0.1", flags{drain: true}, flags{stale: true}, "!10.2.0.1:http:80 " + orphan + " 10.1.0.1:http:80", "drain_last_ready@idc-b"},
		{"stale", "10.1.0.1", "", flags{stale: true}, flags{}, orphan + " 10.1.0.1:http:80", "stale_last_ready@idc-b"},
		{"stale beside a ready member", "10.1.0.1", "10.2.0.1", flags{stale: true}, flags{}, "!10.1.0.1:http:80 " + orphan + " 10.2.0.1:http:80", ""},
		{"failover prefers a silent member", "10.1.0.1", "", flags{stale: true, failover: 1}, flags{}, "10.1.0.1:http:80", "stale_last_ready@idc-b"},
		{"failover prefers one in panic", "10.1.0.1", "", flags{panicking: true, failover: 1}, flags{}, "10.1.0.1:http:80", ""},
		{"failover, nobody else is ready", "10.1.0.1!", "", flags{failover: 1}, flags{}, orphan, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, shopWeb)
			// The orphan's Service is the oldest of all.
			all := []Contribution{from("idc-a", 1, "http:80", "10.0.0.1")}
			w.settle(mergeOrNil(all, w.current, bothKinds), bothKinds, nil)
			for _, m := range []struct {
				cluster, address string
				flags
			}{{"idc-b", test.b, test.fb}, {"idc-c", test.c, test.fc}} {
				if m.address == "" {
					continue
				}
				c := from(m.cluster, 2, "http:80", m.address)
				c.Drain, c.Stale, c.Panicking, c.Failover = m.drain, m.stale, m.panicking, m.failover
				all = append(all, c)
			}
			all = leave(w, all, "idc-a")
			if test.fb.failover > 0 {
				all[len(all)-1].Failover = len(all) + 1
			}
			r := Merge(shopWeb, all, w.current, bothKinds)
			if got := servedText(&r); got != test.served {
				t.Errorf("served %q, want %q", got, test.served)
			}
			if got := reasons(&r); got != test.trouble {
				t.Errorf("reported %q, want %q", got, test.trouble)
			}
		})
	}
}

// However old the Service was that a cluster had which is not configured any more, it does
// not decide what the replica is.
func TestAnOrphanDecidesNothing(t *testing.T) {
	w := newWorld(t, shopWeb)
	old := annotatedWith(from("idc-a", 1, "http:80", "10.0.0.1"), AnnotationMode, "failover")
	old.Service.Labels = map[string]string{"of": "idc-a"}
	w.settle(mergeOrNil([]Contribution{old}, w.current, bothKinds), bothKinds, nil)
	live := from("idc-b", 2, "http:81", "10.1.0.1")
	live.Service.Labels = map[string]string{"of": "idc-b"}
	all := leave(w, []Contribution{old, live}, "idc-a")
	Steer(shopWeb, all, orders{"idc-a": "idc-b"})
	r := Merge(shopWeb, all, w.current, bothKinds)
	if portsText(&r) != "http:81/TCP→81" || r.Service.Labels["of"] != "idc-b" || all[0].Failover != 0 {
		t.Errorf("ports %s, labels %v, failover %d", portsText(&r), r.Service.Labels, all[0].Failover)
	}
}

// That a cluster leaves the configuration is nothing to write by itself, also where its
// Service was the oldest.
func TestAClusterThatLeavesIsNothingToWrite(t *testing.T) {
	w := newWorld(t, shopWeb)
	all := []Contribution{from("idc-a", 1, "http:80", "10.0.0.1"), from("idc-b", 2, "http:80", "10.1.0.1")}
	w.settle(mergeOrNil(all, w.current, bothKinds), bothKinds, nil)
	all = leave(w, all, "idc-a")
	r := Merge(shopWeb, all, w.current, bothKinds)
	if p := Diff(w.current, &r, bothKinds); !p.Empty() {
		t.Errorf("it would write %+v", p)
	}
}
