// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
)

// A member that is read by namespaces has a stream for each, and none waits for another: what is
// deleted in one hides nothing that comes to be in the other.
func TestStreamsOfNamespacesAreNotInStep(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		const each = 100
		a := w.api("uid-a")
		w.tweak = func(c *config.Cluster) { c.Namespaces.Include = []string{"east", "west"} }
		for i := range each {
			a.put(newService("east", fmt.Sprint("old-", i)), newPod("east", "old", i))
		}
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		for i := range each {
			a.put(newService("west", fmt.Sprint("new-", i)), newPod("west", "new", i))
			a.remove("services", "east", fmt.Sprint("old-", i))
			a.remove("pods", "east", fmt.Sprint("old-", i))
			w.pass(time.Millisecond)
		}
		w.wantState("a", Live, ReasonNone)
		if got := w.counts("a"); got.Services != each || got.Pods != each {
			t.Errorf("%d Services and %d pods are known, want %d", got.Services, got.Pods, each)
		}
	})
}

// Room was made, and the list that was asked for is too long all the same: the member has
// pods that nobody has seen, says so, and is not listed without end.
func TestMemberWithTooManyIsListedAtAPace(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		w.tweak = func(c *config.Cluster) { c.MaxObjects = 20 }
		a.put(newService("shop", "web"))
		for n := 1; n <= 20; n++ {
			a.put(newPod("shop", "web", n))
		}
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		for n := 21; n <= 30; n++ {
			a.put(newPod("shop", "web", n))
		}
		for n := 1; n <= 3; n++ {
			a.remove("pods", "shop", fmt.Sprint("web-", n))
		}
		listed := func() (n int) {
			a.with(func() { n = a.lists["pods"] })
			return n
		}
		before := listed()
		for range 10 {
			w.pass(time.Minute)
			w.wantState("a", Silent, evidence.ReasonTooManyObjects)
		}
		if lists := listed() - before; lists < 8 || lists > 15 {
			t.Errorf("%d lists in ten minutes, want about one a minute", lists)
		}
		for n := 4; n <= 11; n++ {
			a.remove("pods", "shop", fmt.Sprint("web-", n))
		}
		w.pass(10 * time.Second)
		w.wantState("a", Live, ReasonNone)
		if got := len(w.addresses("shop", "web")); got != 19 {
			t.Errorf("%d addresses, want 19", got)
		}
	})
}

// A list that does not come leaves the member without a stream: it is not believed for longer
// than 30 s, though nothing has failed.
func TestListThatHangs(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() {
			a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				q := r.URL.Query()
				if !strings.HasSuffix(r.URL.Path, "/pods") || q.Get("limit") == "1" {
					return false
				}
				if q.Get("watch") != "" && q.Get("sendInitialEvents") == "" {
					fail(rw, http.StatusGone)
					return true
				}
				<-r.Context().Done()
				return true
			}
			a.closing = a.opened
		})
		w.pass(30 * time.Second)
		w.wantState("a", Silent, evidence.ReasonUnusable)
		a.with(func() { a.hook = nil })
		for range 12 { // lists have a limit of a minute each
			w.pass(2 * time.Second)
			w.wantState("a", Silent, evidence.ReasonUnusable)
		}
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
	})
}

// A watch of hand-written endpoints that brings nothing is said, and read by lists.
func TestManualWatchThatBringsNothing(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(byHand(4, 2)...)
		w.reach("a", a.config(""), "1")
		w.pass(2 * time.Second)
		a.with(func() {
			a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/endpointslices") {
					return false
				}
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusOK)
				rw.(http.Flusher).Flush()
				<-r.Context().Done()
				return true
			}
			a.closing = a.opened
		})
		w.pass(time.Second)
		before := len(w.addresses("shop", "hand"))
		a.remove("endpointslices", "shop", "hand-1")
		w.pass(90 * time.Second)
		if got := w.addresses("shop", "hand"); before != 6 || len(got) != 2 {
			t.Errorf("of %d addresses these stayed: %v", before, got)
		}
		if got := strings.Join(w.status("a").Remarks, "; "); !strings.Contains(got, "watch of endpointslices brings nothing") {
			t.Errorf("remarks %q", got)
		}
		a.with(func() { a.hook, a.closing = nil, a.opened })
		w.pass(time.Minute)
		if got := w.status("a").Remarks; len(got) > 0 {
			t.Errorf("remarks %q when all is well again", got)
		}
	})
}
