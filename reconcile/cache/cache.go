// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Options set up a Cache.
type Options struct {
	// Instance is the name of the installation.
	Instance string
	// News is told what a stream shows of a change by others: the replica that is to be
	// looked at, and the object. For a namespace the key has no name: all replicas in it are
	// concerned. It is also told of our own writes whose event comes before their answer.
	// Arrived is when the event was read off the wire; zero: a list showed it, now. It must not
	// block.
	News func(replica syncer.Key, o plan.Object, arrived time.Time)
}

// Cache is what stands in the ingress cluster. Two streams of news feed it, those of the
// server and the answers to our own requests. They are not ordered, so the higher revision
// wins. All methods are safe for concurrent use.
type Cache struct {
	options Options

	mu sync.RWMutex
	// objects has what we deleted, too, as gone at its last revision, until a stream or a list
	// has shown that it went: an event that is late does not bring it back.
	objects map[plan.Object]*Object
	// slices are those among them that stand under a replica's name, sorted by their own.
	slices map[syncer.Key][]*Object
	// streams are the states of the streams by kind.
	streams [len(Kinds)]stream
	synced  chan struct{}
}

// New returns an empty Cache.
func New(options Options) *Cache {
	return &Cache{options: options, objects: map[plan.Object]*Object{}, slices: map[syncer.Key][]*Object{}, synced: make(chan struct{})}
}

// Store is which store a kind is read from, counted from one that was restored to the next.
func (c *Cache) Store(kind plan.Kind) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.streams[kind].store
}

// Take takes in what the answer to a request of ours showed, an object or that one is gone. store is
// what Store was when the request was sent: an answer of one that is no more tells nothing. The
// cache owns the object from then on.
func (c *Cache) Take(o *Object, store int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch old := c.objects[o.Object]; {
	case store != c.streams[o.Kind].store:
	case o.Gone && (old == nil || old.UID != o.UID):
	case o.Gone:
		c.lockedSet(old, &Object{Object: o.Object, UID: o.UID, Revision: old.Revision, Gone: true})
	case (old == nil || !old.Gone) && o.Revision <= c.streams[o.Kind].at: // the stream has shown it, or that it went
	case old == nil || old.Gone || old.Revision < o.Revision: // what is gone was asked for since
		c.lockedSet(old, o)
	}
}

// lockedSet puts an object in the place of another; nil is none. It returns the replicas that are to
// be looked at for that. What others make of what is theirs is no news.
func (c *Cache) lockedSet(old, now *Object) (concerned []syncer.Key) {
	if old != nil {
		delete(c.objects, old.Object)
		if all := c.slices[old.Replica]; old.Slice != nil {
			if c.slices[old.Replica] = slices.DeleteFunc(all, func(o *Object) bool { return o == old }); len(c.slices[old.Replica]) == 0 {
				delete(c.slices, old.Replica)
			}
		}
	}
	if now != nil {
		now = now.pack()
		c.objects[now.Object] = now
		if now.Slice != nil && now.Replica != (syncer.Key{}) {
			all := c.slices[now.Replica]
			at, _ := slices.BinarySearchFunc(all, now.Name, func(o *Object, name string) int { return strings.Compare(o.Name, name) })
			c.slices[now.Replica] = slices.Insert(all, at, now)
		}
	}
	if old != nil && now != nil && !old.Gone && !old.Owned && !now.Owned && old.Replica == now.Replica && old.State == now.State {
		return nil
	}
	for _, o := range []*Object{old, now} {
		if o != nil && !o.Gone && o.Replica != (syncer.Key{}) && !slices.Contains(concerned, o.Replica) {
			concerned = append(concerned, o.Replica)
		}
	}
	return concerned
}

// Current returns what stands under a replica's name. It is made of values that never change.
func (c *Cache) Current(key syncer.Key) plan.Current {
	c.mu.RLock()
	defer c.mu.RUnlock()
	now := plan.Current{Key: key}
	if o := c.objects[plan.Object{Kind: plan.KindNamespace, Name: key.Namespace}]; o != nil {
		now.Namespace = o.State
	}
	if o := c.objects[plan.Object{Kind: plan.KindService, Namespace: key.Namespace, Name: key.Name}]; o != nil {
		now.Service = o.Service
	}
	if o := c.objects[plan.Object{Kind: plan.KindEndpoints, Namespace: key.Namespace, Name: key.Name}]; o != nil {
		now.Endpoints = o.endpoints()
	}
	now.Slices = make([]plan.Slice, len(c.slices[key]))
	for i, o := range c.slices[key] {
		now.Slices[i] = o.slice()
	}
	return now
}

// HasSynced reports whether everything was listed: only then absence means absence.
func (c *Cache) HasSynced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// WaitForSync waits until everything was listed. The error is ctx's.
func (c *Cache) WaitForSync(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Keys returns every replica of which an object of ours stands, sorted. The cost grows with all
// that stands.
func (c *Cache) Keys() (keys []syncer.Key) {
	c.mu.RLock()
	for _, o := range c.objects {
		if o.Owned {
			keys = append(keys, o.Replica)
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(keys, syncer.Key.Compare)
	return slices.Compact(keys)
}

// PublishedShare is what stands of one member in a replica: the endpoints of its slices of ours,
// without ports.
type PublishedShare struct {
	Replica   syncer.Key
	Endpoints []syncer.Endpoint
}

// Published returns what stands of a member, sorted by replica. A replica of which a slice
// stands is in it, even if the slice is empty.
func (c *Cache) Published(member string) (all []PublishedShare) {
	c.mu.RLock()
	for key, of := range c.slices {
		var s *PublishedShare
		for _, o := range of {
			if !o.Owned || o.Slice.Labels.Get(syncer.LabelSourceCluster) != member {
				continue
			}
			if s == nil {
				s = &PublishedShare{Replica: key}
			}
			s.Endpoints = append(s.Endpoints, o.slice().Endpoints...)
		}
		if s != nil {
			all = append(all, *s)
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(all, func(a, b PublishedShare) int { return a.Replica.Compare(b.Replica) })
	return all
}
