// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
)

func TestNewCredentialTakesOverAnOpenWatch(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		lists, dials := a.lists["pods"], a.listener.Dials()
		var tokens []string
		a.with(func() {
			a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
				a.mu.Lock()
				defer a.mu.Unlock()
				if token := r.Header.Get("Authorization"); !slices.Contains(tokens, token) {
					tokens = append(tokens, token)
				}
				return false
			}
		})
		w.reach("a", a.config("new"), "2")
		w.pass(10 * time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantDirty()
		if a.lists["pods"] > lists+1 { // a look at the revision
			t.Errorf("%d lists of pods", a.lists["pods"]-lists)
		}
		if got := a.listener.Dials() - dials; got != 1 {
			t.Errorf("%d connections dialled, want 1", got)
		}
		if tokens[len(tokens)-1] != "Bearer new" {
			t.Errorf("credentials used: %q", tokens)
		}
		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-1 modified (not ready)")
	})
}

func TestNewCredentialThatFailsLeavesTheOldInUse(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() {
			a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Authorization") == "Bearer bad" {
					fail(rw, http.StatusUnauthorized)
					return true
				}
				return false
			}
		})
		w.reach("a", a.config("bad"), "2")
		w.pass(time.Minute)
		w.wantState("a", Live, evidence.ReasonNewAccessFails)
		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-1 modified (not ready)")
		w.reach("a", a.config("good"), "3")
		w.pass(6 * time.Second)
		w.wantState("a", Live, ReasonNone)
	})
}

func TestRevokedCredentialIsReplaced(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		lists := a.lists["pods"]
		a.with(func() {
			a.closing++
			a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Authorization") != "Bearer new" {
					fail(rw, http.StatusUnauthorized)
					return true
				}
				return false
			}
		})
		w.pass(time.Minute)
		w.wantState("a", Forbidden, evidence.ReasonForbidden)
		w.wantAddresses("shop", "web", both...)
		w.reach("a", a.config("new"), "2")
		w.pass(10 * time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantDirty()
		if a.lists["pods"] > lists+1 {
			t.Errorf("%d lists of pods", a.lists["pods"]-lists)
		}
	})
}

func TestAnotherClusterAtANewAddressIsNotUsed(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		b := w.api("uid-b")
		b.put(newService("shop", "web"), newPod("shop", "web", 66))
		w.reach("a", b.config(""), "2")
		w.pass(time.Minute)
		w.wantState("a", Live, evidence.ReasonIdentityMismatch) // the member itself is still followed
		if b.listed()+b.watched() != 0 {
			t.Errorf("%d lists and %d watches of the other cluster", b.listed(), b.watched())
		}
		w.wantAddresses("shop", "web", both...)
		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantAddresses("shop", "web", "a 10.1.0.2")
		a.listener.Freeze()
		w.pass(20 * time.Second)
		w.wantState("a", Suspect, evidence.ReasonIdentityMismatch)
		w.wantAddresses("shop", "web", "a 10.1.0.2")
	})
}

func TestNewAddressThatDoesNotShowItsIdentityIsNotUsed(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		b := w.api("uid-b")
		b.with(func() { b.deny["kube-system"] = http.StatusForbidden })
		b.put(newService("shop", "web"), newPod("shop", "web", 66))
		elsewhere := b.config("")
		elsewhere.Host = "https://127.0.0.1"
		w.reach("a", elsewhere, "2")
		w.pass(time.Minute)
		w.wantState("a", Live, evidence.ReasonNewAccessFails) // the member itself is still followed
		if b.listed()+b.watched() != 0 {
			t.Errorf("%d lists and %d watches of the other cluster", b.listed(), b.watched())
		}
		w.wantAddresses("shop", "web", both...)
		b.with(func() { b.deny["kube-system"], b.uid = 0, "uid-a" }) // it is the same, as it turns out
		w.pass(time.Minute)
		w.wantAddresses("shop", "web", "a 10.1.0.66")
	})
}

func TestRightTakenAwayKeepsTheAddressInUse(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() { a.deny["kube-system"] = http.StatusForbidden })
		w.reach("a", a.config("new"), "2")
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
	})
}

func TestAnotherClusterAtTheSameAddressIsNotUsed(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() { // connections move to an empty cluster
			a.uid = "uid-b"
			a.drop("pods", func(string) bool { return true })
			a.rv, a.oldest = 9000, 9000
		})
		a.server.CloseClientConnections()
		w.pass(10 * time.Second)
		w.wantState("a", Suspect, evidence.ReasonIdentityMismatch)
		w.pass(time.Minute)
		w.wantAddresses("shop", "web", both...)
		w.wantDirty()
	})
}

func TestPinnedIdentity(t *testing.T) {
	pin := func(o *Options) { o.Pinned = func(string) string { return "uid-old" } }
	inWorld(t, pin, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1))
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Suspect, evidence.ReasonIdentityMismatch)
		w.wantDirty()
		if a.listed()+a.watched() != 0 {
			t.Error("the other cluster was read")
		}
	})
}

func TestIdentityThatMayNotBeRead(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1))
		a.deny["kube-system"] = http.StatusForbidden
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "web", "a 10.1.0.1")
		if id := w.status("a").Identity; id != "" {
			t.Errorf("identity %q", id)
		}
	})
}

// The right to read the identity is optional, before its use and after it, and over a
// restart that remembers the identity.
func TestIdentityThatMayNoLongerBeRead(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() { a.deny["kube-system"] = http.StatusForbidden })
		a.server.CloseClientConnections()
		w.pass(10 * time.Second)
		w.wantState("a", Live, ReasonNone)
		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-1 modified (not ready)")
		w.reach("a", a.config("new"), "2")
		w.pass(10 * time.Second)
		w.wantState("a", Live, ReasonNone)
	})
	pinned := func(o *Options) { o.Pinned = func(string) string { return "uid-a" } }
	inWorld(t, pinned, func(w *world) {
		a := w.api("uid-a")
		a.deny["kube-system"] = http.StatusForbidden
		a.put(newService("shop", "web"), newPod("shop", "web", 1))
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "web", "a 10.1.0.1")
	})
}

// An API server that has just started refuses everything until it has read its
// own roles.
func TestServerThatRefusesWhileItStarts(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1), newNode("node-1", "z1"))
		a.deny["*"] = http.StatusForbidden
		w.reach("a", a.config(""), "1")
		w.pass(3 * time.Second)
		w.wantState("a", Forbidden, evidence.ReasonForbidden)
		a.with(func() { clear(a.deny) })
		w.pass(5 * time.Second)
		w.wantState("a", Live, ReasonNone)
		// Nodes may be listed after the rest, and move what was said before.
		told := slices.DeleteFunc(w.sink.take(), func(s string) bool { return s == "bulk addition shop/web: Node relist" })
		if !slices.Equal(told, []string{"bulk addition shop/web: Cluster relist"}) {
			t.Errorf("sink was told %q", told)
		}
		if got := w.zones(); !slices.Equal(got, []string{"z1"}) {
			t.Errorf("zones %q", got)
		}
		a.with(func() { a.deny["*"] = http.StatusForbidden })
		a.server.CloseClientConnections()
		w.pass(10 * time.Second)
		a.with(func() { clear(a.deny) })
		a.put(newNode("node-1", "z2"))
		w.pass(2 * time.Second)
		w.wantState("a", Live, ReasonNone)
		if got := w.zones(); !slices.Equal(got, []string{"z2"}) {
			t.Errorf("zones %q", got)
		}
	})
}

func TestMembersComeAndGo(t *testing.T) {
	running(t, nil, func(w *world, _ *fakeAPI) {
		b := w.api("uid-b")
		b.put(newService("shop", "web"), newPod("shop", "web", 7), newService("shop", "db"))
		if removed := w.reach("b", b.config(""), "1"); len(removed) > 0 {
			t.Errorf("removed %q", removed)
		}
		w.pass(time.Second)
		w.wantDirty("bulk addition shop/db: Cluster relist", "bulk addition shop/web: Cluster relist")
		w.wantAddresses("shop", "web", append(slices.Clone(both), "b 10.1.0.7")...)
		if removed := w.forget("b"); !slices.Equal(removed, []string{"b"}) {
			t.Errorf("removed %q", removed)
		}
		w.wantAddresses("shop", "web", both...)
	})
}

// What is told of a change while others leave, of those that stay and of those that
// leave, already finds them gone.
func TestRemovedMembersAreGoneWhenOthersTell(t *testing.T) {
	var mu sync.Mutex
	var set func() []MemberState
	seen := map[string]int{}
	prepare := func(o *Options) {
		o.Changed = func(string) {
			mu.Lock()
			defer mu.Unlock()
			if set == nil {
				return
			}
			for _, m := range set() {
				seen[m.Name]++
			}
		}
	}
	running(t, prepare, func(w *world, a *fakeAPI) {
		b := w.api("uid-b")
		w.reach("b", b.config(""), "1")
		w.pass(time.Second)
		mu.Lock()
		set = w.set.Members
		mu.Unlock()
		c := config.Cluster{}
		c.SetDefaults()
		c.Name = "a"
		w.set.Apply(&config.Loaded{
			Config:  config.Config{Clusters: []config.Cluster{c}},
			Members: map[string]config.Access{"a": {REST: a.config(""), Hash: "1", Err: errors.New("half-written")}},
		})
		w.pass(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if seen["a"] == 0 || seen["b"] != 0 {
			t.Errorf("seen were %v, want a alone", seen)
		}
	})
}

func TestTwoHundredRoundsLeaveNothing(t *testing.T) {
	running(t, nil, func(w *world, _ *fakeAPI) {
		b := w.api("uid-b")
		b.put(newService("shop", "web"), newPod("shop", "web", 7))
		for i := range 200 {
			w.reach("b", b.config(fmt.Sprint(i)), fmt.Sprint(i))
			w.pass(10 * time.Millisecond)
			if i%2 == 0 {
				w.reach("b", b.config("again"), "again")
				w.pass(10 * time.Millisecond)
			}
			w.forget("b")
			w.pass(0)
		}
		w.pass(time.Second)
		if open := b.listener.Open(); open != 0 {
			t.Errorf("%d connections are still open", open)
		}
		// Goroutines: a bubble does not end while one of its own is left.
	})
}

func TestEditedConfigurationIsTakenIn(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.put(newService("dev", "web"), newPod("dev", "web", 9))
		w.pass(0)
		w.sink.take()
		w.tweak = func(c *config.Cluster) { c.Namespaces.Exclude = []string{"dev"} }
		w.apply()
		w.pass(0)
		w.wantDirty("bulk removal dev/web: Config config")
		w.tweak = func(c *config.Cluster) {
			c.Namespaces.Include = []string{"shop"}
			c.AllowedCIDRs = []string{"10.1.0.2/32"}
		}
		w.apply()
		w.pass(5 * time.Second)
		w.wantDirty("bulk addition shop/web: Config config")
		w.wantAddresses("shop", "web", "a 10.1.0.2")
		// One namespace by name is read as that namespace alone.
		if got := w.status("a").Pods; got != 2 {
			t.Errorf("%d pods held, want the 2 of the namespace", got)
		}
	})
}

func TestKubeconfigThatIsRefused(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		refused := &config.Loaded{Members: map[string]config.Access{}}
		c := config.Cluster{}
		c.SetDefaults()
		for name, access := range map[string]config.Access{
			"a":    {REST: a.config(""), Hash: "1", Err: fmt.Errorf("half-written")},
			"late": {Err: fmt.Errorf("does not exist")},
		} {
			c.Name = name
			refused.Config.Clusters = append(refused.Config.Clusters, c)
			refused.Members[name] = access
		}
		w.set.Apply(refused)
		w.pass(10 * time.Second)
		w.wantState("a", Live, evidence.ReasonKubeconfigRefused)
		w.wantState("late", Silent, evidence.ReasonKubeconfigRefused)
		w.wantAddresses("shop", "web", both...)
		w.apply()
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
	})
}

func TestOneBadMemberDisturbsNoOther(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		b := w.api("uid-b")
		b.put(newService("shop", "web"), newPod("shop", "web", 7))
		w.reach("b", b.config(""), "1")
		w.pass(time.Second)
		w.sink.take()
		b.listener.Freeze()
		w.pass(20 * time.Second)
		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-1 modified (not ready)")
		w.wantAddresses("shop", "web", "a 10.1.0.2", "b 10.1.0.7")
	})
}
