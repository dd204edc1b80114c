// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// history is a server with a few Endpoints, a watch that lags behind it, a view
// fed by both, and a worker that looks at the view and writes.
type history struct {
	t       *testing.T
	rand    *rand.Rand
	view    *view
	rv      uint64
	uids    int
	objects map[string]*found
	events  []historyEvent
	cursor  int
	// dirty are the names that the view asked to look at since the worker did.
	dirty map[string]bool
	// believed is what the worker took for standing when it last looked.
	believed map[string]uint64
	notified int
	echoed   map[string]bool
	made     []string
}

type historyEvent struct {
	gone   bool
	object *found
	// state is all objects after the event.
	state map[string]*found
}

var historyNames = []string{"x", "y", "z"}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		t: t, rand: dice.From(seed, 7), rv: 10, objects: map[string]*found{},
		dirty: map[string]bool{}, believed: map[string]uint64{}, echoed: map[string]bool{},
	}
	h.view = newView(func(changes []change) {
		for _, c := range changes {
			h.dirty[c.replica.Name] = true
			h.notified++
		}
	}, func(ref metrics.Ref, _ time.Time) { h.echoed[ref.ResourceVersion] = true })
	h.view.replace(plan.KindEndpoints, nil, "10", time.Now())
	return h
}

func historyID(name string) objectID {
	return objectID{plan.KindEndpoints, syncer.Key{Namespace: "shop", Name: name}}
}

// set changes the server's object; nil deletes it.
func (h *history) set(name string, object *found) {
	h.rv++
	e := historyEvent{gone: object == nil, object: object}
	if object == nil {
		e.object = h.objects[name]
		delete(h.objects, name)
	} else {
		object.rv = h.rv
		h.objects[name] = object
	}
	e.state = map[string]*found{}
	for n, o := range h.objects {
		e.state[n] = o
	}
	h.events = append(h.events, e)
}

func (h *history) object(name, uid string) *found {
	id := historyID(name)
	return &found{id: id, replica: id.Key, uid: uid, claim: plan.ClaimRecorded, endpoints: &plan.ObservedEndpoints{}}
}

// foreign is a change by somebody else.
func (h *history) foreign() {
	name := historyNames[h.rand.IntN(len(historyNames))]
	switch old := h.objects[name]; {
	case old == nil:
		h.uids++
		h.set(name, h.object(name, "u"+strconv.Itoa(h.uids)))
	case h.rand.IntN(3) == 0:
		h.set(name, nil)
	default:
		h.set(name, h.object(name, old.uid))
	}
}

// own is a look and a write of the worker, with the watch going on meanwhile.
func (h *history) own(alone bool) {
	name := historyNames[h.rand.IntN(len(historyNames))]
	id := historyID(name)
	h.dirty[name] = false
	known := h.view.lookup(id)
	h.view.begin(id)
	h.meanwhile(alone)
	standing := h.objects[name]
	stale := (known == nil) != (standing == nil) || known != nil && known.rv != standing.rv
	var out outcome
	var believed uint64
	switch {
	case stale && h.rand.IntN(3) == 0: // the read failed too: the key stays with the worker
		h.dirty[name] = true
	case stale:
		out = outcome{before: h.view.lookup(id), object: standing, absent: standing == nil}
	case standing == nil:
		h.uids++
		h.set(name, h.object(name, "u"+strconv.Itoa(h.uids)))
		out = h.wrote(name)
	case h.rand.IntN(4) == 0:
		h.set(name, nil)
		out.gone = &found{id: id, replica: id.Key, uid: known.uid, rv: known.rv}
	case h.rand.IntN(4) == 0: // a write that changes nothing
		out.object = standing
	default:
		h.set(name, h.object(name, known.uid))
		out = h.wrote(name)
	}
	if !stale && h.objects[name] != nil {
		believed = h.objects[name].rv
	}
	h.meanwhile(alone)
	h.view.finish(id, out)
	if stale { // it plans again from the view
		if f := h.view.lookup(id); f != nil {
			believed = f.rv
		}
	}
	h.believed[name] = believed
}

func (h *history) wrote(name string) outcome {
	h.made = append(h.made, strconv.FormatUint(h.rv, 10))
	return outcome{object: h.objects[name], wrote: true}
}

func (h *history) meanwhile(alone bool) {
	for range h.rand.IntN(3) {
		if !alone && h.rand.IntN(3) == 0 {
			h.foreign()
		}
		h.deliver(h.rand.IntN(3))
	}
}

func (h *history) deliver(n int) {
	for ; n > 0 && h.cursor < len(h.events); n-- {
		e := h.events[h.cursor]
		h.cursor++
		if e.gone {
			h.view.remove(e.object.id, e.object.uid, time.Now())
		} else {
			h.view.upsert(e.object, time.Now())
		}
	}
}

// relist replaces the watch by a list that may lag too, but not behind it.
func (h *history) relist() {
	if h.cursor == len(h.events) {
		return
	}
	at := h.cursor + h.rand.IntN(len(h.events)-h.cursor)
	var list []*found
	for _, f := range h.events[at].state {
		list = append(list, f)
	}
	rv := h.rv
	if at+1 < len(h.events) {
		rv = 11 + uint64(at) // every event took one version, from 11 on
	}
	h.cursor = at + 1
	h.view.replace(plan.KindEndpoints, list, strconv.FormatUint(rv, 10), time.Now())
}

func (h *history) check(step int) {
	h.t.Helper()
	for _, name := range historyNames {
		var knows uint64
		if f := h.view.lookup(historyID(name)); f != nil {
			knows = f.rv
		}
		if knows != h.believed[name] && !h.dirty[name] {
			h.t.Fatalf("step %d: %s stands at %d, the worker believes in %d and nobody woke it", step, name, knows, h.believed[name])
		}
	}
}

func TestViewWakesTheWorkerForEveryChangeOfOthers(t *testing.T) {
	for seed := range dice.Seeds(t, 80) {
		h := newHistory(t, seed)
		for step := range 200 {
			switch h.rand.IntN(8) {
			case 0, 1:
				h.foreign()
			case 2, 3:
				h.own(false)
			case 4:
				if h.rand.IntN(4) == 0 {
					h.relist()
				}
			default:
				h.deliver(1 + h.rand.IntN(3))
			}
			h.check(step)
		}
		h.deliver(len(h.events))
		h.check(-1)
		h.converged()
	}
}

// converged fails unless the view equals the server and owes nothing.
func (h *history) converged() {
	h.t.Helper()
	for _, name := range historyNames {
		f, s := h.view.lookup(historyID(name)), h.objects[name]
		if (f == nil) != (s == nil) || f != nil && f.rv != s.rv {
			h.t.Fatalf("%s: the view has %+v, the server %+v", name, f, s)
		}
	}
	if len(h.view.writes) != 0 {
		h.t.Fatalf("own writes are remembered after the watch has shown all: %+v", h.view.writes)
	}
	if len(h.view.byReplica) != len(h.objects) || len(h.view.entries) != len(h.objects) {
		h.t.Fatalf("%d replicas and %d entries for %d objects", len(h.view.byReplica), len(h.view.entries), len(h.objects))
	}
}

func TestViewTakesOwnWritesForNoNews(t *testing.T) {
	for seed := range dice.Seeds(t, 80) {
		h := newHistory(t, seed)
		for range 100 {
			if h.rand.IntN(2) == 0 {
				h.own(true)
			} else {
				h.deliver(h.rand.IntN(3))
			}
			for _, name := range historyNames { // what was written last never comes undone
				var knows, stands uint64
				if f := h.view.lookup(historyID(name)); f != nil {
					knows = f.rv
				}
				if s := h.objects[name]; s != nil {
					stands = s.rv
				}
				if knows != stands {
					t.Fatalf("the view has %s at %d, it stands at %d", name, knows, stands)
				}
			}
		}
		h.deliver(len(h.events))
		h.converged()
		if h.notified != 0 {
			t.Fatalf("%d echoes of own writes caused work", h.notified)
		}
		if missing := slices.DeleteFunc(h.made, func(rv string) bool { return h.echoed[rv] }); len(missing) != 0 {
			t.Fatalf("never echoed: %v", missing)
		}
	}
}
