// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestSource(t *testing.T) {
	w := newWorld(t)
	w.SetPlacement(func(svc *syncer.Service) (syncer.Key, bool) {
		return syncer.Key{Namespace: "elsewhere", Name: svc.Name}, svc.Name != "back"
	})
	w.serve(aService("web", "web"))
	w.serve(aService("back", "web"))
	w.serve(handMade("db"))
	w.upsert(aPod("w1", "web", 1))
	for name, want := range map[string]struct {
		src  Source
		held bool
	}{
		"web":    {Source{Placed: true, Known: true, Ready: 1}, true},
		"back":   {Source{}, true},
		"db":     {Source{Placed: true}, true},
		"nobody": {},
	} {
		if src, held := w.Source(in(name)); src != want.src || held != want.held {
			t.Errorf("%s: %+v, held %v, want %+v", name, src, held, want)
		}
	}
	e := written("db", 1, 2)
	w.ReplaceEndpoints(in("db"), &e, 10)
	w.ReplaceSlices(in("db"), nil, 10)
	if src, _ := w.Source(in("db")); src != (Source{Placed: true, Known: true, Ready: 2}) {
		t.Errorf("hand-written endpoints that have been read: %+v", src)
	}
}

func TestNotReady(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	open := aService("open", "web")
	open.PublishNotReadyAddresses = true
	w.serve(open)
	w.serve(handMade("db"))
	for i, change := range []func(*syncer.Pod){
		func(*syncer.Pod) {},
		func(p *syncer.Pod) { p.Ready = false },
		func(p *syncer.Pod) { p.Ready, p.Deleted = false, 1 },
		func(p *syncer.Pod) { p.Ready, p.Terminal = false, true },
		func(p *syncer.Pod) { p.Ready, p.IPs = false, nil },
	} {
		p := aPod("w"+string(rune('0'+i)), "web", byte(i+1))
		change(&p)
		w.upsert(p)
	}
	for service, want := range map[string][]string{"web": {"w1"}, "open": nil, "db": nil, "nobody": nil} {
		var got []string
		for _, v := range w.NotReady(in(service)) {
			got = append(got, v.Object.Name)
			if v.RV == 0 {
				t.Errorf("%s has no revision", v.Object.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", service, got, want)
		}
	}
}
