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

// News is called when a stream shows a change by others: with the replica that is to be
// compared, and the object. For a namespace the key has no name: all replicas in it are
// concerned. It is also called for our own writes whose event comes before their answer.
// arrived is when the event was read off the wire; zero: a list showed it, now. It must not
// block.
type News func(replica syncer.Key, o plan.Object, arrived time.Time)

// Cache is the current state of the ingress cluster. Two sources feed it, the server's streams and
// the answers to our own requests. They are not ordered, so the higher revision wins. All methods
// are safe for concurrent use.
type Cache struct {
	instance string
	news     News

	mu sync.RWMutex
	// objects also has what we deleted, as gone at its last revision, until a stream or a list
	// shows the deletion: a late event does not bring it back.
	objects map[plan.Object]*Object
	// slices are those among them that belong to a replica, sorted by name.
	slices map[syncer.Key][]*Object
	// streams are the states of the streams by kind.
	streams [len(Kinds)]stream
	// synced is closed once everything was listed.
	synced chan struct{}
}

// New returns an empty Cache for an installation.
func New(instance string, news News) *Cache {
	c := &Cache{instance: instance, news: news, objects: map[plan.Object]*Object{}, slices: map[syncer.Key][]*Object{}, synced: make(chan struct{})}
	for kind := range c.streams {
		c.streams[kind] = stream{cache: c, kind: plan.Kind(kind)}
	}
	return c
}

// Store is the number of the store that a kind is read from: it rises when a store is restored.
func (c *Cache) Store(kind plan.Kind) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.streams[kind].store
}

// Take applies the answer to a request of ours: an object, or that one is gone. store is what Store
// was when the request was sent: the answer of an earlier store is ignored. The cache owns the object
// from then on. It returns the replicas that are to be compared for that.
func (c *Cache) Take(o *Object, store int) (concerned []syncer.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch old := c.objects[o.Object]; {
	case store != c.streams[o.Kind].store:
	case o.Gone && (old == nil || old.UID != o.UID):
	case o.Gone:
		return c.lockedSet(old, &Object{Object: o.Object, UID: o.UID, Revision: old.Revision, Gone: true})
	case (old == nil || !old.Gone) && o.Revision <= c.streams[o.Kind].at: // the stream has shown it, or that it went
	case old == nil || old.Gone || old.Revision < o.Revision: // what is gone was asked for since
		return c.lockedSet(old, o)
	}
	return nil
}

// lockedSet replaces an object by another; nil is none. It returns the replicas that are to be compared
// for that. Changes that others make to objects of theirs concern none.
func (c *Cache) lockedSet(old, now *Object) (concerned []syncer.Key) {
	if old != nil {
		delete(c.objects, old.Object)
		if old.Kind == plan.KindEndpointSlice {
			c.slices[old.Replica] = slices.DeleteFunc(c.slices[old.Replica], func(o *Object) bool { return o == old })
			if len(c.slices[old.Replica]) == 0 {
				delete(c.slices, old.Replica)
			}
		}
	}
	if now != nil {
		c.objects[now.Object] = now
		if now.Kind == plan.KindEndpointSlice && now.Replica != (syncer.Key{}) {
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

// Current returns the current objects of a replica.
func (c *Cache) Current(key syncer.Key) plan.Current {
	c.mu.RLock()
	namespace := c.objects[plan.Object{Kind: plan.KindNamespace, Name: key.Namespace}]
	service := c.objects[plan.Object{Kind: plan.KindService, Namespace: key.Namespace, Name: key.Name}]
	endpoints := c.objects[plan.Object{Kind: plan.KindEndpoints, Namespace: key.Namespace, Name: key.Name}]
	all := slices.Clone(c.slices[key])
	c.mu.RUnlock()
	now := plan.Current{Key: key, Service: service.service(), Endpoints: endpoints.endpoints(), Slices: make([]plan.Slice, len(all))}
	if namespace != nil {
		now.Namespace = namespace.State
	}
	for i, o := range all {
		now.Slices[i] = o.slice()
	}
	return now
}

// HasSynced reports whether everything was listed: only then a missing object does not exist.
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

// Keys returns every replica of which an object of ours exists, sorted. The cost grows with all
// objects.
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

// Published returns what is published of a member: the endpoints of its slices of ours, without
// ports and with the grades by which they count. A replica with a slice of the member is included, even
// if the slice is empty. place is the member's place in the failover order of a namespace.
func (c *Cache) Published(member string, place func(namespace string) int) map[syncer.Key][]syncer.Endpoint {
	var found []*Object
	c.mu.RLock()
	for key, of := range c.slices {
		for _, o := range of {
			if by := syncer.ClusterOf(key.Name, o.Name); o.Owned && (by == "" || by == member) { // others are not decoded
				found = append(found, o)
			}
		}
	}
	c.mu.RUnlock()
	all := map[syncer.Key][]syncer.Endpoint{}
	for _, o := range found {
		s := o.slice()
		if plan.MemberOf(o.Replica, &s) != member {
			continue
		}
		for i := range s.Endpoints {
			s.Endpoints[i].Grade = plan.GradeAt(place(o.Namespace), &s.Endpoints[i])
		}
		all[o.Replica] = append(all[o.Replica], s.Endpoints...)
	}
	return all
}
