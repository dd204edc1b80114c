// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/syncer"
)

var hand = syncer.Key{Namespace: "shop", Name: "hand"}

// handIPs are n addresses that nothing else has; different for each group.
func handIPs(group, n int) (ips []string) {
	for i := range n {
		ips = append(ips, fmt.Sprintf("10.9.%d.%d", group, i+1))
	}
	return ips
}

// byHand are the Service "hand", without selector, and slices of its, as many as
// there are sizes.
func byHand(sizes ...int) []runtime.Object {
	objects := []runtime.Object{manual("shop", "hand")}
	for i, n := range sizes {
		objects = append(objects, newSlice("shop", fmt.Sprint("hand-", i+1), "hand", "somebody", handIPs(i+1, n)...))
	}
	return objects
}

// wantHand compares the number of ready addresses of "hand"; -1 is pending.
func (w *world) wantHand(want int) {
	w.t.Helper()
	got := w.addresses("shop", "hand")
	n := len(got)
	if n == 1 && strings.HasSuffix(got[0], "pending") {
		n = -1
	}
	if n != want {
		w.t.Errorf("hand has %d ready addresses, want %d", n, want)
	}
}

// TestKindThatWasNeverThereIsNotMissing checks that a list which lacks what it
// never had keeps nothing: most Services have either Endpoints or slices.
func TestKindThatWasNeverThereIsNotMissing(t *testing.T) {
	for name, object := range map[string]runtime.Object{
		"Endpoints": newEndpoints("shop", "hand", handIPs(1, 20)...),
		"slices":    newSlice("shop", "hand-1", "hand", "somebody", handIPs(1, 20)...),
	} {
		t.Run(name+" alone", func(t *testing.T) {
			running(t, nil, func(w *world, a *fakeAPI) {
				a.put(manual("shop", "hand"), object.DeepCopyObject())
				w.pass(5 * time.Second)
				for range 3 {
					w.set.Relist("a")
					w.pass(time.Minute)
					w.wantHolds()
					w.wantState("a", Live, ReasonNone)
					w.wantHand(20)
				}
			})
		})
	}
}

func TestSlicesVanishFromAList(t *testing.T) {
	for name, c := range map[string]struct {
		sizes      []int
		hidden     string // names of slices
		endpoints  int    // that Endpoints name as well: all of the first slice
		soon, late int    // ready after a second, and after ten
	}{
		"few addresses":                   {sizes: []int{20, 20, 10}, hidden: "hand-3", soon: 40, late: 40},
		"a third":                         {sizes: []int{20, 20, 20}, hidden: "hand-1", soon: 60, late: 40},
		"most":                            {sizes: []int{20, 40, 40}, hidden: "hand-2 hand-3", soon: 100, late: 100},
		"the last of a few":               {sizes: []int{2}, hidden: "hand-1", soon: 2, late: 0},
		"what Endpoints give as well":     {sizes: []int{20, 20}, hidden: "hand-1", endpoints: 20, soon: 40, late: 40},
		"one without addresses and a few": {sizes: []int{0, 5, 40}, hidden: "hand-1 hand-2", soon: 40, late: 40},
	} {
		t.Run(name, func(t *testing.T) {
			guarded(t, nil, func(w *world, a *fakeAPI) {
				a.refuse("endpointslices")
				a.put(byHand(c.sizes...)...)
				if c.endpoints > 0 {
					a.put(newEndpoints("shop", "hand", handIPs(1, c.endpoints)...))
				}
				w.pass(5 * time.Second)
				a.hide("endpointslices", func(name string) bool { return strings.Contains(c.hidden, name) })
				w.set.Relist("a")
				w.pass(time.Second)
				w.wantHand(c.soon)
				w.pass(9 * time.Second)
				w.wantHand(c.late)
				if c.soon != c.late {
					w.wantHolds()
				}
			})
		})
	}
}

// TestSlicesAreHeldOneByOne checks what ends the keeping of slices that a list
// lacks: each is seen again, deleted or released for itself.
func TestSlicesAreHeldOneByOne(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.put(byHand(20, 20, 20, 20, 20)...)
		w.pass(5 * time.Second)
		w.sink.take()
		show := a.hide("endpointslices", func(name string) bool { return name != "hand-1" })
		w.set.Relist("a")
		w.pass(time.Minute)
		w.wantHand(100)
		w.wantDirty()
		w.wantHolds("shop/hand list_shrank")
		w.wantKept(evidence.HoldList, 4)

		a.put(newSlice("shop", "hand-2", "hand", "somebody", handIPs(2, 15)...))
		w.pass(0)
		w.wantHand(95)
		w.wantHolds("shop/hand list_shrank")
		if got, ok := w.set.Release("a", &hand); !ok || got.Manual != 3 {
			t.Errorf("released %+v, %v", got, ok)
		}
		w.wantHand(35)
		w.pass(time.Second)
		w.wantHolds()
		show()
		w.set.Relist("a")
		w.pass(10 * time.Second)
		w.wantHand(95)

		a.hide("endpointslices", func(name string) bool { return name != "hand-1" })
		w.set.Relist("a")
		w.pass(time.Second)
		w.wantHolds("shop/hand list_shrank")
		a.put(newSlice("shop", "hand-3", "elsewhere", "somebody", handIPs(3, 20)...)) // another Service's by now
		w.pass(0)
		w.wantHand(75)
		w.wantHolds("shop/hand list_shrank")
		a.remove("services", "shop", "hand")
		w.pass(time.Minute)
		w.wantHolds()
	})
}

// TestWhatAListShowsIsBelieved checks that only absence is doubted: an object that
// is listed says itself what it has.
func TestWhatAListShowsIsBelieved(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.put(append(byHand(40), newEndpoints("shop", "hand", handIPs(2, 40)...))...)
		w.pass(5 * time.Second)
		w.wantHand(80)
		a.put(newEndpoints("shop", "hand", handIPs(2, 1)...), newSlice("shop", "hand-1", "hand", "somebody", handIPs(1, 1)...))
		a.with(func() { // nobody saw it happen
			a.oldest = a.rv
			a.closing++
		})
		w.pass(5 * time.Second)
		w.wantHand(2)
		w.wantHolds()
	})
}

func TestFirstListOfHandWrittenEndpoints(t *testing.T) {
	late := func(resource string) func(a *fakeAPI) {
		return func(a *fakeAPI) {
			a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, resource) {
					select {
					case <-r.Context().Done():
					case <-time.After(300 * time.Millisecond):
					}
				}
				return false
			}
		}
	}
	for name, order := range map[string]func(*fakeAPI){
		"before the pods": late("/pods"), "Endpoints last": late("/endpoints"), "slices last": late("/endpointslices"),
	} {
		for shown, c := range map[string]struct {
			stands, has int
			objects     []runtime.Object
			refused     bool
			want        string // "believed", "confirmed", "held"
		}{
			"as before":      {30, 30, []runtime.Object{newEndpoints("shop", "hand", handIPs(1, 30)...)}, false, "believed"},
			"in slices now":  {30, 30, byHand(30)[1:], false, "believed"},
			"a part is gone": {30, 20, []runtime.Object{newEndpoints("shop", "hand", handIPs(1, 20)...)}, false, "believed"},
			"most is gone":   {30, 5, []runtime.Object{newEndpoints("shop", "hand", handIPs(1, 5)...)}, false, "believed"},
			"all is gone":    {30, 0, nil, false, "believed"},
			"there was none": {0, 0, nil, false, "believed"},
			"a few are gone, and may not be asked for": {5, 0, nil, true, "confirmed"},
			"all is gone, and may not be asked for":    {30, 0, nil, true, "held"},
		} {
			t.Run(name+", "+shown, func(t *testing.T) {
				stands := func(o *Options) {
					o.Standing = stand(map[syncer.Key]int{replica: 20, hand: c.stands})
				}
				inWorld(t, stands, func(w *world) {
					a := w.api("uid-a")
					fill(a)
					a.put(manual("shop", "hand"))
					for _, object := range c.objects {
						a.put(object.DeepCopyObject())
					}
					order(a)
					if c.refused {
						a.refuse("endpoints")
					}
					w.reach("a", a.config(""), "1")
					w.pass(2 * time.Second)
					w.wantReady(20, 12, 1) // nobody else waits for it
					if c.want == "believed" {
						w.wantHand(c.has)
						w.wantHolds()
						return
					}
					w.wantHand(c.stands + c.has)
					w.wantHolds("shop/hand first_list_shrank")
					w.wantState("a", Live, evidence.ReasonChangesHeld)
					w.pass(12 * time.Second) // what is refused is asked for again first
					if c.want == "confirmed" {
						w.wantHand(c.has)
						w.wantHolds()
						return
					}
					w.pass(10 * time.Minute)
					w.wantHand(c.stands)
					w.wantHolds("shop/hand first_list_shrank")
					a.put(newEndpoints("shop", "hand", handIPs(1, 25)...))
					w.pass(5 * time.Second)
					w.wantHand(25)
					w.wantHolds()
					w.wantState("a", Live, ReasonNone)
				})
			})
		}
	}
}

func TestFirstHandWrittenEndpointsAreReleasedByHand(t *testing.T) {
	stands := func(o *Options) {
		o.Standing = stand(map[syncer.Key]int{hand: 30})
	}
	inWorld(t, stands, func(w *world) {
		a := w.api("uid-a")
		a.refuse("endpoints")
		a.put(manual("shop", "hand"))
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantHand(30)
		if got, ok := w.set.Release("a", &hand); !ok || got.Standing != 30 {
			t.Errorf("released %+v, %v", got, ok)
		}
		w.wantHand(0)
		w.pass(time.Minute)
		w.wantHand(0)
		w.wantHolds()
	})
}

// TestHandWrittenEndpointsFromThePast checks that lists of a member that went back
// in time are not used at once, neither what they lack nor what they show.
func TestHandWrittenEndpointsFromThePast(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.put(append(byHand(5), newEndpoints("shop", "hand", handIPs(7, 1)...))...)
		a.put(newEndpoints("shop", "hand", handIPs(7, 20)...))
		w.pass(time.Minute)
		w.wantHand(25)
		w.sink.take()
		a.with(func() { // the backup has one address of the Endpoints, and no slice
			a.drop("endpointslices", func(string) bool { return true })
			a.drop("endpoints", func(string) bool { return true })
			a.events = append(a.events, fakeEvent{a.rv, "endpoints", "ADDED", nil, newEndpoints("shop", "hand", handIPs(7, 1)...)})
			a.rewind(60)
		})
		for passed := time.Duration(0); w.status("a").Reason != string(evidence.ReasonRevisionRegressed); passed += 100 * time.Millisecond {
			if passed > 20*time.Second {
				t.Fatal("not noticed within 20 s")
			}
			w.pass(100 * time.Millisecond)
		}
		w.pass(time.Second)
		w.wantHand(25)
		w.wantDirty()
		w.wantHolds("a revision_regressed")
		a.put(newEndpoints("shop", "hand", handIPs(7, 3)...)) // far below the revision that was seen
		w.pass(0)
		w.wantHand(8)
		w.pass(time.Minute)
		w.wantHand(3)
		w.wantHolds()
		w.wantState("a", Live, ReasonNone)
	})
}

// TestWhatIsWrittenIsAskedForWhole checks that an answer about all that is written for a
// Service takes out what it lacks, though the watch has not told of it.
func TestWhatIsWrittenIsAskedForWhole(t *testing.T) {
	stands := func(o *Options) { o.Standing = stand(map[syncer.Key]int{hand: 20}) }
	inWorld(t, stands, func(w *world) {
		a := w.api("uid-a")
		a.with(func() { a.deny["endpointslices"] = http.StatusInternalServerError })
		a.put(manual("shop", "hand"), newEndpoints("shop", "hand", handIPs(1, 1)...))
		w.reach("a", a.config(""), "1")
		w.pass(5 * time.Second)
		a.with(func() { a.muted = a.opened })
		a.remove("endpoints", "shop", "hand")
		a.with(func() { clear(a.deny) })
		for range 80 { // until slices are read, and long before the watch is found out
			if w.pass(100 * time.Millisecond); a.openWatches("endpointslices") > 0 {
				break
			}
		}
		w.pass(500 * time.Millisecond)
		w.wantHand(0)
	})
}

// TestSlicesThatAFirstListHides checks that slices are asked for by name when a process starts
// beside lists that lack them, as a running one would, and that no list settles it where their
// names are not on record.
func TestSlicesThatAFirstListHides(t *testing.T) {
	for name, c := range map[string]struct {
		on     []string // record
		gone   bool
		refuse bool
		want   int
		state  State
		reason Reason
	}{
		"by name":               {[]string{"hand-1"}, false, false, 12, Suspect, evidence.ReasonListIncomplete},
		"gone by name":          {[]string{"hand-1"}, true, false, 0, Live, ReasonNone},
		"without names":         {nil, false, false, 12, Live, evidence.ReasonChangesHeld},
		"may not be asked for":  {[]string{"hand-1"}, false, true, 12, Live, evidence.ReasonChangesHeld},
		"not all of it is seen": {[]string{"Endpoints", "hand-1"}, false, false, 12, Suspect, evidence.ReasonListIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			standing := Standing{Sources: []syncer.Key{hand}, HandWritten: map[syncer.Key][]string{hand: c.on}}
			for _, ip := range handIPs(1, 12) {
				standing.Endpoints = append(standing.Endpoints, syncer.Endpoint{Addr: netip.MustParseAddr(ip), Ready: true, Serving: true})
			}
			stands := func(o *Options) {
				o.Standing = func(string) map[syncer.Key]Standing { return map[syncer.Key]Standing{hand: standing} }
			}
			inWorld(t, stands, func(w *world) {
				a := w.api("uid-a")
				a.put(byHand(12)...)
				if c.gone {
					a.remove("endpointslices", "shop", "hand-1")
				}
				a.hide("endpointslices", func(string) bool { return true })
				if c.refuse {
					a.refuse("endpointslices")
				}
				w.reach("a", a.config(""), "1")
				for range 10 {
					w.pass(3 * time.Second)
					w.wantHand(c.want)
				}
				w.wantState("a", c.state, c.reason)
				w.pass(10 * time.Minute)
				w.wantHand(c.want)
				if got := w.set.Peek(hand).Shares[0].WrittenIn; c.want > 0 && !slices.Contains(got, "hand-1") != (c.on == nil) {
					t.Errorf("written in %v", got)
				}
			})
		})
	}
}
