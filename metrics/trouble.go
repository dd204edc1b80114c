// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"fmt"
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

// troubles stores what is wrong with which replica. Its memory is bounded
// by the replicas in trouble and the addresses they name.
type troubles struct {
	mu sync.Mutex
	of map[replicaKey]Trouble
}

// Report replaces what is known to be wrong with a replica. Call it after each
// comparison, with nothing wrong too, and when the replica is gone.
func (m *Metrics) Report(namespace, service string, t Trouble) {
	key, all := replicaKey{namespace, service}, &m.troubles
	all.mu.Lock()
	defer all.mu.Unlock()
	if t.empty() {
		delete(all.of, key)
		return
	}
	all.of[key] = t.since(key, all.of[key], time.Now().UTC())
}

// since returns the trouble with the times at which each conflict began.
func (t *Trouble) since(key replicaKey, before Trouble, at time.Time) Trouble {
	next := Trouble{Conflicts: slices.Clone(t.Conflicts), Rejected: slices.Clone(t.Rejected), Orphans: slices.Clone(t.Orphans)}
	for i := range next.Conflicts {
		c := &next.Conflicts[i]
		c.Namespace, c.Service, c.Since = key.namespace, key.service, at
		if j := slices.IndexFunc(before.Conflicts, func(o Conflict) bool { return o.Reason == c.Reason && o.Cluster == c.Cluster }); j >= 0 {
			c.Since = before.Conflicts[j].Since
		}
	}
	for i := range next.Rejected {
		r := &next.Rejected[i]
		r.Namespace, r.Service, r.Address = key.namespace, key.service, shorten(r.Address)
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
	t.mu.Lock()
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
	t.mu.Unlock()
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

// Finding is something in a status that a person should look at.
type Finding struct {
	// Grave is true where changes do not get through, or might not before long.
	Grave bool
	// Text says what is wrong, Do what to type or to do about it.
	Text, Do string
}

// lateLag is the lag from which a member, or a sink, is a finding.
const lateLag = 10 * time.Second

// Findings are what is wrong, the gravest first; none means that all is well.
func (s *Status) Findings() []Finding {
	var out []Finding
	add := func(grave bool, do, format string, args ...any) {
		out = append(out, Finding{grave, fmt.Sprintf(format, args...), do})
	}
	if len(s.NotReady) > 0 {
		add(true, "wait, or see what follows", "Not ready: %s.", strings.Join(s.NotReady, "; "))
	}
	if !s.Ingress.Up {
		add(true, "tributary check --config FILE", "The ingress cluster does not answer%s.", colon(s.Ingress.LastError))
	}
	if s.Leader.Error != "" {
		add(!s.Leader.Writes(), "see that Leases may be written in the namespace of "+cmp.Or(s.Leader.Lease, "the Lease"), "The leader's Lease cannot be used: %s.", s.Leader.Error)
	}
	if s.Config.Error != "" {
		add(true, "tributary check --config "+cmp.Or(s.Config.File, "FILE"), "The configuration on disk is refused, the former one runs on: %s.", s.Config.Error)
	}
	for _, refused := range s.Config.Refused {
		add(true, "tributary check --config "+cmp.Or(s.Config.File, "FILE"), "%s.", refused)
	}
	if len(s.Config.Restart) > 0 {
		add(false, "restart it", "A change of %s in the configuration waits for a restart.", strings.Join(s.Config.Restart, ", "))
	}
	for i := range s.Clusters {
		s.Clusters[i].findings(add)
	}
	for _, o := range s.Orphans {
		add(false, "configure it again, or set replicas.orphans: delete", "Cluster %s is not configured, and %d replicas have %d endpoints of it, as reserves.", o.Cluster, o.Replicas, o.Endpoints)
	}
	for i := range s.Sinks {
		if k := &s.Sinks[i]; k.State == "failing" || k.LagSeconds >= lateLag.Seconds() {
			add(true, "tributary check --config FILE", "Sink %s is not told: %d Services wait%s.", k.Name, k.Pending, colon(k.LastError))
		} else if k.Refused > 0 {
			add(false, "see its log", "Sink %s refuses %d Services.", k.Name, k.Refused)
		}
	}
	if s.ConflictCount > 0 {
		add(false, "see below", "Conflicts: %d.", s.ConflictCount)
	}
	if s.RejectedCount > 0 {
		add(false, "see below", "Addresses that are left out: %d.", s.RejectedCount)
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(truth(b.Grave), truth(a.Grave)) })
	return out
}

// findings are those of a member. What is drained is away by intent.
func (c *ClusterStatus) findings(add func(grave bool, do, format string, args ...any)) {
	grave := !c.Drained()
	switch {
	case !c.Up:
		add(grave, "tributary check --config FILE", "Cluster %s is %s%s. Its endpoints stay as they are.", c.Name, cmp.Or(c.State, "unreachable"), colon(c.LastError))
	case !c.Synced:
		add(grave, "wait, or tributary check --config FILE", "Cluster %s has not been listed completely%s. Its endpoints stay as they are.", c.Name, colon(c.LastError))
	case c.LagSeconds >= lateLag.Seconds():
		add(grave, "tributary trace --cluster "+c.Name, "The oldest change of cluster %s waits for %s.", c.Name, time.Duration(c.LagSeconds*float64(time.Second)).Round(time.Second))
	}
	for _, condition := range c.Conditions {
		do := "tributary check --config FILE"
		if condition.Reason == "Drained" {
			do = "set drain: false when it is to serve again"
		}
		if c.Up {
			add(false, do, "Cluster %s: %s.", c.Name, cmp.Or(strings.TrimSuffix(condition.Message, "."), condition.Reason))
		}
	}
	if c.Native != nil && c.Native.DifferingCount > 0 {
		add(false, "tributary status -o yaml names them", "%d Services of cluster %s differ from its own Endpoints for long.", c.Native.DifferingCount, c.Name)
	}
}

// colon puts a detail behind a sentence, which ends it.
func colon(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + strings.TrimSuffix(detail, ".")
}
