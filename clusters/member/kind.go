// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"iter"
	"math"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// kind joins stream, table and asking of one kind of object: what is seen, gone and missing
// (T2) is the same for all four.
type kind[T Object] struct {
	kind Kind
	table[T]
	asking *asking
	graves graves
}

// table is what a kind needs of the store, and what is particular to it.
type table[T Object] struct {
	identity func(*T) (key syncer.Key, uid string)
	held     func(syncer.Key) (object *T, revision uint64, ok bool)
	revision func(syncer.Key) (revision uint64, ok bool)
	set      func(store.Versioned[T]) []store.Dirty
	remove   func(syncer.Key) []store.Dirty
	rows     func(namespace string) iter.Seq2[syncer.Key, uint64]

	// covers reports whether objects of a namespace are taken in at all.
	covers func(namespace string) bool
	// asked reports whether an object that a list lacks is asked for; all others just go.
	asked func(key syncer.Key, object *T) bool
	// changed is called when an object was taken in, or out; before or after may be nil. describe
	// fills in the cause of a change that was written in a second. Nil does nothing.
	changed  func(key syncer.Key, before, after *T, c *Cause, o *step)
	describe func(c *Cause, before, after *T, written int64)
}

// origin is how a change came to be known.
type origin struct {
	event   string
	arrived time.Time
	live    bool
}

// seen takes in an object that a stream shows.
func (k *kind[T]) seen(st *stream, e *Seen[T], o *step) {
	key, uid := k.identity(&e.Object)
	if st == nil || !k.covers(key.Namespace) {
		return
	}
	st.at = max(st.at, e.Revision)
	from := origin{"added", e.Arrived, true}
	revision, known := k.revision(key)
	if known {
		from.event = "modified"
	}
	late, doubt := k.graves.judge(uid, e.Revision)
	switch {
	case doubt:
		k.asking.begin(Question{Kind: k.kind, Key: key, UID: uid}, o)
	case !late && (revision <= e.Revision || k.asking.of(k.kind, key) != nil): // else a read was faster
		k.take(e.Versioned, from, o)
	}
}

// take takes an object in, whatever is known of it, and closes its question.
func (k *kind[T]) take(v store.Versioned[T], from origin, o *step) {
	key, uid := k.identity(&v.Object)
	q := k.asking.close(k.kind, key)
	before, _, known := k.held(key)
	if known {
		if _, former := k.identity(before); former != uid {
			k.bury(key, former, v.Revision, o)
		}
	}
	if pod, ok := any(&v.Object).(*syncer.Pod); ok && pod.Terminal {
		k.bury(key, uid, v.Revision, o)
		from.event = "deleted"
		k.drop(key, before, q, from, o)
		return
	}
	delete(k.graves, uid)
	c := k.cause(before, &v.Object, v.Written, from)
	o.dirty(k.set(v), c)
	k.close(q, key, before, &v.Object, c, o)
}

// close tells whom a change concerns beside those who have the object in their share.
func (k *kind[T]) close(q *question, key syncer.Key, before, after *T, c *Cause, o *step) {
	if q != nil {
		o.touch(q.replicas, c)
	}
	if k.changed != nil {
		k.changed(key, before, after, c, o)
	}
}

// drop takes an object out that is gone; before is nil if it is in no table.
func (k *kind[T]) drop(key syncer.Key, before *T, q *question, from origin, o *step) {
	c := k.cause(before, nil, 0, from)
	c.Key = key
	if before != nil {
		o.dirty(k.remove(key), c)
	}
	k.close(q, key, before, nil, c, o)
}

func (k *kind[T]) cause(before, after *T, written int64, from origin) *Cause {
	c := &Cause{Kind: k.kind.String(), Event: from.event, Arrived: from.arrived, Live: from.live}
	if after != nil {
		c.Key, c.UID = k.identity(after)
	} else if before != nil {
		c.Key, c.UID = k.identity(before)
	}
	if k.describe != nil {
		k.describe(c, before, after, written)
	}
	return c
}

// gone takes out an object that a stream shows to be gone (T2), unless another of its name
// has come since.
func (k *kind[T]) gone(st *stream, e *Gone, o *step) {
	if st == nil || !k.covers(e.Key.Namespace) {
		return
	}
	st.at = max(st.at, e.Revision)
	k.bury(e.Key, e.UID, e.Revision, o)
	before, revision, known := k.held(e.Key)
	if known && revision > e.Revision {
		if _, uid := k.identity(before); uid != e.UID {
			return
		}
	}
	k.drop(e.Key, before, k.asking.close(k.kind, e.Key), origin{"deleted", e.Arrived, true}, o)
}

// listed takes in a complete list: what it shows replaces what is not newer than the list, what
// it lacks is missing. anew: also what has the same revision.
func (k *kind[T]) listed(st *stream, e *Listed[T], anew bool, o *step) {
	if st == nil {
		return
	}
	o.Bulk = true
	floor := e.Revision
	if st.reread {
		anew, floor = true, math.MaxUint64
		clear(k.graves)
	}
	from := origin{event: "listed", arrived: o.now}
	shown := make(map[syncer.Key]bool, len(e.Items))
	for i := range e.Items {
		v := &e.Items[i]
		key, uid := k.identity(&v.Object)
		if !k.covers(key.Namespace) {
			continue
		}
		late, doubt := k.graves.judge(uid, e.Revision)
		shown[key] = !late
		revision, known := k.revision(key)
		switch {
		case doubt:
			k.asking.begin(Question{Kind: k.kind, Key: key, UID: uid}, o)
		case !late && (k.asking.of(k.kind, key) != nil || revision <= floor && (revision != v.Revision || !known || anew)):
			k.take(*v, from, o)
		}
	}
	*st = stream{phase: Following, listed: true, at: max(st.at, e.Revision)}
	k.miss(e.Scope, shown, floor, o)
}

// miss asks for what a list lacks of what is not newer, or lets it go.
func (k *kind[T]) miss(scope Scope, shown map[syncer.Key]bool, floor uint64, o *step) {
	var keys []syncer.Key
	for key, revision := range k.rows(scope.Namespace) {
		if !shown[key] && revision <= floor && scope.covers(key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	for _, key := range keys {
		object, _, _ := k.held(key)
		if k.asking.of(k.kind, key) == nil && !k.asked(key, object) {
			k.drop(key, object, nil, origin{event: "listed", arrived: o.now}, o)
			continue
		}
		_, uid := k.identity(object)
		k.asking.begin(Question{Kind: k.kind, Key: key, UID: uid}, o)
	}
}

// answered takes in what a read says of an object: it is newer than all that is known.
func (k *kind[T]) answered(a *Answer, o *step) {
	from := origin{event: "listed", arrived: o.now}
	before, known, _ := k.held(a.Key)
	if v, there := a.Object.(store.Versioned[T]); there {
		if _, uid := k.identity(&v.Object); uid != a.UID {
			k.bury(a.Key, a.UID, v.Revision, o)
		}
		k.take(v, from, o)
		return
	}
	from.event = "missing"
	k.bury(a.Key, a.UID, known, o)
	k.drop(a.Key, before, k.asking.close(k.kind, a.Key), from, o)
}

// bury remembers an object that is gone.
func (k *kind[T]) bury(key syncer.Key, uid string, revision uint64, o *step) {
	if uid != "" {
		k.graves[uid] = grave{subject{k.kind, key}, revision, o.now}
	}
}

// makeKinds says what is particular to each kind.
func (s *State) makeKinds() {
	t := s.tables
	s.pods = newKind(s, Pods, table[syncer.Pod]{
		identity: func(p *syncer.Pod) (syncer.Key, string) { return p.Key, p.UID },
		held:     t.Pod, revision: t.PodRevision, set: t.SetPod, remove: t.RemovePod, rows: t.Pods,
		asked:    func(key syncer.Key, _ *syncer.Pod) bool { return t.Endpoint(key) || s.stands.hasPod(key) },
		changed:  s.podChanged,
		describe: describePod,
	})
	s.services = newKind(s, Services, table[syncer.Service]{
		identity: func(v *syncer.Service) (syncer.Key, string) { return v.Key, v.UID },
		held:     t.Service, revision: t.ServiceRevision, set: t.SetService, remove: t.RemoveService, rows: t.Services,
		asked:   func(syncer.Key, *syncer.Service) bool { return true },
		changed: s.serviceChanged,
	})
	s.endpoints = newKind(s, Endpoints, table[store.HandEndpoints]{
		identity: func(h *store.HandEndpoints) (syncer.Key, string) { return h.Key, h.UID },
		held:     t.Endpoints, set: t.SetEndpoints, remove: t.RemoveEndpoints, rows: t.EndpointsKeys,
		asked: func(_ syncer.Key, h *store.HandEndpoints) bool { return len(h.Subsets) > 0 },
	})
	s.slices = newKind(s, EndpointSlices, table[store.HandSlice]{
		identity: func(h *store.HandSlice) (syncer.Key, string) { return h.Key, h.UID },
		held:     t.Slice, set: t.SetSlice, remove: t.RemoveSlice, rows: t.SliceKeys,
		asked: func(_ syncer.Key, h *store.HandSlice) bool { return len(h.Content.Endpoints) > 0 },
	})
}

// newKind returns a kind. What t leaves out means nothing to it.
func newKind[T Object](s *State, of Kind, t table[T]) *kind[T] {
	t.covers = func(namespace string) bool { return s.areaOf(namespace) != nil }
	if t.revision == nil {
		t.revision = func(key syncer.Key) (uint64, bool) {
			_, revision, ok := t.held(key)
			return revision, ok
		}
	}
	return &kind[T]{kind: of, table: t, asking: &s.asking, graves: s.graves}
}

// anyKind is what all kinds have that needs no type.
type anyKind interface {
	gone(*stream, *Gone, *step)
	answered(*Answer, *step)
}

// kinds are all kinds, by Kind.
func (s *State) kinds() [4]anyKind { return [...]anyKind{s.pods, s.services, s.endpoints, s.slices} }

// describePod says what became of a pod, and when by the member's own clock.
func describePod(c *Cause, before, after *syncer.Pod, written int64) {
	var second int64
	switch {
	case after == nil:
		c.State = "gone"
		after = before
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
		if before == nil && after.Ready || before != nil && before.Ready != after.Ready {
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
