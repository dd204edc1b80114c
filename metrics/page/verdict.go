// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"

	"tributary.dev/tributary/metrics"
)

// judge says in a sentence whether a person has anything to do.
func judge(s *metrics.Status) verdict {
	if !s.Ready {
		if len(s.NotReady) == 0 {
			return verdict{"bad", "Not ready.", ""}
		}
		return verdict{"bad", "Not ready.", message("Waiting for " + strings.Join(s.NotReady, "; ") + ".")}
	}
	var open []string
	up, away := live(s)
	if away > 0 {
		open = append(open, plural(away, "cluster is not live", "clusters are not live"))
	}
	panics, stale, differing := special(s)
	if panics > 0 {
		open = append(open, plural(panics, "cluster is in panic", "clusters are in panic"))
	}
	if stale > 0 {
		open = append(open, plural(stale, "cluster is stale", "clusters are stale"))
	}
	if s.HeldCount > 0 {
		open = append(open, plural(s.HeldCount, "change is held", "changes are held"))
	}
	if s.ConflictCount > 0 {
		open = append(open, plural(s.ConflictCount, "conflict", "conflicts"))
	}
	if s.RejectedCount > 0 {
		open = append(open, plural(s.RejectedCount, "address is rejected", "addresses are rejected"))
	}
	if n := len(s.Orphans); n > 0 {
		open = append(open, plural(n, "cluster that is not configured has endpoints", "clusters that are not configured have endpoints"))
	}
	if differing > 0 {
		open = append(open, plural(differing, "Service differs from its cluster's own Endpoints", "Services differ from their cluster's own Endpoints"))
	}
	if len(open) > 0 {
		return verdict{"warn", "Ready, but look at this:", strings.Join(open, ", ") + "."}
	}
	every := "live"
	if up < len(s.Clusters) {
		every = "live or drained"
	}
	return verdict{"ok", "Ready.", "Every cluster is " + every + "; nothing is held, in conflict or rejected."}
}

// special counts the clusters in panic, those that are stale and not drained, and the
// Services about which a cluster's own controllers differ.
func special(s *metrics.Status) (panics, stale, differing int) {
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if c.Panic {
			panics++
		}
		if c.Stale && c.DrainSince.IsZero() {
			stale++
		}
		if c.Native != nil {
			differing += c.Native.DifferingCount
		}
	}
	return panics, stale, differing
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// live counts the clusters that answer and have been seen whole, and of the others those
// that are not drained: what is may be away.
func live(s *metrics.Status) (up, away int) {
	for i := range s.Clusters {
		switch c := &s.Clusters[i]; {
		case c.Up && c.Synced:
			up++
		case c.DrainSince.IsZero():
			away++
		}
	}
	return up, away
}

// alerts are faults that no table shows.
func alerts(s *metrics.Status) []verdict {
	var out []verdict
	if s.Config.Error != "" {
		out = append(out, verdict{"bad", "The configuration is refused, or part of what it wants; what was accepted runs on.", message(s.Config.Error)})
	}
	for _, o := range s.Orphans {
		out = append(out, verdict{"warn", "Cluster " + visible(o.Cluster) + " is not configured, and its endpoints stay.",
			plural(o.Endpoints, "endpoint", "endpoints") + " in " + plural(o.Replicas, "replica", "replicas") + ": nobody knows whether they live. Put it back, or drain it first."})
	}
	if !s.Ingress.Up {
		detail := "Last contact: " + ago(s.Ingress.LastContact, s.Time) + "."
		if s.Ingress.LastError != "" {
			detail += " " + message(s.Ingress.LastError)
		}
		out = append(out, verdict{"bad", "The ingress cluster does not answer.", detail})
	}
	return out
}

// tallies are the numbers that tell at a glance whether anything is wrong.
func tallies(s *metrics.Status) []tally {
	up, away := live(s)
	ready, notReady, lag := 0, 0, 0.0
	for i := range s.Clusters {
		c := &s.Clusters[i]
		ready += c.Endpoints.Ready
		notReady += c.Endpoints.NotReady
		lag = max(lag, c.LagSeconds)
	}
	depth, oldest := 0, 0.0
	for _, l := range s.Lanes {
		depth += l.Depth
		oldest = max(oldest, l.OldestSeconds)
	}
	queue := tally{Name: "Queue", Value: count(depth)}
	if depth > 0 {
		queue.Detail = "oldest " + short(seconds(oldest))
	}
	clusters := tally{Name: "Clusters live", Value: count(up) + " of " + count(len(s.Clusters))}
	if away > 0 {
		clusters.Class = "bad"
	}
	endpoints := tally{Name: "Endpoints ready", Value: count(ready)}
	if notReady > 0 {
		endpoints.Detail = count(notReady) + " not ready"
	}
	return []tally{
		clusters, {Name: "Replicas", Value: count(s.Ingress.Replicas)}, endpoints,
		{Class: lagClass(lag), Name: "Largest lag", Value: lagText(lag)}, queue,
		{Class: warnIf(s.HeldCount), Name: "Held", Value: count(s.HeldCount)},
		{Class: warnIf(s.ConflictCount), Name: "Conflicts", Value: count(s.ConflictCount)},
		{Class: warnIf(s.RejectedCount), Name: "Rejected", Value: count(s.RejectedCount)},
	}
}
