// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package cache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// history is a server with a few Endpoints, a stream that lags behind it, a cache that is fed
// by both, and a worker that writes what it believes it can.
type history struct {
	*testing.T
	rng      *rand.Rand
	cache    *Cache
	sink     kube.Sink[Object]
	revision uint64
	uids     int
	objects  map[string]version
	// events are those that the stream has not told yet.
	events []event
	// believed is what was current for the worker when it last looked; dirty are the names
	// that the cache has asked it to look at since, news counts how often.
	believed map[string]version
	dirty    map[string]bool
	news     int
	// hidden are the objects that have left the stream's selector.
	hidden map[string]bool
	// snapshot is the server's content at some moment, for a restored store.
	snapshot map[string]version
	at       uint64
}

// version is one state of an object; the zero value is none.
type version struct {
	uid      string
	revision uint64
}

type event struct {
	name string
	version
	gone bool
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		T: t, rng: dice.From(seed, 7), revision: 10, objects: map[string]version{}, believed: map[string]version{}, dirty: map[string]bool{},
		hidden: map[string]bool{},
	}
	h.cache = New("test", func(replica syncer.Key, o plan.Object, _ time.Time) {
		if replica.Name != o.Name {
			t.Errorf("the news of %s is for %s", o, replica)
		}
		h.dirty[o.Name] = true
		h.news++
	})
	h.sink = h.cache.Sink(plan.KindEndpoints)
	h.sink.Listed(nil, 10)
	return h
}

func (h *history) name() string { return []string{"x", "y", "z"}[h.rng.IntN(3)] }

func (h *history) id(name string) plan.Object {
	return plan.Object{Kind: plan.KindEndpoints, Namespace: "shop", Name: name}
}

func (h *history) object(name string, v version) *Object {
	meta := ours(name, name)
	meta.UID, meta.ResourceVersion = types.UID(v.uid), fmt.Sprint(v.revision)
	return Decode(&corev1.Endpoints{ObjectMeta: meta}, "test")
}

// known is what the cache says.
func (h *history) known(name string) (v version) {
	if e := h.cache.Current(syncer.Key{Namespace: "shop", Name: name}).Endpoints; e != nil {
		v = version{e.UID, kube.Revision(e.ResourceVersion)}
	}
	return v
}

// put changes the server's object, or makes it.
func (h *history) put(name string) *Object {
	h.revision++
	v := h.objects[name]
	if v.uid == "" {
		h.uids++
		v.uid = fmt.Sprint("u", h.uids)
	}
	v.revision = h.revision
	h.objects[name] = v
	delete(h.hidden, name)
	h.events = append(h.events, event{name, v, false})
	return h.object(name, v)
}

func (h *history) remove(name string) *Object {
	h.revision++
	v := h.objects[name]
	delete(h.objects, name)
	if !h.hidden[name] {
		h.events = append(h.events, event{name, version{v.uid, h.revision}, true})
	}
	delete(h.hidden, name)
	return &Object{Object: h.id(name), UID: v.uid, Gone: true}
}

// foreign is a change by somebody else.
func (h *history) foreign() {
	name := h.name()
	switch visible := h.objects[name].uid != "" && !h.hidden[name]; {
	case visible && h.rng.IntN(4) == 0:
		h.remove(name)
	case visible && h.rng.IntN(6) == 0:
		h.put(name)
		h.hidden[name] = true
		h.events[len(h.events)-1].gone = true
	default:
		h.put(name)
	}
}

// own is a write of the worker by what it believes, with the stream going on before the
// answer is there.
func (h *history) own(meanwhile int) {
	name := h.name()
	h.dirty[name] = false
	known, current := h.known(name), h.objects[name]
	h.believed[name] = known
	var answer *Object
	switch {
	case known != current && h.rng.IntN(3) == 0: // nothing could be read after the conflict
	case known != current && current.uid == "":
		answer = &Object{Object: h.id(name), UID: known.uid, Gone: true}
	case known != current:
		answer = h.object(name, current)
	case current.uid != "" && h.rng.IntN(3) == 0:
		answer = h.remove(name)
	default:
		answer = h.put(name)
	}
	if meanwhile == 2 {
		h.foreign()
	}
	h.deliver(meanwhile)
	if answer != nil {
		h.cache.Take(answer, h.store())
	}
	h.believed[name] = h.known(name) // it compares again after each answer
}

func (h *history) deliver(n int) {
	for ; n > 0 && len(h.events) > 0; n-- {
		e := h.events[0]
		h.events = h.events[1:]
		v := kube.Versioned[Object]{Key: syncer.Key{Namespace: "shop", Name: e.name}, UID: e.uid, Revision: e.revision}
		if !e.gone {
			v.Object = h.object(e.name, e.version)
		}
		h.sink.Event(v, time.Now())
	}
}

// relist is a list of the present, which comes after the answers to what was written since,
// and the events after it.
func (h *history) relist(since func()) {
	var all []kube.Versioned[Object]
	for name, v := range h.objects {
		if !h.hidden[name] {
			all = append(all, kube.Versioned[Object]{Object: h.object(name, v), Key: syncer.Key{Namespace: "shop", Name: name}, UID: v.uid, Revision: v.revision})
		}
	}
	at := h.revision
	h.events = nil
	since()
	h.sink.Listed(all, at)
}

func (h *history) store() int { return h.cache.Store(plan.KindEndpoints) }

// restore puts an earlier content back, and reads it. Its revisions go back with it, or were
// raised, which nobody notices. The answer to what was written last comes after that.
func (h *history) restore() {
	if h.snapshot == nil || h.rng.IntN(3) == 0 {
		h.snapshot, h.at = maps.Clone(h.objects), h.revision
		return
	}
	back, late, store := h.rng.IntN(2) == 0, h.put(h.name()), h.store()
	h.objects, h.hidden = maps.Clone(h.snapshot), map[string]bool{}
	if h.revision += 1000; back {
		h.revision = h.at + 1
		h.sink.WentBack()
	}
	h.relist(func() {})
	h.cache.Take(late, store)
	h.equal()
}

func (h *history) check(step int) {
	h.Helper()
	for _, name := range []string{"x", "y", "z"} {
		if known := h.known(name); known != h.believed[name] && !h.dirty[name] {
			h.Fatalf("step %d: %s is %v, the worker believes %v and nobody woke it", step, name, known, h.believed[name])
		}
	}
}

// equal fails unless the cache has what the server has.
func (h *history) equal() {
	h.Helper()
	for _, name := range []string{"x", "y", "z"} {
		if known := h.known(name); known != h.objects[name] {
			h.Fatalf("%s is %v, the cache has %v", name, h.objects[name], known)
		}
	}
}

// converged tells all, and fails unless the cache equals the server and remembers nothing else.
func (h *history) converged() {
	h.Helper()
	for name := range h.hidden {
		h.put(name)
	}
	h.deliver(len(h.events))
	h.equal()
	if c := h.cache; len(c.objects) != len(h.objects) || len(c.Keys()) != len(h.objects) {
		h.Fatalf("%d objects and deletions for %d objects", len(c.objects), len(h.objects))
	}
}

func TestNobodysChangeGoesUnnoticed(t *testing.T) {
	for seed := range dice.Seeds(t, 80) {
		h := newHistory(t, seed)
		for step := range 300 {
			switch h.rng.IntN(10) {
			case 0, 1:
				h.foreign()
			case 2, 3, 4:
				h.own(h.rng.IntN(3))
			case 5:
				if h.rng.IntN(4) == 0 {
					h.relist(func() { h.own(0) })
				}
			case 6:
				if h.rng.IntN(8) == 0 {
					h.restore()
				}
			default:
				h.deliver(1 + h.rng.IntN(3))
			}
			h.check(step)
		}
		h.relist(func() {}) // what was hidden when we deleted it is forgotten by a list alone
		h.converged()
	}
}

// Where nobody else writes, and answers come before events, nobody is woken and no write is
// undone.
func TestOwnWritesAreNoNews(t *testing.T) {
	for seed := range dice.Seeds(t, 80) {
		h := newHistory(t, seed)
		for range 200 {
			switch h.rng.IntN(5) {
			case 0, 1:
				h.own(0)
			case 2:
				if h.rng.IntN(10) == 0 { // what is deleted meanwhile the list shows once more
					h.relist(func() { h.cache.Take(h.put(h.name()), h.store()) })
				}
			default:
				h.deliver(h.rng.IntN(3))
			}
			h.equal()
		}
		if h.converged(); h.news != 0 {
			t.Fatalf("%d events about own writes were news", h.news)
		}
	}
}
