// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/syncer"
)

// A replica is written in order, changes of it at once; a restart writes nothing.
func TestReplicaFromFirstToLast(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		slice := g.slice()
		want := []string{"create namespaces shop 201", "create services shop/web 201", "create endpointslices shop/" + slice + " 201", "create endpoints shop/web 201"}
		if got := g.writes(); !slices.Equal(got, want) {
			t.Errorf("written %q, want %q", got, want)
		}
		g.set(web, "a", "1,(2),3")
		g.expect(web, "1,(2),3", 50*time.Millisecond)
		if got := g.writes(); len(got) != 2 {
			t.Errorf("written %q", got)
		}
		g.settled()
		g.process.stop()
		g.process = g.start()
		g.pass(time.Second)
		g.quiet(time.Minute)
		g.set(web, "a", "-")
		g.expect(web, "-", 50*time.Millisecond)
		g.settled()
		g.quiet(time.Minute)
	})
}

// slice is the name of the only one.
func (g *ground) slice() string {
	g.t.Helper()
	all := apitest.List[*discoveryv1.EndpointSlice](g.server, "shop")
	if len(all) != 1 {
		g.t.Fatalf("%d slices", len(all))
	}
	return all[0].Name
}

// faults decide about writes of the test's process.
func (g *ground) fault(f func(apitest.Request) *apitest.Fault) {
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if f == nil || r.UserAgent != agent || r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" {
			return nil
		}
		return f(r)
	})
}

// A removal is written at once while a Service's PUT hangs, which it does for a new port.
func TestRemovalWhileServiceHangs(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		g.fault(func(r apitest.Request) *apitest.Fault {
			if r.Resource == "services" {
				return &apitest.Fault{Hang: true}
			}
			return nil
		})
		g.set(web, "a", "1,2", 9090)
		g.pass(time.Second)
		g.set(web, "a", "1", 9090)
		for range 2 {
			g.pass(30 * time.Millisecond)
			if in, at := g.published(web); strings.Contains(in, "2") || strings.Contains(at, "2") {
				t.Errorf("the removed address is in slices %q, Endpoints %q", in, at)
			}
		}
		if len(g.oldest()) == 0 {
			t.Error("no lag though a port is not written")
		}
		g.fault(nil)
		g.pass(time.Minute)
		g.expect(web, "1", 0)
		if ep, _ := apitest.Get[*corev1.Endpoints](g.server, "shop", "web"); ep.Subsets[0].Ports[0].Port != 9090 {
			t.Errorf("Endpoints have port %d", ep.Subsets[0].Ports[0].Port)
		}
		g.settled()
	})
}

// An addition that the server refuses delays no removal of the same object; it is written when
// the server accepts it. Both are on record, and in the troubles meanwhile.
func TestRemovalBesideARefusedAddition(t *testing.T) {
	refuse := map[string]func(g *ground, on bool){
		"403": func(g *ground, on bool) {
			g.refuse(on, nil, apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "x", errFault))
		},
		"422": func(g *ground, on bool) {
			g.refuse(on, field.ErrorList{field.Invalid(field.NewPath("x"), "x", "no")}, nil)
		},
		"500": func(g *ground, on bool) { g.refuse(on, nil, errFault) },
	}
	for name, refuse := range refuse {
		t.Run(name, func(t *testing.T) {
			play(t, func(g *ground) {
				g.set(web, "a", "1,2")
				g.expect(web, "1,2", 50*time.Millisecond)
				g.seen.told()
				refuse(g, true)
				g.set(web, "a", "1,3")
				g.expect(web, "1", 50*time.Millisecond)
				g.pass(time.Second)
				if told := g.seen.told(); !slices.Contains(told, "failed -2") {
					t.Errorf("told %q", told)
				}
				if reasons := g.seen.reasons(web); !slices.Contains(reasons, ConflictRefused) {
					t.Errorf("troubles %q", reasons)
				}
				g.set(web, "a", "3,4") // the others go, too
				g.expect(web, "", 50*time.Millisecond)
				g.pass(2 * time.Minute)
				if n := len(g.writes()); n > 60 {
					t.Errorf("tried %d times in two minutes", n)
				}
				if len(g.oldest()) == 0 {
					t.Error("no lag though additions are refused")
				}
				refuse(g, false)
				g.expect(web, "3,4", 40*time.Second)
				told := g.seen.told()
				if !slices.Contains(told, "written +3 +4") {
					t.Errorf("told %q", told)
				}
				if reasons := g.seen.reasons(web); len(reasons) > 0 {
					t.Errorf("troubles %q", reasons)
				}
				g.settled()
			})
		})
	}
}

// Somebody edits an object again and again: the removal is written all the same, soon.
func TestConflicts(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		slice, edits, mu := g.slice(), 0, sync.Mutex{}
		g.fault(func(r apitest.Request) *apitest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if r.Verb == "update" && edits < 12 {
				edits++
				apitest.Edit(t, g.server, "shop", slice, func(s *discoveryv1.EndpointSlice) { s.Annotations["edit"] = strings.Repeat("x", edits) })
				apitest.Edit(t, g.server, "shop", "web", func(e *corev1.Endpoints) { e.Annotations["edit"] = strings.Repeat("x", edits) })
			}
			return nil
		})
		g.set(web, "a", "1")
		g.expect(web, "1", time.Second)
		g.pass(time.Minute)
		if reasons := g.seen.reasons(web); len(reasons) > 0 {
			t.Errorf("troubles %q", reasons)
		}
		g.settled()
	})
}

// What others delete is created again; a namespace that ends is waited for, and so are Endpoints
// that a controller has left behind.
func TestObjectsThatGo(t *testing.T) {
	play(t, func(g *ground) {
		left := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{syncer.LabelEndpointsManagedBy: "endpoint-controller"}}}
		g.server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, left)
		g.set(web, "a", "1,2")
		g.pass(time.Second)
		if reasons := g.seen.reasons(web); !slices.Contains(reasons, string(plan.ConflictForeign)) {
			t.Errorf("troubles %q", reasons)
		}
		apitest.Remove[*corev1.Endpoints](t, g.server, "shop", "web")
		g.expect(web, "1,2", 50*time.Millisecond)
		g.server.FreezeWatches("endpointslices")
		g.server.FreezeWatches("endpoints")
		apitest.Remove[*discoveryv1.EndpointSlice](t, g.server, "shop", g.slice())
		apitest.Remove[*corev1.Endpoints](t, g.server, "shop", "web")
		g.set(web, "a", "1")
		g.expect(web, "1", time.Second)
		g.server.ThawWatches("endpointslices")
		g.server.ThawWatches("endpoints")
		g.pass(time.Second)
		g.expect(web, "1", 0)
		apitest.Remove[*corev1.Service](t, g.server, "shop", "web")
		g.pass(time.Second)
		if _, ok := apitest.Get[*corev1.Service](g.server, "shop", "web"); !ok {
			t.Error("the Service is not made again")
		}
		apitest.Edit(t, g.server, "", "shop", func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating })
		apitest.Remove[*corev1.Endpoints](t, g.server, "shop", "web")
		g.pass(time.Second)
		if reasons := g.seen.reasons(web); !slices.Contains(reasons, "namespace_terminating") {
			t.Errorf("troubles %q", reasons)
		}
		g.quiet(time.Minute)
		apitest.Edit(t, g.server, "", "shop", func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceActive })
		g.expect(web, "1", time.Second)
		g.settled()
	})
}

// No answer came, whether the server did what it was asked to or not: nothing is written twice
// or forgotten.
func TestAnswersThatDoNotCome(t *testing.T) {
	for name, fault := range map[string]apitest.Fault{"done": {Do: true, Hang: true}, "not done": {Hang: true}, "done and cut": {Do: true, Cut: true}, "cut": {Cut: true}} {
		t.Run(name, func(t *testing.T) {
			play(t, func(g *ground) {
				g.set(web, "a", "1,2")
				g.expect(web, "1,2", 50*time.Millisecond)
				begun := time.Now()
				g.fault(func(apitest.Request) *apitest.Fault {
					if time.Since(begun) < 2*time.Second {
						return &fault
					}
					return nil
				})
				g.set(web, "a", "1,3")
				g.expect(web, "1,3", 12*time.Second)
				g.pass(time.Minute)
				g.settled()
				g.quiet(time.Minute)
			})
		})
	}
}

// A process whose Permit ends sends nothing more, and cancels what is under way; with a new one it goes on.
func TestDeposed(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		g.fault(func(apitest.Request) *apitest.Fault { return &apitest.Fault{Hang: true} })
		g.set(web, "a", "1")
		g.pass(time.Second)
		g.revoke()
		g.fault(nil)
		g.pass(time.Millisecond)
		g.quiet(time.Hour)
		g.set(web, "a", "2,3")
		g.quiet(time.Minute)
		g.grant()
		g.expect(web, "2,3", 200*time.Millisecond)
		g.settled()
		if slices.ContainsFunc(g.seen.told(), func(s string) bool { return strings.HasPrefix(s, "failed") }) {
			t.Error("what was not sent is on record as failed")
		}
	})
}

// A request that hangs for longer than the Permit, which is renewed meanwhile, has failed like one that hangs
// until its deadline: that is reported, and it is tried again after growing pauses.
func TestCutByTheFormerPermit(t *testing.T) {
	play(t, func(g *ground) {
		g.mu.Lock()
		g.lasts = time.Second
		g.mu.Unlock()
		var tries atomic.Int32
		g.fault(func(r apitest.Request) *apitest.Fault {
			tries.Add(1)
			return &apitest.Fault{Hang: true}
		})
		g.set(web, "a", "1")
		g.pass(time.Minute)
		if reasons := g.seen.reasons(web); !slices.Contains(reasons, ConflictRefused) {
			t.Errorf("troubles %q", reasons)
		}
		if n := tries.Load(); n > 20 {
			t.Errorf("tried %d times in a minute", n)
		}
		g.fault(nil)
		g.expect(web, "1", time.Minute)
	})
}

// A replica that waits while another makes its namespace makes it itself when that has failed.
func TestNamespaceOfTwo(t *testing.T) {
	play(t, func(g *ground) {
		other := syncer.Key{Namespace: web.Namespace, Name: "other"}
		g.fault(func(r apitest.Request) *apitest.Fault { return &apitest.Fault{Hang: true} })
		g.set(web, "a", "1")
		g.pass(time.Second)
		g.set(other, "a", "2")
		g.pass(5 * time.Second)
		g.fault(nil)
		g.set(web, "a", "-")
		g.expect(other, "2", time.Minute)
	})
}

// Two processes: the second compares and writes nothing; when the first ends it goes on. What a
// standby computed of its members before it leads is not written when it does.
func TestStandby(t *testing.T) {
	play(t, func(g *ground) {
		first := g.process
		second := g.start()
		second.revoke()
		g.set(web, "a", "1,2")
		first.r.add(web, record.Cause{Cluster: "a", Kind: "Pod", Arrival: time.Now(), Live: true})
		g.expect(web, "1,2", 50*time.Millisecond)
		g.process = first
		g.settled()
		first.stop()
		g.process = second
		g.set(web, "a", "1")
		g.quiet(time.Minute)
		second.grant()
		g.expect(web, "1", 200*time.Millisecond)
		g.settled()
		second.stop()
		third := g.standBy()
		g.process = third
		g.set(web, "a", "1,3")
		g.quiet(time.Minute)
		if len(g.oldest()) == 0 {
			t.Error("no lag though nobody writes what a member contributes")
		}
		g.mu.Lock() // its members start again with what is published: what it would have written is not to be
		g.shares[web]["a"] = syncer.Share{Member: "a", Listed: true, Given: contribution(web, "1", 8080)}
		g.mu.Unlock()
		g.writes()
		third.lead()
		g.pass(time.Minute)
		if w := g.writes(); len(w) > 0 {
			t.Errorf("written %q", w)
		}
		g.settled()
	})
}

// Somebody undoes what is written: it is repaired, at a pace; removals are not delayed.
func TestRepairs(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		slice := g.slice()
		undo := func() {
			apitest.Edit(t, g.server, "shop", slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) })
		}
		undo()
		g.expect(web, "1,2", 50*time.Millisecond)
		g.writes()
		for range 600 {
			undo()
			g.pass(100 * time.Millisecond)
		}
		if n := len(g.writes()); n < 8 || n > 20 {
			t.Errorf("%d repairs in a minute", n)
		}
		undo()
		g.pass(20 * time.Millisecond)
		g.set(web, "a", "1")
		g.pass(20 * time.Millisecond)
		if in, _ := g.published(web); strings.Contains(in, "2") {
			t.Errorf("a removal is held: %q", in)
		}
		g.expect(web, "1", time.Minute)
		g.pass(time.Minute)
		g.settled()
	})
}

// A namespace that may not be written to is left as it is; the members' wishes are reported.
func TestExcludedNamespaces(t *testing.T) {
	play(t, func(g *ground) {
		own := syncer.Key{Namespace: "own", Name: "web"}
		g.set(own, "a", "1")
		g.quiet(time.Minute)
		if reasons := g.seen.reasons(own); !slices.Equal(reasons, []string{ConflictExcluded}) {
			t.Errorf("troubles %q", reasons)
		}
		g.set(web, "a", "1")
		g.expect(web, "1", 50*time.Millisecond)
		g.mu.Lock()
		g.settings.MayWrite = func(string) bool { return false }
		g.mu.Unlock()
		g.set(web, "a", "-")
		g.quiet(time.Minute)
		g.expect(web, "1", 0)
		g.mu.Lock()
		g.settings.MayWrite = func(string) bool { return true }
		g.mu.Unlock()
		g.compareAll()
		g.expect(web, "-", 50*time.Millisecond)
		g.expect(own, "1", 50*time.Millisecond)
		g.settled()
	})
}

// Addresses that nobody may have are reported with the member that named them.
func TestRejectedAddresses(t *testing.T) {
	play(t, func(g *ground) {
		g.mu.Lock()
		given := contribution(web, "1", 8080)
		given.Rejected = []syncer.Rejection{{Address: "127.0.0.1", Reason: syncer.RejectLoopback}}
		g.shares[web] = map[string]syncer.Share{"a": {Member: "a", Listed: true, Given: given}}
		g.mu.Unlock()
		g.compareAll()
		g.expect(web, "1", 50*time.Millisecond)
		g.seen.mu.Lock()
		defer g.seen.mu.Unlock()
		want := []metrics.Rejection{{Cluster: "a", Address: "127.0.0.1", Reason: string(syncer.RejectLoopback)}}
		if got := g.seen.troubles[web].Rejected; !slices.Equal(got, want) {
			t.Errorf("rejected %+v", got)
		}
	})
}

// What is published of a member that is not configured stays, or goes once all members were listed.
func TestOrphans(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1")
		g.expect(web, "1", 50*time.Millisecond)
		g.mu.Lock()
		delete(g.shares, web)
		g.settings.DropOrphans, g.listed = true, false
		g.mu.Unlock()
		g.compareAll()
		g.pass(time.Second) // it is marked as a reserve
		g.quiet(time.Minute)
		g.expect(web, "1", 0)
		g.seen.mu.Lock()
		if orphans := g.seen.troubles[web].Orphans; len(orphans) != 1 || orphans[0] != (metrics.OrphanStatus{Cluster: "a", Endpoints: 1}) {
			t.Errorf("orphans %+v", orphans)
		}
		g.seen.mu.Unlock()
		g.mu.Lock()
		g.listed = true
		g.mu.Unlock()
		g.compareAll()
		g.expect(web, "-", 50*time.Millisecond)
		g.settled()
	})
}

// Sinks are told what replicas are to be, whatever the ingress cluster makes of it.
func TestSinksAreTold(t *testing.T) {
	bodies := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	}))
	defer receiver.Close()
	g := newGround(t, apitest.New(t))
	defer g.process.stop()
	g.fault(func(apitest.Request) *apitest.Fault { return &apitest.Fault{Status: http.StatusForbidden} })
	shop := func(_ syncer.Key, labels map[string]string) bool { return labels["app"] == "web" }
	g.process.set.Configure([]sinks.Spec{{Name: "lb", URL: receiver.URL, Selects: shop, Rate: 1000}})
	g.compareAll()
	told := func(parts ...string) {
		for body := range bodies {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(body, part) }) {
				return
			}
		}
	}
	told("inventory")
	g.set(syncer.Key{Namespace: "shop", Name: "other"}, "a", "9")
	g.set(web, "a", "1,(2)")
	told(`"subject":"shop/web"`, `{"address":"10.0.0.1","ports":[{"name":"http","port":8080,"protocol":"TCP"}],"cluster":"a","ready":true,"serving":true,"terminating":false}`,
		`{"address":"10.0.0.2"`)
	g.set(web, "a", "1")
	told(`"subject":"shop/web"`, `"ready":true,"serving":true,"terminating":false}]`)
	g.set(web, "a", "-")
	told(`"deleted":true`)
}

// Whatever the server does, in the end it has what members contribute, and nothing is pending.
func TestRandomHistories(t *testing.T) {
	for seed := range dice.Seeds(t, 12) {
		play(t, func(g *ground) {
			rng, faults, mu := dice.From(seed, 0), dice.From(seed, 1), sync.Mutex{}
			g.fault(func(apitest.Request) *apitest.Fault {
				mu.Lock()
				defer mu.Unlock()
				rng := faults
				switch rng.IntN(12) {
				case 0:
					return &apitest.Fault{Status: []int{403, 409, 422, 429, 500, 503}[rng.IntN(6)], RetryAfter: rng.IntN(2)}
				case 1:
					return &apitest.Fault{Cut: true, Do: rng.IntN(2) == 0}
				case 2:
					return &apitest.Fault{Hang: rng.IntN(3) == 0, Do: rng.IntN(2) == 0, Cut: true}
				}
				return nil
			})
			names, texts := []string{"w1", "w2", "w3"}, []string{"1,2", "1,(2)", "2,3", "(1)", "", "-", "1,2,3,4"}
			is := map[syncer.Key]string{}
			for range 60 {
				key := syncer.Key{Namespace: "shop", Name: names[rng.IntN(3)]}
				is[key] = texts[rng.IntN(len(texts))]
				g.set(key, "a", is[key], []int32{8080, 9090}[rng.IntN(2)])
				g.pass(time.Duration(rng.IntN(400)) * time.Millisecond)
			}
			g.fault(nil)
			g.pass(2 * time.Minute)
			for key, want := range is {
				if in, at := g.published(key); in != want && !(in == "-" && want == "") || at != want {
					t.Errorf("seed %d: %s has slices %q, Endpoints %q, want %q", seed, key, in, at, want)
				}
			}
			g.settled()
			g.quiet(time.Minute)
		})
	}
}

// refuse makes the server refuse objects that have an address that is not 10.0.0.1 or .2.
func (g *ground) refuse(on bool, fields field.ErrorList, err error) {
	if !on {
		g.server.Refuse(nil)
		return
	}
	g.server.Refuse(func(o apitest.Object) (field.ErrorList, error) {
		text, _ := json.Marshal(o)
		if strings.Contains(string(text), "10.0.0.3") {
			return fields, err
		}
		return nil, nil
	})
}

// TestInventoryWaitsForMembers: while a member is away nobody gathers all replicas, which is asked for at each change.
func TestInventoryWaitsForMembers(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1")
		g.pass(time.Second)
		for _, listed := range []bool{true, false} {
			g.mu.Lock()
			g.listed = listed
			g.mu.Unlock()
			if all, known := g.r.complete(); known != listed || (len(all) == 1) != listed {
				t.Errorf("all members listed: %t, and of %v it is said to be all: %t", listed, all, known)
			}
		}
	})
}
