// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Kinds are what is followed, by plan.Kind. All Services and Endpoints come over the wire, because one of
// somebody else conflicts with a replica of its name until it is deleted; of what is not ours
// only its existence is stored. Slices that controllers of the ingress cluster make follow from its
// Services and conflict with nothing, so a selector keeps them off the wire.
var Kinds = [...]struct {
	kube.Resource
	Labels string
}{
	plan.KindNamespace:     {kube.Namespaces, ""},
	plan.KindService:       {kube.Services, ""},
	plan.KindEndpointSlice: {kube.EndpointSlices, syncer.LabelSliceManagedBy + " notin (" + syncer.SliceComputed + "," + syncer.SliceMirrored + ")"},
	plan.KindEndpoints:     {kube.Endpoints, ""},
}

// Follow follows the current state until ctx ends, and returns when all its goroutines have ended.
// It is called once. fault, unless nil, is called for what the cluster sent and could not be decoded.
func (c *Cache) Follow(ctx context.Context, access *kube.Access, fault func(error)) {
	var group sync.WaitGroup
	for kind, k := range Kinds {
		convert := func(content []byte) (*Object, error) {
			in, err := k.Object(content)
			return Decode(in, c.instance), err
		}
		query := kube.Query{Resource: k.Resource, Labels: k.Labels}
		follower := kube.NewFollower(query, func() kube.Convert[Object] { return convert }, access, c.Sink(plan.Kind(kind)), fault)
		group.Go(func() { follower.Run(ctx) })
	}
	group.Wait()
}

// stream applies what the stream of one kind shows.
type stream struct {
	cache *Cache
	kind  plan.Kind
	at    uint64 // the revision up to which it has shown everything; 0: it is to be listed
	store int    // how often its store went back
	err   error
}

// Trouble returns why a kind is not followed; nil while all are.
func (c *Cache) Trouble() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var err error
	for _, s := range c.streams {
		err = cmp.Or(err, s.err)
	}
	return err
}

// Sink receives the stream of one kind: Follow's, or that of another driver.
func (c *Cache) Sink(kind plan.Kind) kube.Sink[Object] { return &c.streams[kind] }

// Event implements kube.Sink.
func (s *stream) Event(v kube.Versioned[Object], arrived time.Time) {
	if v.Key == (syncer.Key{}) {
		return
	}
	c, o := s.cache, v.Object
	if o == nil {
		o = &Object{Object: plan.Object{Kind: s.kind, Namespace: v.Key.Namespace, Name: v.Key.Name}, UID: v.UID, Revision: v.Revision, Gone: true}
	}
	c.mu.Lock()
	old, now := c.objects[o.Object], o
	s.at = max(s.at, o.Revision)
	known := old != nil && o.Revision <= old.Revision
	if o.Gone { // it may only have left the stream's selector, and be back
		now, known = nil, old == nil || old.UID != o.UID || o.Revision < old.Revision
	}
	var concerned []syncer.Key
	if !known {
		concerned = c.lockedSet(old, now)
	}
	c.mu.Unlock()
	c.tell(o.Object, concerned, arrived)
}

func (c *Cache) tell(o plan.Object, keys []syncer.Key, arrived time.Time) {
	for _, key := range keys {
		c.news(key, o, arrived)
	}
}

// Listed implements kube.Sink. The list counts for all that is not newer than it, deletions of
// ours among them: the store may have been restored, with its revisions raised. After one whose
// revisions went back it counts for everything. The first list is no change: News is not called.
func (s *stream) Listed(all []kube.Versioned[Object], revision uint64) {
	c, listed, news := s.cache, make(map[plan.Object]*Object, len(all)), map[plan.Object][]syncer.Key{}
	for _, item := range all {
		listed[item.Object.Object] = item.Object
	}
	c.mu.Lock()
	anew := s.at == 0
	first := anew && s.store == 0
	for id, old := range c.objects {
		now := listed[id]
		same := now != nil && !old.Gone && old.UID == now.UID && old.Revision == now.Revision
		switch {
		case id.Kind != s.kind:
		case same || old.Revision > revision && !anew:
			delete(listed, id)
		case now == nil:
			news[id] = c.lockedSet(old, nil)
		}
	}
	for id, now := range listed {
		news[id] = c.lockedSet(c.objects[id], now)
	}
	s.at = revision
	if !c.HasSynced() && !slices.ContainsFunc(c.streams[:], func(s stream) bool { return s.at == 0 }) {
		close(c.synced)
	}
	c.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(news), func(a, b plan.Object) int { return cmp.Compare(a.String(), b.String()) }) {
		if !first {
			c.tell(id, news[id], time.Time{})
		}
	}
}

// Following implements kube.Sink.
func (s *stream) Following(_ bool, err error) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.err = nil
	if err != nil {
		s.err = fmt.Errorf("following %s: %w", s.kind, err)
	}
}

// WentBack implements kube.Sink.
func (s *stream) WentBack() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.store, s.at = s.store+1, 0
}
