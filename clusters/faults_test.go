// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/internal/memnet"
)

// running is a world with one live member "a" of two pods behind shop/web.
func running(t *testing.T, prepare func(*Options), script func(w *world, a *fakeAPI)) {
	t.Helper()
	inWorld(t, prepare, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1), newPod("shop", "web", 2))
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.sink.take()
		script(w, a)
	})
}

// both are the addresses of the member "a" of running.
var both = []string{"a 10.1.0.1", "a 10.1.0.2"}

func (f *fakeAPI) listed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Lists of one object are looks at the revision.
	return f.lists["services"] + f.lists["pods"]
}

func (f *fakeAPI) watched() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches["services"] + f.watches["pods"]
}

func TestFrozenMemberOfRolesAlone(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1), newPod("shop", "web", 2))
		w.tweak = func(c *config.Cluster) {
			c.RolesOnly, c.StaleAfter = true, "30s"
			c.Namespaces = config.Namespaces{Include: []string{"shop"}}
		}
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
		if ago := time.Since(w.status("a").LastContact); ago > 5*time.Second {
			t.Errorf("was heard of %s ago", ago)
		}
		a.listener.Freeze()
		a.server.CloseClientConnections()
		w.pass(time.Minute)
		w.wantState("a", Silent, evidence.ReasonUnreachable)
		if s := w.status("a"); !s.Stale || time.Since(s.LastContact) < 50*time.Second {
			t.Errorf("stale is %v, was heard of %s ago", s.Stale, time.Since(s.LastContact))
		}
		w.wantAddresses("shop", "web", both...)
	})
}

func TestFrozenMember(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		lists := a.listed()
		a.listener.Freeze()
		w.pass(10 * time.Second)
		w.wantState("a", Silent, evidence.ReasonUnreachable)
		w.pass(time.Minute)
		w.wantAddresses("shop", "web", both...)
		a.put(notReady(newPod("shop", "web", 1)))
		a.listener.Thaw()
		w.pass(5 * time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "web", "a 10.1.0.2")
		w.wantDirty("removal shop/web: Pod shop/web-1 modified (not ready)")
		if more := a.listed() - lists; more > 4 {
			t.Errorf("%d lists to catch up", more)
		}
	})
}

func TestRestartedMember(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.listener.Lead(memnet.Nobody)
		a.server.CloseClientConnections()
		w.pass(time.Minute)
		w.wantState("a", Silent, evidence.ReasonUnreachable)
		w.wantAddresses("shop", "web", both...)
		lists := a.listed()
		a.put(notReady(newPod("shop", "web", 2)))
		a.listener.Lead(memnet.Open)
		w.pass(2 * time.Second)
		w.wantDirty("removal shop/web: Pod shop/web-2 modified (not ready)")
		if more := a.listed() - lists; more != 0 {
			t.Errorf("%d lists to catch up, want none", more)
		}
		w.pass(5 * time.Second)
		w.wantState("a", Live, ReasonNone)
	})
}

func TestRefusedMember(t *testing.T) {
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			running(t, nil, func(w *world, a *fakeAPI) {
				a.with(func() {
					if code == http.StatusUnauthorized {
						a.noToken = true
					} else {
						a.deny["pods"] = code
					}
					a.closing++
				})
				w.pass(10 * time.Second)
				w.wantState("a", Forbidden, evidence.ReasonForbidden)
				w.pass(time.Minute)
				w.wantAddresses("shop", "web", both...)
				a.with(func() { a.noToken, a.deny = false, map[string]int{} })
				w.pass(10 * time.Second)
				w.wantState("a", Live, ReasonNone)
				w.wantDirty()
			})
		})
	}
}

func TestMemberDownAtStart(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1))
		a.listener.Lead(memnet.Nobody)
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Silent, evidence.ReasonUnreachable)
		if members := w.set.Members(); len(members) != 1 || members[0].Synced || members[0].Live {
			t.Errorf("members %+v", members)
		}
		a.listener.Lead(memnet.Open)
		w.pass(6 * time.Second)
		w.wantState("a", Live, ReasonNone)
		if members := w.set.Members(); !members[0].Live {
			t.Errorf("members %+v", members)
		}
		w.wantAddresses("shop", "web", "a 10.1.0.1")
	})
}

func TestHalfReadMemberGivesNothing(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1))
		a.with(func() { a.deny["pods"] = http.StatusInternalServerError })
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Silent, evidence.ReasonUnusable)
		w.wantDirty()
		if got := w.set.Replicas(); len(got) != 0 {
			t.Errorf("replicas %v of a member that has not been read whole", got)
		}
		a.with(func() { clear(a.deny) })
		w.pass(6 * time.Second)
		w.wantDirty("bulk addition shop/web: Cluster relist")
	})
}

func TestOldServer(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.version = "v1.17.9"
		a.put(newService("shop", "web"), newPod("shop", "web", 1))
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "web", "a 10.1.0.1")
		if a.lists["pods"] != 1 || a.watches["pods"] != 1 {
			t.Errorf("%d lists and %d watches of pods, want one of each", a.lists["pods"], a.watches["pods"])
		}
	})
}

// A front that claims a new version and has an old server behind it.
func TestServerThatIgnoresStreamingLists(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1))
		a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			q.Del("sendInitialEvents")
			r.URL.RawQuery = q.Encode()
			return false
		}
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "web", "a 10.1.0.1")
	})
}

// hookWatch answers watches of pods by a script.
func hookWatch(a *fakeAPI, answer func(n int, w http.ResponseWriter, r *http.Request) bool) {
	n := 0
	a.with(func() {
		a.closing++
		a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/pods") {
				return false
			}
			a.mu.Lock()
			n++
			this := n
			a.mu.Unlock()
			return answer(this, rw, r)
		}
	})
}

func TestWatchesThatGoWrong(t *testing.T) {
	write := func(text string) func(int, http.ResponseWriter, *http.Request) bool {
		return func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
			return true
		}
	}
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request) bool{
		"closed at once": write(""),
		"no JSON":        write("<html>404</html>"),
		"truncated":      write(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"na`),
		"unknown type":   write(`{"type":"EXPLODED","object":{"kind":"Pod","apiVersion":"v1"}}`),
		"no object":      write(`{"type":"ADDED"}`),
		"null object":    write(`{"type":"ADDED","object":null}`),
		"another object": write(`{"type":"DELETED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop"}}}`),
		"unknown object": write(`{"type":"ADDED","object":{"kind":"Teapot","apiVersion":"v9"}}`),
		"expired":        write(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}`),
		"error, no code": write(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1"}}`),
		"old, repeated":  write(strings.Repeat(`{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","resourceVersion":"7"}}}`, 3)),
		"strange content": func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "image/png")
			return true
		},
		"busy":           func(_ int, w http.ResponseWriter, _ *http.Request) bool { fail(w, 429); return true },
		"internal error": func(_ int, w http.ResponseWriter, _ *http.Request) bool { fail(w, 500); return true },
		"gone":           func(_ int, w http.ResponseWriter, _ *http.Request) bool { fail(w, 410); return true },
	} {
		t.Run(name, func(t *testing.T) {
			running(t, nil, func(w *world, a *fakeAPI) {
				requests := 0
				hookWatch(a, func(n int, rw http.ResponseWriter, r *http.Request) bool {
					requests = n
					return answer(n, rw, r)
				})
				w.pass(20 * time.Second)
				a.mu.Lock()
				asked, listed := requests, a.lists["pods"]
				a.mu.Unlock()
				if asked > 110 || listed > 20 {
					t.Errorf("%d watches and %d lists in 20 seconds", asked, listed)
				}
				w.wantAddresses("shop", "web", both...)
				w.wantDirty()
				a.with(func() { a.hook = nil })
				a.put(notReady(newPod("shop", "web", 1)))
				w.pass(10 * time.Second)
				w.wantAddresses("shop", "web", "a 10.1.0.2")
			})
		})
	}
}

func TestWatchClosedEverySecond(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		lists, watches := a.listed(), a.watched()
		for range 60 {
			a.with(func() { a.closing++ })
			w.pass(time.Second)
		}
		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-1 modified (not ready)")
		if more := a.watched() - watches; more != 120 {
			t.Errorf("%d watches in a minute, want 120", more)
		}
		if looks := a.listed() - lists; looks > 40 {
			t.Errorf("%d lists in a minute: more than the looks at the revision", looks)
		}
	})
}

func TestSecondPageFails(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.version = "v1.20.0"
		a.put(newService("shop", "web"))
		for i := range 600 {
			p := newPod("shop", "web", i%250)
			p.Name = fmt.Sprint("pod-", i)
			a.put(p)
		}
		failures := 0
		a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("continue") == "" || failures > 2 {
				return false
			}
			failures++
			fail(rw, []int{500, 410, 429}[failures-1])
			return true
		}
		w.reach("a", a.config(""), "1")
		w.pass(20 * time.Second)
		w.wantDirty("bulk addition shop/web: Cluster relist")
		if got := w.status("a").Pods; got != 600 {
			t.Errorf("%d pods, want 600", got)
		}
	})
}

func TestListTooLarge(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a, b := w.api("uid-a"), w.api("uid-b")
		b.put(newService("shop", "web"), newPod("shop", "web", 7))
		a.version = "v1.30.0" // lists pages
		a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/api/v1/pods" || r.URL.Query().Has("watch") {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, strings.Repeat(" ", 9<<20)) // whatever was asked for
			return true
		}
		w.reach("a", a.config(""), "1")
		w.reach("b", b.config(""), "1")
		for tries := 0; w.status("a").State != string(Silent) && tries < 60; tries++ {
			w.pass(time.Second) // no longer than needed: each request brings 9 MiB
		}
		w.wantState("a", Silent, evidence.ReasonListTooLarge)
		w.wantState("b", Live, ReasonNone)
		w.wantAddresses("shop", "web", "b 10.1.0.7")
	})
}

func TestTooManyObjectsOfOneMember(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.tweak = func(c *config.Cluster) { c.MaxObjects = 2 }
		a, b := w.api("uid-a"), w.api("uid-b")
		for i := range 3 {
			a.put(newPod("shop", "web", i))
		}
		b.put(newService("shop", "web"), newPod("shop", "web", 7))
		w.reach("a", a.config(""), "1")
		w.reach("b", b.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Silent, evidence.ReasonTooManyObjects)
		w.wantState("b", Live, ReasonNone)
		w.wantAddresses("shop", "web", "b 10.1.0.7")
	})
}
