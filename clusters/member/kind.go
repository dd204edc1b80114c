// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// kind joins stream, table and asking of one kind of object: seen, gone and missing (T2) are
// handled alike for all four.
type kind[T Object] struct {
	kind   Kind
	asking *asking
	covers func(namespace string) bool // whether objects of a namespace are accepted at all

	// What it needs of the store, and what is particular to it.
	identity func(*T) (key syncer.Key, uid string)
	held     func(syncer.Key) (object *T, revision uint64, ok bool)
	set      func(store.Versioned[T]) []store.Dirty
	remove   func(syncer.Key) []store.Dirty
	rows     func(namespace string) iter.Seq2[syncer.Key, uint64]

	// asked reports whether an object that a list lacks is asked for; nil: each is. changed is
	// called when one was shown, or is gone: after is nil then.
	asked   func(syncer.Key) bool
	changed func(key syncer.Key, after *T, c *Cause, o *step)
}

// shown stores an object that a stream shows, unless a read has shown a newer one, and removes one
// that is gone (T2), unless another of its name has come since.
func (k *kind[T]) shown(st *stream, e *Shown[T], o *step) {
	st.at = max(st.at, e.Revision)
	if e.Key == (syncer.Key{}) || !k.covers(e.Key.Namespace) {
		return
	}
	from := Cause{Event: "added", Arrived: e.Arrived, Live: true}
	before, revision, known := k.held(e.Key)
	switch {
	case e.Object == nil:
		if known && revision > e.Revision {
			if _, uid := k.identity(before); uid != e.UID {
				return
			}
		}
		from.Event = "deleted"
		k.drop(e.Key, from, o)
	case revision <= e.Revision || k.asking.of(k.kind, e.Key) != nil:
		if known {
			from.Event = "modified"
		}
		k.take(*e.Object, from, o)
	}
}

// take stores an object, whatever is known of it, and closes its question.
func (k *kind[T]) take(v store.Versioned[T], from Cause, o *step) {
	key, _ := k.identity(&v.Object)
	if pod, ok := any(&v.Object).(*syncer.Pod); ok && pod.Terminal {
		from.Event = "deleted"
		k.drop(key, from, o)
		return
	}
	k.asking.close(k.kind, key)
	before, _, _ := k.held(key)
	c := k.cause(from, key, before, &v.Object, v.Written)
	o.dirty(k.set(v), c)
	k.changed(key, &v.Object, c, o)
}

// drop removes an object that is gone, if it is in a table, and closes its question.
func (k *kind[T]) drop(key syncer.Key, from Cause, o *step) {
	k.asking.close(k.kind, key)
	before, _, known := k.held(key)
	c := k.cause(from, key, before, nil, 0)
	if known {
		o.dirty(k.remove(key), c)
	}
	k.changed(key, nil, c, o)
}

func (k *kind[T]) cause(from Cause, key syncer.Key, before, after *T, written int64) *Cause {
	c := from
	c.Kind, c.Key = k.kind.String(), key
	if after != nil {
		_, c.UID = k.identity(after)
	} else if before != nil {
		_, c.UID = k.identity(before)
	}
	if pod, ok := any(before).(*syncer.Pod); ok {
		describePod(&c, pod, any(after).(*syncer.Pod), written)
	}
	return &c
}

// listed applies a complete list: what it shows replaces what is not newer than the list, what
// it lacks is missing. anew: objects of the same revision are replaced, too.
func (k *kind[T]) listed(st *stream, e *Listed[T], anew bool, o *step) {
	o.Bulk = true
	o.WantPublished = o.WantPublished || !st.compared && k.kind <= Services
	floor := e.Revision
	if st.listed && st.at == 0 { // its store went back
		anew, floor = true, math.MaxUint64
	}
	lacks := maps.Collect(k.rows(e.Scope.Namespace))
	for i := range e.Items {
		v := &e.Items[i]
		key, _ := k.identity(&v.Object)
		if !k.covers(key.Namespace) {
			continue
		}
		revision, known := lacks[key]
		delete(lacks, key)
		same := known && revision == v.Revision && !anew
		if k.asking.of(k.kind, key) != nil || revision <= floor && !same {
			k.take(*v, Cause{Event: "listed", Arrived: o.now}, o)
		}
	}
	maps.DeleteFunc(lacks, func(key syncer.Key, revision uint64) bool { return revision > floor || !e.Scope.covers(key) })
	for _, key := range slices.SortedFunc(maps.Keys(lacks), syncer.Key.Compare) {
		k.miss(key, o)
	}
	if !st.following { // the list is as old as its first page
		st.resumed = o.now
	}
	st.following, st.err, st.listed, st.at = true, nil, true, max(st.at, e.Revision)
}

// miss asks for an object that a list lacks, or drops it.
func (k *kind[T]) miss(key syncer.Key, o *step) {
	object, _, _ := k.held(key)
	switch q := k.asking.of(k.kind, key); {
	case q != nil:
		k.asking.renew(q, o)
	case k.asked != nil && !k.asked(key):
		k.drop(key, Cause{Event: "listed", Arrived: o.now}, o)
	default:
		_, uid := k.identity(object)
		q := k.asking.begin(k.kind, key, uid, o)
		if pod, ok := any(object).(*syncer.Pod); ok {
			for i := range pod.IPs {
				k.asking.addAddr(q, pod.IPs[i].Addr)
			}
		}
	}
}

// answered applies what a read says of an object: it is newer than all that is known.
func (k *kind[T]) answered(a *Answer, o *step) {
	if v, there := a.Object.(store.Versioned[T]); there {
		k.take(v, Cause{Event: "listed", Arrived: o.now}, o)
	} else {
		k.drop(a.Key, Cause{Event: "missing", Arrived: o.now}, o)
	}
}

// makeKinds sets what is particular to each kind.
func (s *State) makeKinds() {
	t, covers := s.tables, func(namespace string) bool { return s.stream(Pods, namespace) != nil }
	s.pods = &kind[syncer.Pod]{
		kind: Pods, asking: &s.asking, covers: covers,
		identity: func(p *syncer.Pod) (syncer.Key, string) { return p.Key, p.UID },
		held:     t.Pod, set: t.SetPod, remove: t.RemovePod, rows: t.Pods,
		asked:   func(key syncer.Key) bool { return t.Endpoint(key) || s.publishedIn[key] != nil },
		changed: s.podChanged,
	}
	s.services = &kind[syncer.Service]{
		kind: Services, asking: &s.asking, covers: covers,
		identity: func(v *syncer.Service) (syncer.Key, string) { return v.Key, v.UID },
		held:     s.heldService, set: s.setService, remove: t.RemoveService, rows: t.Services,
		changed: s.serviceChanged,
	}
	s.endpoints = &kind[store.HandEndpoints]{
		kind: Endpoints, asking: &s.asking, covers: covers,
		identity: func(h *store.HandEndpoints) (syncer.Key, string) { return h.Key, h.UID },
		held:     t.Endpoints, set: t.SetEndpoints, remove: t.RemoveEndpoints, rows: t.EndpointsKeys,
		changed: func(key syncer.Key, _ *store.HandEndpoints, c *Cause, o *step) {
			o.add(key, syncer.Removal, c)
			o.ScopesChanged = true // Listed waits for it
		},
	}
	s.slices = &kind[store.HandSlice]{
		kind: EndpointSlices, asking: &s.asking, covers: covers,
		identity: func(h *store.HandSlice) (syncer.Key, string) { return h.Key, h.UID },
		held:     t.Slice, set: t.SetSlice, remove: t.RemoveSlice, rows: t.SliceKeys,
		asked: func(key syncer.Key) bool {
			slice, _, _ := t.Slice(key)
			return t.ByHand(slice.ServiceKey())
		},
		changed: func(syncer.Key, *store.HandSlice, *Cause, *step) {},
	}
}

// describePod sets what happened to a pod, and when by the member's own clock.
func describePod(c *Cause, before, after *syncer.Pod, written int64) {
	var second int64
	switch {
	case after == nil:
		c.State, after = "gone", before
	case after.Terminating:
		c.State = "terminating"
		if before == nil || !before.Terminating {
			second = written
		}
	default:
		c.State = "not ready"
		if after.Ready {
			c.State = "ready"
		}
		if after.Ready != (before != nil && before.Ready) {
			second = after.ReadySince
		}
	}
	if second != 0 {
		c.SourceTime = time.Unix(second, 0)
	}
	if after != nil && len(after.IPs) > 0 {
		c.IP = after.IPs[0].Addr.String()
	}
}
