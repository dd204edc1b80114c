// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// feed carries what the watches bring into the store, and what that touched to
// the sink. Until the member has been read whole nothing is announced: half of
// the pods would make half of the endpoints.
type feed struct {
	m       *Member
	garbage atomic.Uint64

	mu     sync.Mutex
	filled [fills]bool // what has been read whole, or cannot be
	begun  bool        // all has been, and is believed
}

// What must have been read before a member counts as synced. Zones are part of
// slices: without them every slice would be written twice after a start.
const (
	fillServices = iota
	fillPods
	fillNodes
	fills
)

func newFeed(m *Member) *feed { return &feed{m: m} }

// fill notes that one part has been read. With the last one, and once it is
// believed, everything is announced at once; what is announced by events from then
// on may be in it as well.
func (f *feed) fill(part int, at time.Time) {
	f.mu.Lock()
	f.filled[part] = true
	complete := !f.begun && !slices.Contains(f.filled[:], false)
	f.mu.Unlock()
	if complete {
		f.begin(at)
	}
}

// begin announces everything if what was read is believed.
func (f *feed) begin(at time.Time) {
	if !f.m.protect.begin(at) {
		return
	}
	f.mu.Lock()
	begun := f.begun
	f.begun = true
	f.mu.Unlock()
	if begun {
		return
	}
	f.m.health.note(func(fs *facts) { fs.synced = true })
	var all []store.Dirty
	for _, replica := range f.m.store.Replicas() {
		for _, source := range f.m.store.Sources(replica) {
			all = append(all, store.Dirty{Replica: replica, Source: source, Effect: syncer.Addition})
		}
	}
	f.m.log.Info("cluster has been read whole", "replicas", len(all))
	f.bulk(all, f.cause("Cluster", "relist", at))
}

// has reports whether a part has been read.
func (f *feed) has(part int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.filled[part]
}

func (f *feed) cause(kind, event string, at time.Time) metrics.Cause {
	return metrics.Cause{Cluster: f.m.name, Kind: kind, Event: event, Arrival: at}
}

// live announces what an event touched.
func (f *feed) live(dirty []store.Dirty, c metrics.Cause) { f.announce(dirty, c, false) }

// bulk announces what nobody waits for.
func (f *feed) bulk(dirty []store.Dirty, c metrics.Cause) { f.announce(dirty, c, true) }

// listed announces what a list changed: removals at once, for they may be
// addresses that nobody answers at any more; the rest when there is time.
func (f *feed) listed(dirty []store.Dirty, c metrics.Cause) {
	isRemoval := func(d store.Dirty) bool { return d.Effect == syncer.Removal }
	removals := slices.DeleteFunc(slices.Clone(dirty), func(d store.Dirty) bool { return !isRemoval(d) })
	f.live(removals, c)
	f.bulk(slices.DeleteFunc(dirty, isRemoval), c)
}

func (f *feed) announce(dirty []store.Dirty, c metrics.Cause, bulk bool) {
	if len(dirty) > 0 && f.m.health.synced.Load() {
		f.m.opts.Sink.Dirty(f.m.name, dirty, c, bulk)
		f.m.native.touch(dirty, c.Arrival)
	}
}

// keep tells of a change that a guard keeps from having an effect: the replicas
// are looked at, nothing is found to write, and that is on record.
func (f *feed) keep(replicas []syncer.Key, cause metrics.Cause) {
	if len(replicas) == 0 || !f.m.health.synced.Load() {
		return
	}
	dirty := make([]store.Dirty, len(replicas))
	for i, replica := range replicas {
		dirty[i] = store.Dirty{Replica: replica, Effect: syncer.Addition}
	}
	f.m.opts.Sink.Dirty(f.m.name, dirty, cause, !cause.Live)
	f.m.native.lookAt(replicas)
}

// missing describes an object that a list lacks and that is kept.
func (f *feed) missing(kind string, key syncer.Key, uid string, at time.Time) metrics.Cause {
	c := f.cause(kind, "missing", at)
	c.Namespace, c.Name, c.UID, c.Kept = key.Namespace, key.Name, uid, string(HoldList)
	return c
}

// event counts an event and notes the contact.
func (f *feed) event(resource string, e kube.EventMeta) {
	f.m.health.heard(e.Arrival)
	if o := f.m.opts.Observer; o != nil {
		o.WatchEvent(f.m.name, resource, e.Type)
	}
}

func (f *feed) contact(resource string, at time.Time, bookmark bool) {
	f.m.health.heard(at)
	if o := f.m.opts.Observer; o != nil && bookmark {
		o.WatchEvent(f.m.name, resource, "bookmark")
	}
}

// Listed implements kube.Observer.
func (f *feed) Listed(resource string, reason kube.Reason, objects int, took time.Duration) {
	f.m.health.heard(time.Now())
	f.m.log.Debug("list read", "resource", resource, "reason", reason, "objects", objects, "took", took)
	if o := f.m.opts.Observer; o != nil {
		o.Listed(f.m.name, resource, string(reason), took)
	}
}

// StreamEnded implements kube.Observer.
func (f *feed) StreamEnded(resource string, end kube.End) {
	if o := f.m.opts.Observer; o != nil && end != kube.EndStopped {
		o.WatchEnded(f.m.name, resource, string(end))
	}
}

// Undecodable implements kube.Observer.
func (f *feed) Undecodable(resource string) {
	f.garbage.Add(1)
	if o := f.m.opts.Observer; o != nil {
		o.Unreadable(f.m.name, resource)
	}
}

// liveCause describes an event. State and IP are filled in for pods alone.
func (f *feed) liveCause(kind string, key syncer.Key, uid string, e kube.EventMeta) metrics.Cause {
	return metrics.Cause{
		Cluster: f.m.name, Kind: kind, Namespace: key.Namespace, Name: key.Name, UID: uid,
		ResourceVersion: e.ResourceVersion, Event: e.Type, Arrival: e.Arrival, Live: true,
	}
}

// convertWith adapts a decoder: anything but a non-nil object of the type is
// refused.
func convertWith[P interface {
	*O
	runtime.Object
}, O, T any](decode func(P) store.Versioned[T]) func(runtime.Object) (store.Versioned[T], bool) {
	return func(obj runtime.Object) (store.Versioned[T], bool) {
		object, ok := obj.(P)
		if !ok || object == nil {
			return store.Versioned[T]{}, false
		}
		return decode(object), true
	}
}
