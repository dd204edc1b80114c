// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// MaxTroubles bounds each list of troubles in a Status; the counts are exact.
	MaxTroubles = 200
	// maxText bounds text that a cluster chose.
	maxText = 128
)

// Trouble is all that is wrong with one replica after a worker's pass. In the
// lists, Namespace, Service and Since need not be set.
type Trouble struct {
	Conflicts []Conflict
	Held      []HeldChange
	Rejected  []Rejection
	// Orphans have one entry a cluster, of which Replicas need not be set.
	Orphans []OrphanStatus
}

func (t *Trouble) empty() bool {
	return len(t.Conflicts) == 0 && len(t.Held) == 0 && len(t.Rejected) == 0 && len(t.Orphans) == 0
}

type replicaKey struct{ namespace, service string }

// troubles remembers what is wrong with which replica. Its memory is bounded
// by the replicas in trouble and the addresses they name.
type troubles struct {
	// rejected is called for each address that was not rejected before.
	rejected func(cluster, reason string)

	mu sync.RWMutex
	of map[replicaKey]*Trouble
	// unlogged are the replicas of of whose conflicts or held changes are not those of
	// the last record that was logged.
	unlogged map[replicaKey]bool
}

// report replaces what is known about a replica. The usual case, no trouble
// before and none now, costs one lookup.
func (t *troubles) report(namespace, service string, now Trouble) {
	key := replicaKey{namespace, service}
	if now.empty() {
		t.mu.RLock()
		_, known := t.of[key]
		t.mu.RUnlock()
		if !known {
			return
		}
	}
	at := time.Now().UTC()
	t.mu.Lock()
	before := t.of[key]
	if before == nil {
		before = new(Trouble)
	}
	next, fresh := merge(key, before, &now, at)
	switch {
	case next.empty():
		delete(t.of, key)
		delete(t.unlogged, key)
	default:
		t.of[key] = next
		if !next.holdsLike(before) {
			t.unlogged[key] = true
		}
	}
	t.mu.Unlock()
	for i := range fresh {
		t.rejected(fresh[i].Cluster, fresh[i].Reason)
	}
}

// takeUnlogged reports whether what holds a replica is not logged yet, and takes it as logged.
func (t *troubles) takeUnlogged(namespace, service string) bool {
	key := replicaKey{namespace, service}
	t.mu.Lock()
	defer t.mu.Unlock()
	unlogged := t.unlogged[key]
	delete(t.unlogged, key)
	return unlogged
}

// holdsLike reports whether the same conflicts and held changes are in both, as
// far as a person would have to do something else.
func (t *Trouble) holdsLike(o *Trouble) bool {
	return slices.EqualFunc(t.Conflicts, o.Conflicts, func(a, b Conflict) bool { return a.Reason == b.Reason && a.Cluster == b.Cluster }) &&
		slices.EqualFunc(t.Held, o.Held, func(a, b HeldChange) bool { return a.Reason == b.Reason && a.Cluster == b.Cluster })
}

// merge returns the new state: of troubles that were known before, Since is
// kept. fresh are the rejections that were not.
func merge(key replicaKey, before, now *Trouble, at time.Time) (next *Trouble, fresh []Rejection) {
	next = &Trouble{
		Conflicts: slices.Clone(now.Conflicts), Held: slices.Clone(now.Held), Rejected: slices.Clone(now.Rejected), Orphans: slices.Clone(now.Orphans),
	}
	for i := range next.Orphans {
		o := &next.Orphans[i]
		o.Since = at
		if j := slices.IndexFunc(before.Orphans, func(b OrphanStatus) bool { return b.Cluster == o.Cluster }); j >= 0 {
			o.Since = before.Orphans[j].Since
		}
	}
	for i := range next.Conflicts {
		c := &next.Conflicts[i]
		c.Namespace, c.Service = key.namespace, key.service
		c.Since = at
		if j := slices.IndexFunc(before.Conflicts, func(o Conflict) bool { return o.Reason == c.Reason && o.Cluster == c.Cluster }); j >= 0 {
			c.Since = before.Conflicts[j].Since
		}
	}
	for i := range next.Held {
		h := &next.Held[i]
		h.Namespace, h.Service = key.namespace, key.service
		h.Release = cmp.Or(h.Release, reasonOf(h.Reason).Release)
		h.Since = at
		if j := slices.IndexFunc(before.Held, func(o HeldChange) bool { return o.Reason == h.Reason && o.Cluster == h.Cluster }); j >= 0 {
			h.Since = before.Held[j].Since
		}
	}
	type identity struct{ cluster, address, reason string }
	known := make(map[identity]time.Time, len(before.Rejected))
	for _, r := range before.Rejected {
		known[identity{r.Cluster, r.Address, r.Reason}] = r.Since
	}
	for i := range next.Rejected {
		r := &next.Rejected[i]
		r.Namespace, r.Service = key.namespace, key.service
		r.Address = shorten(r.Address)
		id := identity{r.Cluster, r.Address, r.Reason}
		since, old := known[id]
		if !old {
			since = at
			known[id] = at
			fresh = append(fresh, *r)
		}
		r.Since = since
	}
	return next, fresh
}

// shorten cuts text that a cluster chose, and copies it, so that it does not
// keep a larger buffer alive.
func shorten(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}

// orphans are the clusters that are not configured and of which endpoints stand, by name. One that the status
// lists as a member is none, though a replica was not looked at since.
func (t *troubles) orphans(members []ClusterStatus) []OrphanStatus {
	all := map[string]*OrphanStatus{}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, one := range t.of {
		for _, o := range one.Orphans {
			if slices.ContainsFunc(members, func(c ClusterStatus) bool { return c.Name == o.Cluster }) {
				continue
			}
			sum := all[o.Cluster]
			if sum == nil {
				sum = &OrphanStatus{Cluster: o.Cluster, Since: o.Since}
				all[o.Cluster] = sum
			}
			sum.Replicas++
			sum.Endpoints += o.Endpoints
			if o.Since.Before(sum.Since) {
				sum.Since = o.Since
			}
		}
	}
	var out []OrphanStatus
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out
}

// addTo adds the troubles to a status, all of them, sorted by name.
func (t *troubles) addTo(s *Status) {
	s.Orphans = t.orphans(s.Clusters)
	t.mu.RLock()
	for _, one := range t.of {
		s.Conflicts = append(s.Conflicts, one.Conflicts...)
		s.Held = append(s.Held, one.Held...)
		s.Rejected = append(s.Rejected, one.Rejected...)
	}
	t.mu.RUnlock()
	slices.SortFunc(s.Conflicts, func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Cluster, b.Cluster))
	})
	slices.SortFunc(s.Held, func(a, b HeldChange) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Reason, b.Reason))
	})
	slices.SortFunc(s.Rejected, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Address, b.Address))
	})
	s.ConflictCount, s.HeldCount, s.RejectedCount = len(s.Conflicts), len(s.Held), len(s.Rejected)
}

// counts returns the number of conflicts by reason, and of held changes and of
// rejected addresses by cluster and reason.
func (t *troubles) counts() (conflicts map[string]int, held, rejected map[[2]string]int) {
	conflicts, held, rejected = map[string]int{}, map[[2]string]int{}, map[[2]string]int{}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, one := range t.of {
		for i := range one.Conflicts {
			conflicts[one.Conflicts[i].Reason]++
		}
		for i := range one.Held {
			held[[2]string{one.Held[i].Cluster, one.Held[i].Reason}]++
		}
		for i := range one.Rejected {
			rejected[[2]string{one.Rejected[i].Cluster, one.Rejected[i].Reason}]++
		}
	}
	return conflicts, held, rejected
}
