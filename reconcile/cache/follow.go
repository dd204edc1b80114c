// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Kinds are what is followed. All Services and Endpoints come over the wire, because one of
// somebody else stands in the way of a replica of its name, until it goes; of what is not ours
// no more than that it is there is kept. Slices that controllers of the ingress cluster make
// follow from its Services and are in nobody's way, so a selector keeps them off the wire.
var Kinds = [...]struct {
	plan.Kind
	kube.Resource
	Labels string
}{
	{plan.KindNamespace, kube.Namespaces, ""},
	{plan.KindService, kube.Services, ""},
	{plan.KindEndpointSlice, kube.EndpointSlices, syncer.LabelSliceManagedBy + " notin (" + syncer.SliceComputed + "," + syncer.SliceMirrored + ")"},
	{plan.KindEndpoints, kube.Endpoints, ""},
}

// Follow follows what stands until ctx ends, and returns when all that it started has. It is
// called once. fault is told of what the cluster sent and nobody could read; nil: nobody is.
func (c *Cache) Follow(ctx context.Context, access *kube.Access, fault func(error)) {
	var group sync.WaitGroup
	for _, k := range Kinds {
		kind := kube.Kind[Object]{Resource: k.Resource, Labels: k.Labels, Convert: func(in runtime.Object) (*Object, error) {
			if o := Decode(in, c.options.Instance); o != nil {
				return o, nil
			}
			return nil, fmt.Errorf("%T is no %s", in, k.Kind)
		}}
		follower := kube.NewFollower(kind, access, c.Sink(k.Kind), fault)
		group.Go(func() { follower.Run(ctx) })
	}
	group.Wait()
}

// stream is how the following of one kind gets on.
type stream struct {
	at       uint64 // up to where it has shown everything; 0: it has listed nothing
	wentBack bool
	err      error
}

// Trouble returns why what stands is not followed; nil while it is.
func (c *Cache) Trouble() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var err error
	for _, s := range c.streams {
		err = cmp.Or(err, s.err)
	}
	return err
}

// Sink is where the stream of one kind goes: Follow's, or whatever else shows what stands.
func (c *Cache) Sink(kind plan.Kind) kube.Sink[Object] { return &sink{c, kind} }

// sink takes in what the stream of one kind shows.
type sink struct {
	cache *Cache
	kind  plan.Kind
}

// Seen implements kube.Sink.
func (s *sink) Seen(o *Object, _ uint64, arrived time.Time) { s.take(o, arrived) }

// Gone implements kube.Sink.
func (s *sink) Gone(key syncer.Key, uid string, revision uint64, arrived time.Time) {
	o := &Object{Object: plan.Object{Kind: s.kind, Namespace: key.Namespace, Name: key.Name}, UID: uid, Revision: revision, Gone: true}
	s.take(o, arrived)
}

func (s *sink) take(o *Object, arrived time.Time) {
	c := s.cache
	c.mu.Lock()
	keys := c.lockedShown(o)
	c.mu.Unlock()
	for _, key := range keys {
		c.options.News(key, o.Object, arrived)
	}
}

// lockedShown takes in what a stream shows, and returns the replicas to be looked at.
func (c *Cache) lockedShown(o *Object) (keys []syncer.Key) {
	old, st := c.objects[o.Object], &c.streams[o.Kind]
	st.at = max(st.at, o.Revision)
	if o.Gone {
		delete(c.deleted, o.UID)
	}
	if !c.lockedTake(o) || old != nil && !old.Owned && !o.Owned && !o.Gone && old.Replica != (syncer.Key{}) && old.Replica == o.Replica {
		return nil // what others make of what is theirs is no news
	}
	for _, shown := range []*Object{old, o} {
		if shown == nil || shown.Gone {
			continue
		}
		key := shown.Replica
		if o.Kind == plan.KindNamespace {
			key = syncer.Key{Namespace: o.Name}
		}
		if key != (syncer.Key{}) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Listed implements kube.Sink. What the list lacks, and is not newer than it, is gone. The
// first list is no change: nobody is told. After a restored store the list counts, whatever
// the revisions say.
func (s *sink) Listed(all []kube.Versioned[Object], revision uint64) {
	c, news := s.cache, map[plan.Object][]syncer.Key{}
	c.mu.Lock()
	st := &c.streams[s.kind]
	first := st.at == 0 && !st.wentBack
	there := make(map[string]bool, len(all))
	for _, item := range all {
		there[item.UID] = true
	}
	for uid, kind := range c.deleted {
		if kind == s.kind && (st.wentBack || !there[uid]) {
			delete(c.deleted, uid)
		}
	}
	for id, old := range c.objects {
		if id.Kind != s.kind {
			continue
		}
		if st.wentBack {
			old.Revision = 0
		}
		if !there[old.UID] && old.Revision <= revision {
			news[id] = c.lockedShown(&Object{Object: id, UID: old.UID, Gone: true})
		}
	}
	for _, item := range all {
		if o := item.Object; o != nil {
			if old := c.objects[o.Object]; old != nil && old.Revision > o.Revision && old.Revision <= revision {
				old.Revision = 0 // of a history that the store has lost
			}
			news[o.Object] = append(news[o.Object], c.lockedShown(o)...)
		}
	}
	st.wentBack, st.at = false, revision
	c.lockedSettle()
	c.mu.Unlock()
	for id, keys := range news {
		for _, key := range keys {
			if !first {
				c.options.News(key, id, time.Time{})
			}
		}
	}
}

// lockedSettle closes synced when everything was listed.
func (c *Cache) lockedSettle() {
	select {
	case <-c.synced:
		return
	default:
	}
	if !slices.ContainsFunc(c.streams[:], func(s stream) bool { return s.at == 0 }) {
		close(c.synced)
	}
}

// At implements kube.Sink.
func (s *sink) At(uint64) {}

// Phase implements kube.Sink.
func (s *sink) Phase(_ kube.Phase, err error) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	st := &s.cache.streams[s.kind]
	if st.err = nil; err != nil {
		st.err = fmt.Errorf("following %s: %w", s.kind, err)
	}
}

// WentBack implements kube.Sink.
func (s *sink) WentBack() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.streams[s.kind].wentBack, s.cache.streams[s.kind].at = true, 0
}
