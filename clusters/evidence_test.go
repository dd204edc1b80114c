// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/syncer"
)

// guarded is a world with one live member "a": web has 20 pods (1 to 20), api 12
// (21 to 32), db one (33).
func guarded(t *testing.T, tweak func(*config.Cluster), script func(w *world, a *fakeAPI)) {
	t.Helper()
	inWorld(t, nil, func(w *world) {
		w.tweak = tweak
		a := w.api("uid-a")
		fill(a)
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.sink.take()
		script(w, a)
	})
}

func fill(a *fakeAPI) {
	a.put(newService("shop", "web"), newService("shop", "api"), newService("shop", "db"))
	for n := 1; n <= 33; n++ {
		a.put(newPod("shop", appOf(n), n))
	}
}

func appOf(n int) string {
	switch {
	case n <= 20:
		return "web"
	case n <= 32:
		return "api"
	default:
		return "db"
	}
}

// numberOf is the number of a pod by its name.
func numberOf(name string) (n int) {
	_, _ = fmt.Sscanf(name[strings.LastIndex(name, "-")+1:], "%d", &n)
	return n
}

// hide makes lists lack objects, without an event; the returned function ends it. Who
// asks for one of them gets it.
func (f *fakeAPI) hide(resource string, match func(name string) bool) (show func()) {
	var saved []fakeEvent
	left := 0
	f.with(func() {
		saved = slices.Clone(f.events)
		f.hidden = saved
		f.drop(resource, match)
		left = len(f.events)
	})
	return func() { f.with(func() { f.events, f.hidden = append(saved, f.events[left:]...), nil }) }
}

// refuse takes the right to get single objects.
func (f *fakeAPI) refuse(resources ...string) {
	f.with(func() {
		for _, resource := range resources {
			f.deny[resource+"/name"] = http.StatusForbidden
		}
	})
}

func (w *world) wantReady(web, api, db int) {
	w.t.Helper()
	for app, want := range map[string]int{"web": web, "api": api, "db": db} {
		if got := len(w.addresses("shop", app)); got != want {
			w.t.Errorf("%s has %d ready addresses, want %d", app, got, want)
		}
	}
}

// wantHolds compares what is held: "replica reason", "a" for the whole member.
func (w *world) wantHolds(want ...string) {
	w.t.Helper()
	var got []string
	for _, h := range w.status("a").Holds {
		at := "a"
		if h.Replica != (syncer.Key{}) {
			at = h.Replica.String()
		}
		got = append(got, at+" "+string(h.Reason))
		if h.Since.IsZero() || h.Message == "" {
			w.t.Errorf("hold without time or message: %+v", h)
		}
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("holds %q, want %q", got, want)
	}
}

var replica = syncer.Key{Namespace: "shop", Name: "web"}
