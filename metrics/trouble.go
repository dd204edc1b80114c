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

// Trouble is all that is wrong with one replica by its last comparison. In the
// lists, Namespace, Service and Since need not be set.
type Trouble struct {
	Conflicts []Conflict
	Rejected  []Rejection
	// Orphans have one entry a cluster, of which Replicas need not be set.
	Orphans []OrphanStatus
}

func (t *Trouble) empty() bool {
	return len(t.Conflicts) == 0 && len(t.Rejected) == 0 && len(t.Orphans) == 0
}

type replicaKey struct{ namespace, service string }

// troubles remembers what is wrong with which replica. Its memory is bounded
// by the replicas in trouble and the addresses they name.
type troubles struct {
	mu sync.RWMutex
	of map[replicaKey]Trouble
}

// Report replaces what is known to be wrong with a replica. Call it after each
// comparison, with nothing wrong too, and when the replica is gone.
func (m *Metrics) Report(namespace, service string, t Trouble) {
	m.troubles.report(replicaKey{namespace, service}, t)
}

// report costs one lookup in the usual case: no trouble before and none now.
func (t *troubles) report(key replicaKey, now Trouble) {
	t.mu.RLock()
	_, known := t.of[key]
	t.mu.RUnlock()
	if now.empty() && !known {
		return
	}
	at := time.Now().UTC()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.empty() {
		delete(t.of, key)
		return
	}
	t.of[key] = now.since(key, t.of[key], at)
}

// since returns the trouble with the times at which each part of it began.
func (t *Trouble) since(key replicaKey, before Trouble, at time.Time) Trouble {
	next := Trouble{Conflicts: slices.Clone(t.Conflicts), Rejected: slices.Clone(t.Rejected), Orphans: slices.Clone(t.Orphans)}
	for i := range next.Conflicts {
		c := &next.Conflicts[i]
		c.Namespace, c.Service, c.Since = key.namespace, key.service, at
		if j := slices.IndexFunc(before.Conflicts, func(o Conflict) bool { return o.Reason == c.Reason && o.Cluster == c.Cluster }); j >= 0 {
			c.Since = before.Conflicts[j].Since
		}
	}
	type identity struct{ cluster, address, reason string }
	began := make(map[identity]time.Time, len(before.Rejected))
	for _, r := range before.Rejected {
		began[identity{r.Cluster, r.Address, r.Reason}] = r.Since
	}
	for i := range next.Rejected {
		r := &next.Rejected[i]
		r.Namespace, r.Service, r.Address = key.namespace, key.service, shorten(r.Address)
		if r.Since = began[identity{r.Cluster, r.Address, r.Reason}]; r.Since.IsZero() {
			r.Since = at
		}
	}
	return next
}

// shorten cuts text that a cluster chose, and copies it, so that it does not
// keep a larger buffer alive.
func shorten(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return strings.Clone(s)
}

// addTo adds the troubles to a status, all of them, sorted by name. A cluster that the
// status lists as a member is no orphan, though a replica was not compared since.
func (t *troubles) addTo(s *Status) {
	orphans := map[string]OrphanStatus{}
	t.mu.RLock()
	for _, one := range t.of {
		s.Conflicts = append(s.Conflicts, one.Conflicts...)
		s.Rejected = append(s.Rejected, one.Rejected...)
		orphaned := false
		for _, o := range one.Orphans {
			if !slices.ContainsFunc(s.Clusters, func(c ClusterStatus) bool { return c.Name == o.Cluster }) {
				sum := orphans[o.Cluster]
				orphans[o.Cluster] = OrphanStatus{Cluster: o.Cluster, Replicas: sum.Replicas + 1, Endpoints: sum.Endpoints + o.Endpoints}
				orphaned = true
			}
		}
		if orphaned {
			s.OrphanReplicas++
		}
	}
	t.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(orphans)) {
		s.Orphans = append(s.Orphans, orphans[name])
	}
	slices.SortFunc(s.Conflicts, func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Cluster, b.Cluster))
	})
	slices.SortFunc(s.Rejected, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Address, b.Address))
	})
	s.ConflictCount, s.RejectedCount = len(s.Conflicts), len(s.Rejected)
}
