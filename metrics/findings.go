// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
