// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// history is a server with a few Endpoints, a watch that lags behind it, a cache
// fed by both, and a worker that looks at the cache and writes.
type history struct {
	t       *testing.T
	rand    *rand.Rand
	cache   *Cache
	rv      uint64
	uids    int
	objects map[string]*Object
	events  []historyEvent
	cursor  int
	// dirty are the names that the cache asked to look at since the worker did.
	dirty map[string]bool
	// believed is what the worker took for standing when it last looked.
	believed  map[string]uint64
	notified  int
	confirmed map[string]bool
	made      []string
}

type historyEvent struct {
	gone   bool
	object *Object
	// state is all objects after the event.
	state map[string]*Object
}

var historyNames = []string{"x", "y", "z"}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		t: t, rand: dice.From(seed, 7), rv: 10, objects: map[string]*Object{},
		dirty: map[string]bool{}, believed: map[string]uint64{}, confirmed: map[string]bool{},
	}
	h.cache = New(func(changes []Change) {
		for _, c := range changes {
			h.dirty[c.Replica.Name] = true
			h.notified++
		}
	}, func(ref record.Ref, _ time.Time) { h.confirmed[ref.ResourceVersion] = true })
	h.cache.Replace(Scope{Kind: plan.KindEndpoints}, nil, 10, false, time.Now())
	return h
}

func historyID(name string) ID {
	return ID{plan.KindEndpoints, syncer.Key{Namespace: "shop", Name: name}}
}

// set changes the server's object; nil deletes it.
func (h *history) set(name string, object *Object) {
	h.rv++
	e := historyEvent{gone: object == nil, object: object}
	if object == nil {
		e.object = h.objects[name]
		delete(h.objects, name)
	} else {
		object.Revision = h.rv
		h.objects[name] = object
	}
	e.state = map[string]*Object{}
	for n, o := range h.objects {
		e.state[n] = o
	}
	h.events = append(h.events, e)
}

func (h *history) object(name, uid string) *Object {
	id := historyID(name)
	return &Object{ID: id, Replica: id.Key, UID: uid, Claim: plan.ClaimRecorded, Endpoints: &plan.CurrentEndpoints{}}
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
		h.set(name, h.object(name, old.UID))
	}
}

// own is a look and a write of the worker, with the watch going on meanwhile.
func (h *history) own(alone bool) {
	name := historyNames[h.rand.IntN(len(historyNames))]
	id := historyID(name)
	h.dirty[name] = false
	known := h.cache.Lookup(id)
	h.cache.Begin(id)
	h.meanwhile(alone)
	standing := h.objects[name]
	stale := (known == nil) != (standing == nil) || known != nil && known.Revision != standing.Revision
	var out Outcome
	var believed uint64
	switch {
	case stale && h.rand.IntN(3) == 0: // the read failed too: the key stays with the worker
		h.dirty[name] = true
	case stale:
		out = Outcome{Before: h.cache.Lookup(id), Object: standing, Absent: standing == nil}
	case standing == nil:
		h.uids++
		h.set(name, h.object(name, "u"+strconv.Itoa(h.uids)))
		out = h.wrote(name)
	case h.rand.IntN(4) == 0:
		h.set(name, nil)
		out.Gone = &Object{ID: id, Replica: id.Key, UID: known.UID, Revision: known.Revision}
	case h.rand.IntN(4) == 0: // a write that changes nothing
		out.Object = standing
	default:
		h.set(name, h.object(name, known.UID))
		out = h.wrote(name)
	}
	if !stale && h.objects[name] != nil {
		believed = h.objects[name].Revision
	}
	h.meanwhile(alone)
	h.cache.Finish(id, out)
	if stale { // it plans again from the cache
		if f := h.cache.Lookup(id); f != nil {
			believed = f.Revision
		}
	}
	h.believed[name] = believed
}

func (h *history) wrote(name string) Outcome {
	h.made = append(h.made, strconv.FormatUint(h.rv, 10))
	return Outcome{Object: h.objects[name], Wrote: true}
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
			h.cache.Remove(e.object.ID, e.object.UID, time.Now())
		} else {
			h.cache.Upsert(e.object, time.Now())
		}
	}
}

// relist replaces the watch by a list that may lag too, but not behind it.
func (h *history) relist() {
	if h.cursor == len(h.events) {
		return
	}
	at := h.cursor + h.rand.IntN(len(h.events)-h.cursor)
	var list []*Object
	for _, f := range h.events[at].state {
		list = append(list, f)
	}
	rv := h.rv
	if at+1 < len(h.events) {
		rv = 11 + uint64(at) // every event took one version, from 11 on
	}
	h.cursor = at + 1
	h.cache.Replace(Scope{Kind: plan.KindEndpoints}, list, rv, false, time.Now())
}

func (h *history) check(step int) {
	h.t.Helper()
	for _, name := range historyNames {
		var knows uint64
		if f := h.cache.Lookup(historyID(name)); f != nil {
			knows = f.Revision
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

// converged fails unless the cache equals the server and owes nothing.
func (h *history) converged() {
	h.t.Helper()
	for _, name := range historyNames {
		f, s := h.cache.Lookup(historyID(name)), h.objects[name]
		if (f == nil) != (s == nil) || f != nil && f.Revision != s.Revision {
			h.t.Fatalf("%s: the cache has %+v, the server %+v", name, f, s)
		}
	}
	if len(h.cache.writes) != 0 {
		h.t.Fatalf("own writes are remembered after the watch has shown all: %+v", h.cache.writes)
	}
	owned := 0
	for key, s := range h.cache.byReplica {
		if s.lockedCurrent(key).Ours() {
			owned++
		}
	}
	if h.cache.Owned() != owned {
		h.t.Fatalf("%d replicas are counted as ours, %d are", h.cache.Owned(), owned)
	}
	if len(h.cache.byReplica) != len(h.objects) || len(h.cache.entries) != len(h.objects) {
		h.t.Fatalf("%d replicas and %d entries for %d objects", len(h.cache.byReplica), len(h.cache.entries), len(h.objects))
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
				if f := h.cache.Lookup(historyID(name)); f != nil {
					knows = f.Revision
				}
				if s := h.objects[name]; s != nil {
					stands = s.Revision
				}
				if knows != stands {
					t.Fatalf("the cache has %s at %d, it stands at %d", name, knows, stands)
				}
			}
		}
		h.deliver(len(h.events))
		h.converged()
		if h.notified != 0 {
			t.Fatalf("%d confirmations of own writes caused work", h.notified)
		}
		if missing := slices.DeleteFunc(h.made, func(rv string) bool { return h.confirmed[rv] }); len(missing) != 0 {
			t.Fatalf("never confirmed: %v", missing)
		}
	}
}
