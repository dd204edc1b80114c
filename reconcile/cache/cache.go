// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Cache is what stands in the ingress cluster, in memory: about 0.5 kB for an
// object of ours with a few addresses, 0.2 kB for a foreign one.
//
// Two streams of news feed it, our watches and the answers to our own requests.
// They are not ordered, so the higher resourceVersion wins; an object that we
// know to be gone does not come back by a late event (writes.go).
//
// All methods are safe for concurrent use. What must be looked at again is
// handed to notify, never with the lock held.
type Cache struct {
	// notify receives what others changed, confirmed what our watch has shown of our
	// own writes.
	notify    func([]Change)
	confirmed func(record.Ref, time.Time)

	mu sync.RWMutex
	// entries holds every object; byReplica points to the same values.
	entries   map[ID]*Object
	byReplica map[syncer.Key]*replicaObjects
	// owned counts those of byReplica of which something is ours.
	owned int
	// strangers are the names of slices of others by namespace: they may be in the way.
	strangers map[string]map[string]bool
	// writes holds the objects whose last news is our own write, until our watch
	// has shown it: at most one for each object.
	writes map[ID]*pendingWrite
	// listed holds what was listed once: only then absence means absence.
	listed map[Scope]bool
	// observe, unless nil, receives what answers to writes show before a watch does.
	observe func(f *Object, gone bool)
}

// Scope is what a list covers: a kind in one namespace, "" for all.
type Scope struct {
	Kind      plan.Kind
	Namespace string
}

// Covers reports whether an object is in the scope.
func (s Scope) Covers(id ID) bool {
	return s.Kind == id.Kind && (s.Namespace == "" || s.Namespace == id.Namespace)
}

// New returns an empty Cache. notify is told what others changed, confirmed when our watch has
// shown a version that we wrote.
func New(notify func([]Change), confirmed func(record.Ref, time.Time)) *Cache {
	return &Cache{
		notify: notify, confirmed: confirmed,
		entries: map[ID]*Object{}, byReplica: map[syncer.Key]*replicaObjects{}, strangers: map[string]map[string]bool{},
		writes: map[ID]*pendingWrite{}, listed: map[Scope]bool{},
	}
}

// Observe has a function told what the answers to writes show before a watch does: an
// object as it stands, or the last state of one that is gone. It is called with the cache
// locked and must not block. Call it before all else.
func (c *Cache) Observe(f func(f *Object, gone bool)) { c.observe = f }

// Lookup returns one object, nil if there is none.
func (c *Cache) Lookup(id ID) *Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[id]
}

// ServiceUID returns the UID of the Service of a replica, "" if there is none.
func (c *Cache) ServiceUID(replica syncer.Key) string {
	if f := c.Lookup(ID{plan.KindService, replica}); f != nil {
		return f.UID
	}
	return ""
}

// OwnerUID returns the UID of the Service that owns a slice to be written: that of
// the replica or, where that is not ours, the one the slice has.
func (c *Cache) OwnerUID(replica syncer.Key, standing *plan.Meta) string {
	if service := c.Current(replica).Service; service != nil && service.Owned {
		return service.UID
	}
	if standing != nil {
		return standing.OwnerUID
	}
	return ""
}

// Replicas returns every replica key under which an object of ours stands, or one that
// carries our mark, sorted.
func (c *Cache) Replicas(in func(syncer.Key) bool) []syncer.Key {
	c.mu.RLock()
	var keys []syncer.Key
	for key, s := range c.byReplica {
		if (in == nil || in(key)) && (s.lockedCurrent(key).Ours() || s.lockedCurrent(key).Disputed()) {
			keys = append(keys, key)
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(keys, syncer.Key.Compare) // writes need not wait for this
	return keys
}

// Samples returns up to n objects of ours of a kind, each in a namespace of its own; the one
// to avoid comes last.
func (c *Cache) Samples(kind plan.Kind, n int, avoid string) (some []*Object) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var last []*Object
	seen := map[string]bool{avoid: true}
	for id, f := range c.entries {
		if len(some) == n {
			return some
		}
		if id.Kind != kind || f.Claim != plan.ClaimRecorded || f.Deleting {
			continue
		}
		if id.Namespace == avoid {
			last = []*Object{f}
		} else if !seen[id.Namespace] {
			seen[id.Namespace] = true
			some = append(some, f)
		}
	}
	return append(some, last...)[:min(n, len(some)+len(last))]
}

// Owned counts the replica keys under which an object of ours stands.
func (c *Cache) Owned() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.owned
}

// lockedCount counts a replica, of which an object has come or gone, where it is ours.
func (c *Cache) lockedCount(replica syncer.Key) {
	s := c.byReplica[replica]
	if s == nil {
		return
	}
	if ours := s.lockedCurrent(replica).Ours(); ours != s.owned {
		if s.owned = ours; ours {
			c.owned++
		} else {
			c.owned--
		}
	}
}

func NamespaceID(name string) ID {
	return ID{plan.KindNamespace, syncer.Key{Name: name}}
}

// lockedPut stores an object unless what is known is newer.
func (c *Cache) lockedPut(f *Object) (changed bool) {
	old := c.entries[f.ID]
	if old != nil && f.Revision != 0 && old.Revision >= f.Revision {
		return false
	}
	if old != nil {
		c.lockedUnlink(old)
	}
	c.entries[f.ID] = f
	c.lockedLink(f)
	if c.lockedCount(f.Replica); old != nil && old.Replica != f.Replica {
		c.lockedCount(old.Replica)
	}
	return true
}

func (c *Cache) lockedDrop(f *Object) {
	delete(c.entries, f.ID)
	c.lockedUnlink(f)
	c.lockedCount(f.Replica)
}

// Upsert takes an object from our watch. Safe to call for an old one.
func (c *Cache) Upsert(f *Object, at time.Time) {
	var n notifications
	c.mu.Lock()
	c.lockedUpsert(&n, f, at, lanes.Addition)
	c.mu.Unlock()
	c.deliver(&n)
}

func (c *Cache) lockedUpsert(n *notifications, f *Object, at time.Time, lane lanes.Lane) {
	deleted := c.lockedPast(f)
	old := c.entries[f.ID]
	if old != nil && old.UID == f.UID && !f.Rival && f.meta() != nil && old.meta() != nil {
		f.meta().Mutations = f.meta().Mutations.Among(&old.meta().Mutations)
	}
	changed := !deleted && c.lockedPut(f)
	if ours := c.lockedSighted(n, f, at, deleted); changed && (f.Rival || !ours) {
		n.add(old, f, at, lane)
		if old == nil {
			c.lockedInTheWay(n, f, at)
		}
	}
}

// lockedInTheWay notes the replicas of ours of which a slice of somebody else, that has
// come or gone, has or had a name.
func (c *Cache) lockedInTheWay(n *notifications, f *Object, at time.Time) {
	if n.first || f.Claim == plan.ClaimRecorded || f.ID.Kind != plan.KindEndpointSlice {
		return
	}
	for i := range f.ID.Name {
		key := syncer.Key{Namespace: f.ID.Namespace, Name: f.ID.Name[:i]}
		if s := c.byReplica[key]; f.ID.Name[i] == '-' && key != f.Replica && s != nil && s.lockedCurrent(key).Ours() {
			n.changes = append(n.changes, Change{Replica: key, Lane: lanes.Bulk, Cause: record.Cause{
				Kind: string(f.ID.Kind), Namespace: f.ID.Namespace, Name: f.ID.Name, UID: f.UID, Event: EventRepair, Arrival: at}})
		}
	}
}

// Remove takes a deletion from our watch.
func (c *Cache) Remove(id ID, uid string, at time.Time) {
	var n notifications
	c.mu.Lock()
	c.lockedRemove(&n, id, uid, at, lanes.Addition)
	c.mu.Unlock()
	c.deliver(&n)
}

func (c *Cache) lockedRemove(n *notifications, id ID, uid string, at time.Time, lane lanes.Lane) {
	ours := c.lockedSightedGone(n, id, uid, at)
	old := c.entries[id]
	if old == nil || old.UID != uid { // a late event about an earlier object of that name
		return
	}
	c.lockedDrop(old)
	if !ours {
		n.add(old, nil, at, lane)
		c.lockedInTheWay(n, old, at)
	}
}

// Replace takes a whole list as of a revision: what is absent from it, and not newer
// than it, is gone. The first list is no change, so nobody is told. older says that the
// store went back in time; so does a list, which is reported, that shows anything older
// than it was. Such a list wins whatever the revisions say.
func (c *Cache) Replace(s Scope, list []*Object, revision uint64, older bool, at time.Time) (wentBack bool) {
	present := make(map[ID]bool, len(list))
	for _, f := range list {
		present[f.ID] = true
	}
	c.mu.Lock()
	if older = older || c.lockedRegressed(list, revision); older {
		c.lockedDistrust(s)
	}
	n := notifications{first: !c.listed[s], older: older}
	for id, old := range c.entries {
		if s.Covers(id) && !present[id] && (revision == 0 || old.Revision <= revision) {
			c.lockedRemove(&n, id, old.UID, at, lanes.Bulk)
		}
	}
	c.lockedListed(&n, s, present, revision, at)
	for _, f := range list {
		c.lockedUpsert(&n, f, at, lanes.Bulk)
	}
	c.listed[s] = true
	c.mu.Unlock()
	c.deliver(&n)
	return older
}

// lockedRegressed reports whether a list shows something older than it was.
func (c *Cache) lockedRegressed(list []*Object, revision uint64) bool {
	return slices.ContainsFunc(list, func(f *Object) bool {
		old := c.entries[f.ID]
		return old != nil && old.Revision <= revision && f.Revision != 0 && f.Revision < old.Revision
	})
}

// lockedDistrust forgets revisions and own writes.
func (c *Cache) lockedDistrust(s Scope) {
	for id, f := range c.entries {
		if s.Covers(id) {
			g := *f
			g.Revision = 0
			c.lockedUnlink(f)
			c.entries[id] = &g
			c.lockedLink(&g)
			c.lockedCount(g.Replica)
		}
	}
	maps.DeleteFunc(c.writes, func(id ID, _ *pendingWrite) bool { return s.Covers(id) })
}
