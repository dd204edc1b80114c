// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// view is what stands in the ingress cluster, in memory: about 0.5 kB for an
// object of ours with a few addresses, 0.2 kB for a foreign one.
//
// Two streams of news feed it, our watches and the answers to our own requests.
// They are not ordered, so the higher resourceVersion wins; an object that we
// know to be gone does not come back by a late event (echo.go).
//
// All methods are safe for concurrent use. What must be looked at again is
// handed to notify, never with the lock held.
type view struct {
	// notify receives what others changed, echoed what our watch has shown of our
	// own writes.
	notify func([]change)
	echoed func(metrics.Ref, time.Time)

	mu sync.RWMutex
	// entries holds every object; byReplica points to the same values.
	entries   map[objectID]*found
	byReplica map[syncer.Key]*standing
	// strangers are the names of slices of others by namespace: they may be in the way.
	strangers map[string]map[string]bool
	// writes holds the objects whose last news is our own write, until our watch
	// has shown it: at most one for each object.
	writes map[objectID]*ownWrite
	// listed holds the kinds that were listed once: only then absence means absence.
	listed map[plan.Kind]bool
	// tops is the highest version seen of each kind, also by bookmarks.
	tops map[plan.Kind]uint64
	// watermarks tell whether the store went back in time.
	watermarks map[plan.Kind]*kube.Watermarks
}

// standing is all that stands under one replica's name.
type standing struct {
	service   *found
	endpoints *found
	slices    []*found // sorted by name
	// gathered is the same as rules see it; nil when one of them has changed since.
	gathered atomic.Pointer[plan.Observed]
}

// observed is what stands as rules see it, shared and immutable.
func (s *standing) observed(replica syncer.Key) *plan.Observed {
	if known := s.gathered.Load(); known != nil {
		return known
	}
	out := plan.Observed{Key: replica}
	if s.service != nil {
		service := *s.service.service
		out.Service = &service
	}
	if s.endpoints != nil {
		endpoints := *s.endpoints.endpoints
		out.Endpoints = &endpoints
	}
	if len(s.slices) > 0 {
		out.Slices = make([]plan.ObservedSlice, len(s.slices))
		for i, f := range s.slices {
			out.Slices[i] = *f.slice
		}
	}
	out.Own()
	s.gathered.Store(&out)
	return &out
}

func newView(notify func([]change), echoed func(metrics.Ref, time.Time)) *view {
	return &view{
		notify: notify, echoed: echoed,
		entries: map[objectID]*found{}, byReplica: map[syncer.Key]*standing{}, strangers: map[string]map[string]bool{},
		writes: map[objectID]*ownWrite{}, listed: map[plan.Kind]bool{}, tops: map[plan.Kind]uint64{}, watermarks: map[plan.Kind]*kube.Watermarks{},
	}
}

// observed returns what stands under a replica's name. The values are shared
// and immutable.
func (v *view) observed(replica syncer.Key) plan.Observed {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := plan.Observed{Key: replica}
	if s := v.byReplica[replica]; s != nil {
		out = *s.observed(replica)
	}
	if ns := v.entries[namespaceID(replica.Namespace)]; ns != nil {
		out.Namespace = ns.namespace
	}
	for name := range v.strangers[replica.Namespace] {
		if strings.HasPrefix(name, replica.Name+"-") {
			out.Occupied = append(out.Occupied, name)
		}
	}
	slices.Sort(out.Occupied)
	return out
}

// lookup returns one object, nil if there is none.
func (v *view) lookup(id objectID) *found {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.entries[id]
}

// serviceUID returns the UID of the Service of a replica, "" if there is none.
func (v *view) serviceUID(replica syncer.Key) string {
	if f := v.lookup(objectID{plan.KindService, replica}); f != nil {
		return f.uid
	}
	return ""
}

// ownerUID returns the UID of the Service that owns a slice to be written: that of
// the replica or, where that is not ours, the one the slice has.
func (v *view) ownerUID(replica syncer.Key, standing *plan.Meta) string {
	if service := v.observed(replica).Service; service != nil && service.Owned {
		return service.UID
	}
	if standing != nil {
		return standing.OwnerUID
	}
	return ""
}

// highest returns the highest version seen of a kind since the last distrust.
func (v *view) highest(kind plan.Kind) uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.tops[kind]
}

// saw notes a version of a kind that came without an object.
func (v *view) saw(kind plan.Kind, rv uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tops[kind] = max(v.tops[kind], rv)
}

// replicas returns every replica key under which an object of ours stands, or one that
// carries our mark, sorted.
func (v *view) replicas(in func(syncer.Key) bool) []syncer.Key {
	v.mu.RLock()
	var keys []syncer.Key
	for key, s := range v.byReplica {
		if (in == nil || in(key)) && (s.observed(key).Ours() || s.observed(key).Disputed()) {
			keys = append(keys, key)
		}
	}
	v.mu.RUnlock()
	slices.SortFunc(keys, syncer.Key.Compare) // writes need not wait for this
	return keys
}

// namespaces returns up to n namespaces in which something of ours stands.
func (v *view) namespaces(n int) (names []string) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for key, s := range v.byReplica {
		if len(names) == n {
			break
		}
		if s.observed(key).Ours() && !slices.Contains(names, key.Namespace) {
			names = append(names, key.Namespace)
		}
	}
	return names
}

// sample returns some object of ours of a kind, in another namespace than the one to
// avoid if there is one; nil if there is none.
func (v *view) sample(kind plan.Kind, avoid string) (one *found) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for id, f := range v.entries {
		if id.kind != kind || f.claim != plan.ClaimRecorded || f.deleting {
			continue
		}
		if one = f; id.Namespace != avoid {
			break
		}
	}
	return one
}

// ownedCount counts the replica keys under which an object of ours stands.
func (v *view) ownedCount() (n int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for key, s := range v.byReplica {
		if s.observed(key).Ours() {
			n++
		}
	}
	return n
}

func namespaceID(name string) objectID {
	return objectID{plan.KindNamespace, syncer.Key{Name: name}}
}

// lockedPut stores an object unless what is known is newer.
func (v *view) lockedPut(f *found) (changed bool) {
	old := v.entries[f.id]
	if old != nil && f.rv != 0 && old.rv >= f.rv {
		return false
	}
	if old != nil {
		v.lockedUnlink(old)
	}
	v.entries[f.id] = f
	v.lockedLink(f)
	v.tops[f.id.kind] = max(v.tops[f.id.kind], f.rv)
	v.lockedWatermarks(f.id.kind).Heard(kube.Watermark{Key: f.id.Key, Revision: f.rv})
	return true
}

func (v *view) lockedDrop(f *found) {
	delete(v.entries, f.id)
	v.lockedUnlink(f)
}

func (v *view) lockedLink(f *found) {
	if f.id.kind == plan.KindNamespace {
		return
	}
	s := v.byReplica[f.replica]
	if s == nil {
		s = &standing{}
		v.byReplica[f.replica] = s
	}
	switch f.id.kind {
	case plan.KindService:
		s.service = f
	case plan.KindEndpoints:
		s.endpoints = f
	case plan.KindEndpointSlice:
		i, _ := slices.BinarySearchFunc(s.slices, f.id.Name, compareFound)
		s.slices = slices.Insert(s.slices, i, f)
		if f.claim == plan.ClaimRecorded {
			break
		}
		if v.strangers[f.id.Namespace] == nil {
			v.strangers[f.id.Namespace] = map[string]bool{}
		}
		v.strangers[f.id.Namespace][f.id.Name] = true
	}
	s.gathered.Store(nil)
}

func (v *view) lockedUnlink(f *found) {
	s := v.byReplica[f.replica]
	if s == nil {
		return
	}
	switch f.id.kind {
	case plan.KindService:
		s.service = nil
	case plan.KindEndpoints:
		s.endpoints = nil
	case plan.KindEndpointSlice:
		if i, ok := slices.BinarySearchFunc(s.slices, f.id.Name, compareFound); ok {
			s.slices = slices.Delete(s.slices, i, i+1)
		}
		if names := v.strangers[f.id.Namespace]; names[f.id.Name] {
			delete(names, f.id.Name)
			if len(names) == 0 {
				delete(v.strangers, f.id.Namespace)
			}
		}
	}
	if s.service == nil && s.endpoints == nil && len(s.slices) == 0 {
		delete(v.byReplica, f.replica)
		return
	}
	s.gathered.Store(nil)
}

func compareFound(f *found, name string) int { return strings.Compare(f.id.Name, name) }

// upsert takes an object from our watch. Safe to call for an old one.
func (v *view) upsert(f *found, at time.Time) {
	var n news
	v.mu.Lock()
	v.lockedUpsert(&n, f, at, lanes.Addition)
	v.mu.Unlock()
	v.tell(&n)
}

func (v *view) lockedUpsert(n *news, f *found, at time.Time, lane lanes.Lane) {
	buried := v.lockedBuried(f)
	old := v.entries[f.id]
	changed := !buried && v.lockedPut(f)
	if ours := v.lockedSighted(n, f, at, buried); changed && !ours {
		n.add(old, f, at, lane)
		if old == nil {
			v.lockedInTheWay(n, f, at)
		}
	}
}

// lockedInTheWay notes the replicas of ours of which a slice of somebody else, that has
// come or gone, has or had a name.
func (v *view) lockedInTheWay(n *news, f *found, at time.Time) {
	if f.claim == plan.ClaimRecorded || f.id.kind != plan.KindEndpointSlice {
		return
	}
	for i := range f.id.Name {
		key := syncer.Key{Namespace: f.id.Namespace, Name: f.id.Name[:i]}
		if s := v.byReplica[key]; f.id.Name[i] == '-' && key != f.replica && s != nil && s.observed(key).Ours() {
			n.changes = append(n.changes, change{replica: key, lane: lanes.Bulk, cause: metrics.Cause{
				Kind: string(f.id.kind), Namespace: f.id.Namespace, Name: f.id.Name, UID: f.uid, Event: eventRepair, Arrival: at}})
		}
	}
}

// remove takes a deletion from our watch.
func (v *view) remove(id objectID, uid string, at time.Time) {
	var n news
	v.mu.Lock()
	v.lockedRemove(&n, id, uid, at, lanes.Addition)
	v.mu.Unlock()
	v.tell(&n)
}

func (v *view) lockedRemove(n *news, id objectID, uid string, at time.Time, lane lanes.Lane) {
	ours := v.lockedSightedGone(n, id, uid, at)
	old := v.entries[id]
	if old == nil || old.uid != uid { // a late event about an earlier object of that name
		return
	}
	v.lockedDrop(old)
	if !ours {
		n.add(old, nil, at, lane)
		v.lockedInTheWay(n, old, at)
	}
}

// replace takes a whole list of one kind: what is absent from it, and not newer
// than it, is gone. The first list is no change, so nobody is told.
func (v *view) replace(kind plan.Kind, list []*found, rv string, at time.Time) (regressed bool) {
	present := make(map[objectID]bool, len(list))
	for _, f := range list {
		present[f.id] = true
	}
	as := version(rv)
	var n news
	v.mu.Lock()
	regressed = v.lockedSettled(kind, list, as)
	for id, old := range v.entries {
		if id.kind == kind && !present[id] && (as == 0 || old.rv <= as) {
			v.lockedRemove(&n, id, old.uid, at, lanes.Bulk)
		}
	}
	v.lockedListed(&n, kind, present, as, at)
	for _, f := range list {
		v.lockedUpsert(&n, f, at, lanes.Bulk)
	}
	if !v.listed[kind] {
		n.changes = nil
	}
	v.listed[kind] = true
	v.mu.Unlock()
	v.tell(&n)
	return regressed
}

// distrust forgets all resource versions and own writes: the server's own count
// went back (its etcd was restored), so the next lists win whatever they say.
func (v *view) distrust() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.entries {
		g := *f
		g.rv = 0
		v.lockedUnlink(f)
		v.entries[f.id] = &g
		v.lockedLink(&g)
	}
	clear(v.writes)
	clear(v.tops)
	clear(v.watermarks)
}
