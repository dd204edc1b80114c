// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/syncer"
)

// sides makes a member of two namespaces that are read each by itself, with a Service of five
// pods in each.
func sides(w *world) (a *fakeAPI, asked *atomic.Int32) {
	w.tweak = func(c *config.Cluster) { c.Namespaces.Include = []string{"shop", "side"} }
	a, asked = w.api("uid-a"), new(atomic.Int32)
	a.put(newService("shop", "web"), newService("side", "api"))
	for n := 1; n <= 5; n++ {
		a.put(newPod("shop", "web", n), newPod("side", "api", 10+n))
	}
	return a, asked
}

// refused is how a namespace is refused.
func refused(rw http.ResponseWriter, _ *http.Request) { fail(rw, http.StatusForbidden) }

// refuseSide has everything in the namespace side answered so, and open watches of all end, as
// each does within some minutes.
func (f *fakeAPI) refuseSide(asked *atomic.Int32, answer http.HandlerFunc) {
	f.with(func() {
		f.hook = func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/namespaces/side/") {
				return false
			}
			if strings.HasSuffix(r.URL.Path, "s") {
				asked.Add(1) // by lists and watches
			}
			answer(rw, r)
			return true
		}
		f.closing = f.opened
	})
}

// A namespace whose Role is gone, as with the namespace itself, concerns itself alone.
func TestNamespaceThatIsRefused(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a, asked := sides(w)
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", evidence.Live, evidence.ReasonNone)
		side := w.addresses("side", "api")
		a.refuseSide(asked, refused)
		w.pass(time.Second)
		for n := 1; n <= 5; n++ {
			a.remove("pods", "side", fmt.Sprintf("api-%d", 10+n))
		}
		a.remove("pods", "shop", "web-1")
		w.pass(time.Second)
		w.wantAddresses("shop", "web", "a 10.1.0.2", "a 10.1.0.3", "a 10.1.0.4", "a 10.1.0.5")
		w.wantState("a", evidence.Live, evidence.ReasonNamespaceRefused)
		for range 60 { // lists of the others, too
			w.set.applied.Load().members[0].Relist()
			w.pass(time.Minute)
			w.wantState("a", evidence.Live, evidence.ReasonNamespaceRefused)
		}
		if n := asked.Load(); n > 400 {
			t.Errorf("asked %d times within an hour", n)
		}
		a.remove("pods", "shop", "web-2")
		w.pass(time.Second)
		w.wantAddresses("shop", "web", "a 10.1.0.3", "a 10.1.0.4", "a 10.1.0.5")
		w.wantAddresses("side", "api", side...)
		s := w.status("a")
		if all := strings.Join(s.Remarks, "; "); !strings.Contains(s.LastError, "side") || !strings.Contains(all, "pods of named namespaces may not be listed and watched in side") || !strings.Contains(all, "namespaces.include") {
			t.Errorf("said: %q, remarks %q", s.LastError, all)
		}
		a.with(func() { a.hook, a.oldest = nil, a.rv })
		w.pass(2 * time.Minute)
		w.wantState("a", evidence.Live, evidence.ReasonNone)
		w.wantAddresses("side", "api")
		w.wantAddresses("shop", "web", "a 10.1.0.3", "a 10.1.0.4", "a 10.1.0.5")
		if s := w.status("a"); len(s.Remarks) > 0 {
			t.Errorf("remarks %q", s.Remarks)
		}
	})
}

// A namespace that is refused is said to be, while streams of a new credential fail beside.
func TestRefusedBesideANewCredentialThatFails(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a, _ := sides(w)
		w.reach("a", a.config("old"), "1")
		w.pass(time.Minute)
		a.with(func() {
			a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "/namespaces/side/") {
					fail(rw, http.StatusForbidden)
					return true
				}
				broken := strings.Contains(r.Header.Get("Authorization"), "new") && strings.Contains(r.URL.Path, "/namespaces/shop/")
				if broken {
					fail(rw, http.StatusInternalServerError)
				}
				return broken
			}
			a.closing = a.opened
		})
		w.pass(5 * time.Second)
		w.wantState("a", evidence.Live, evidence.ReasonNamespaceRefused)
		w.reach("a", a.config("new"), "2")
		w.pass(3 * time.Second)
		w.wantState("a", evidence.Live, evidence.ReasonNamespaceRefused)
		if all := strings.Join(w.status("a").Remarks, "; "); !strings.Contains(all, "pods of named namespaces may not be listed and watched in side") {
			t.Errorf("remarks %q", all)
		}
	})
}

// What dies in a namespace while it is refused was told by no stream, which no restored store is
// needed for: neither while only lists and watches are, nor when the namespace is back.
func TestDeathsInANamespaceThatIsRefused(t *testing.T) {
	for name, hidden := range map[string]string{"everything is refused": "", "objects may be read": "s"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				a, asked := sides(w)
				for n := 16; n <= 40; n++ {
					a.put(newPod("side", "api", n))
				}
				w.reach("a", a.config(""), "1")
				w.pass(time.Minute)
				a.put(newPod("side", "api", 41)) // the newest that is known
				w.pass(time.Second)
				a.refuseSide(asked, refused)
				a.with(func() {
					refuse := a.hook
					a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
						return strings.HasSuffix(r.URL.Path, hidden) && refuse(rw, r)
					}
				})
				w.pass(3 * time.Second)
				for n := 11; n <= 41; n++ {
					a.remove("pods", "side", fmt.Sprintf("api-%d", n))
				}
				for range 60 {
					w.pass(5 * time.Second)
					w.wantState("a", evidence.Live, evidence.ReasonNamespaceRefused)
				}
				a.with(func() { a.hook = nil })
				for range 120 {
					w.pass(time.Second)
					if got := w.status("a"); got.State != string(evidence.Live) {
						t.Fatalf("%+v", got)
					}
				}
				w.wantState("a", evidence.Live, evidence.ReasonNone)
				w.wantAddresses("side", "api")
			})
		})
	}
}

// A new credential that may read nothing yet takes no sight of what is followed by the former.
func TestNewCredentialThatIsRefusedInEachNamespace(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a, _ := sides(w)
		for n := 1; n <= 20; n++ {
			a.put(newPod("shop", "web", 20+n), newPod("side", "api", 50+n))
		}
		a.with(func() {
			a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				refused := strings.Contains(r.Header.Get("Authorization"), "new") && strings.Contains(r.URL.Path, "/namespaces/s")
				if refused {
					fail(rw, http.StatusForbidden)
				}
				return refused
			}
		})
		w.reach("a", a.config("old"), "1")
		w.pass(time.Minute)
		for n := 21; n <= 40; n++ {
			a.put(notReady(newPod("shop", "web", n)), notReady(newPod("side", "api", 30+n)))
		}
		w.pass(5 * time.Second)
		w.reach("a", a.config("new"), "2")
		for range 10 {
			w.pass(time.Second)
			w.wantState("a", evidence.Live, evidence.ReasonMassNotReady)
			if web, api := len(w.addresses("shop", "web")), len(w.addresses("side", "api")); web != 25 || api != 25 {
				t.Fatalf("%d and %d ready, want all", web, api)
			}
		}
	})
}

// Who starts beside it takes away what is gone elsewhere, and leaves what stands of it: until
// it is granted, or taken out of the configuration.
func TestStartBesideNamespaceThatIsRefused(t *testing.T) {
	startBesideSide(t, refused, evidence.ReasonNamespaceRefused, func(w *world, a *fakeAPI) {
		a.with(func() { a.hook = nil })
		w.pass(2 * time.Minute)
		w.wantState("a", evidence.Live, evidence.ReasonNone)
		w.wantAddresses("side", "api", "a 10.1.0.11", "a 10.1.0.12", "a 10.1.0.13", "a 10.1.0.14", "a 10.1.0.15")
	})
	startBesideSide(t, refused, evidence.ReasonNamespaceRefused, func(w *world, a *fakeAPI) {
		w.tweak = func(c *config.Cluster) { c.Namespaces.Include = []string{"shop"} }
		w.apply()
		w.pass(10 * time.Second)
		w.wantState("a", evidence.Live, evidence.ReasonNone)
		if shares := w.set.Peek(syncer.Key{Namespace: "side", Name: "api"}).Shares; len(shares) > 0 {
			t.Errorf("of a namespace that is not configured: %+v", shares)
		}
		w.wantAddresses("shop", "web", "a 10.1.0.1", "a 10.1.0.2", "a 10.1.0.3", "a 10.1.0.4", "a 10.1.0.5")
	})
}

func startBesideSide(t *testing.T, answer http.HandlerFunc, reason evidence.Reason, end func(w *world, a *fakeAPI)) {
	t.Helper()
	web, api := syncer.Key{Namespace: "shop", Name: "web"}, syncer.Key{Namespace: "side", Name: "api"}
	stands := map[syncer.Key]Standing{}
	for key, third := range map[syncer.Key]int{web: 0, api: 10} {
		s := Standing{Sources: []syncer.Key{key}}
		for n := third + 1; n <= third+6; n++ {
			pod := syncer.Key{Namespace: key.Namespace, Name: fmt.Sprintf("%s-%d", key.Name, n)}
			s.Endpoints = append(s.Endpoints, syncer.Endpoint{Addr: netip.MustParseAddr(fmt.Sprintf("10.1.0.%d", n)), Ready: true, Serving: true,
				Target: syncer.TargetRef{Kind: "Pod", Key: pod, UID: pod.Name + "-uid"}})
		}
		stands[key] = s
	}
	inWorld(t, func(o *Options) { o.Standing = func(string) map[syncer.Key]Standing { return stands } }, func(w *world) {
		a, asked := sides(w)
		a.refuseSide(asked, answer)
		w.reach("a", a.config(""), "1")
		for range 10 {
			w.pass(time.Minute)
			w.wantState("a", evidence.Live, reason)
			shares := w.set.Peek(api).Shares
			if m := w.set.Members()[0]; !m.Synced || len(shares) != 1 || !shares[0].Unseen || len(shares[0].Gone) > 0 {
				t.Fatalf("synced %v, of the namespace that is refused: %+v", m.Synced, shares)
			}
			w.wantAddresses("shop", "web", "a 10.1.0.1", "a 10.1.0.2", "a 10.1.0.3", "a 10.1.0.4", "a 10.1.0.5")
		}
		end(w, a)
	})
}
