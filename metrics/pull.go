// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pulled are the families whose value is asked for at scrape time.
func pulled() []Family {
	return []Family{
		syncLag, nativeBehind, nativeDiffering, clusterUp, clusterSynced, clusterCondition, kubeconfigExpiry, kubeconfigRenewal, clusterPanic, clusterStale, clusterLastContact, services, pods, endpoints, dampedEndpoints,
		ruleMatches, ruleErrors, ruleEvaluations, ruleCost, ruleSeconds,
		rejectedNow, ingressUp, replicas, orphanReplicas, conflicts, heldChanges, queueDepth, queueOldest, queueUnfinished, queueLongest, ready, leader, leaderAlone,
		configLastOK, configLastTime, sinkLag, sinkServices, sinkPending, sinkRefused, sinkLastAck, sinkFailing, sinkUnkept,
	}
}

// puller turns the status into gauges at scrape time: nothing to keep in step,
// and a cluster that is gone has no series.
type puller struct {
	m     *Metrics
	descs map[string]*prometheus.Desc
}

func newPuller(m *Metrics) *puller {
	p := &puller{m: m, descs: map[string]*prometheus.Desc{}}
	for _, f := range pulled() {
		p.descs[f.Name] = f.desc()
	}
	return p
}

// Describe implements prometheus.Collector.
func (p *puller) Describe(out chan<- *prometheus.Desc) {
	for _, d := range p.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p *puller) Collect(out chan<- prometheus.Metric) {
	// An observation that began before RemoveCluster may end after it.
	p.m.removed.Range(func(name, _ any) bool {
		p.m.sweep(name.(string))
		return true
	})
	emit := func(f Family, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(p.descs[f.Name], kinds[f.Type], value, labels...)
	}
	reasons, held, rejected := p.m.troubles.counts()
	if p.m.status != nil {
		s := p.m.status()
		p.status(&s, emit)
		for _, o := range p.m.troubles.orphans(s.Clusters) {
			emit(orphanReplicas, float64(o.Replicas), o.Cluster)
		}
		for i := range s.Conflicts {
			reasons[s.Conflicts[i].Reason]++
		}
		for i := range s.Held {
			held[[2]string{s.Held[i].Cluster, s.Held[i].Reason}]++
		}
		for i := range s.Clusters {
			if c := &s.Clusters[i]; drained(&s, c, held) {
				emit(clusterCondition, 1, c.Name, reasonDrained)
			}
		}
	}
	for _, reason := range conflictReasons() {
		reasons[reason] += 0
	}
	for reason, n := range reasons {
		emit(conflicts, float64(n), reason)
	}
	for key, n := range held {
		emit(heldChanges, float64(n), key[0], key[1])
	}
	for key, n := range rejected {
		if p.m.known(key[0]) {
			emit(rejectedNow, float64(n), key[0], key[1])
		}
	}
}

// reasonDrained is the condition of a member that takes no traffic by intent.
const reasonDrained = "Drained"

// drainSettles is ample time for every replica to be in line after a drain was asked for.
const drainSettles = 5 * time.Second

// drained reports whether a member's drain is over: every replica that was looked at for
// it is written, and none holds its last ready endpoints. Only who writes knows that.
func drained(s *Status, c *ClusterStatus, held map[[2]string]int) bool {
	begun := c.DrainSince
	if s.Leader.Since.After(begun) {
		begun = s.Leader.Since
	}
	settled := s.Time.Sub(begun) - drainSettles
	waits := func(l LaneStatus) bool { return l.OldestSeconds >= settled.Seconds() }
	return !c.DrainSince.IsZero() && s.Ready && s.Leader.Writes() && settled > 0 &&
		!slices.ContainsFunc(s.Lanes, waits) && held[[2]string{c.Name, drainHeld}] == 0
}

var kinds = map[Type]prometheus.ValueType{Gauge: prometheus.GaugeValue, Counter: prometheus.CounterValue}

func (p *puller) status(s *Status, emit func(Family, float64, ...string)) {
	now := time.Now()
	emit(ready, truth(s.Ready))
	emit(leader, truth(s.Leader.Writes()))
	emit(leaderAlone, truth(s.Leader.State == "alone"))
	emit(configLastOK, truth(s.Config.Error == ""))
	if !s.Config.LoadedAt.IsZero() {
		emit(configLastTime, float64(s.Config.LoadedAt.UnixMilli())/1000)
	}
	emit(ingressUp, truth(s.Ingress.Up))
	emit(replicas, float64(s.Ingress.Replicas))
	for i := range s.Clusters {
		c := &s.Clusters[i]
		emit(clusterUp, truth(c.Up), c.Name)
		emit(clusterSynced, truth(c.Synced), c.Name)
		if c.Reason != "" {
			emit(clusterCondition, 1, c.Name, c.Reason)
		}
		if !c.CredentialExpires.IsZero() {
			emit(kubeconfigExpiry, float64(c.CredentialExpires.Unix()), c.Name)
		}
		if !c.CredentialRenewed.IsZero() {
			emit(kubeconfigRenewal, float64(c.CredentialRenewed.Unix()), c.Name)
		}
		emit(clusterPanic, truth(c.Panic), c.Name)
		emit(clusterStale, truth(c.Stale), c.Name)
		if !c.LastContact.IsZero() {
			emit(clusterLastContact, max(0, now.Sub(c.LastContact).Seconds()), c.Name)
		}
		emit(syncLag, c.LagSeconds, c.Name)
		if c.Native != nil {
			emit(nativeBehind, c.Native.BehindSeconds, c.Name)
			emit(nativeDiffering, float64(c.Native.DifferingCount), c.Name)
		}
		emit(services, float64(c.Services), c.Name)
		emit(pods, float64(c.Pods), c.Name)
		emit(endpoints, float64(c.Endpoints.Ready), c.Name, "ready")
		emit(endpoints, float64(c.Endpoints.NotReady), c.Name, "not_ready")
		emit(dampedEndpoints, float64(c.Endpoints.Damped), c.Name)
		for _, r := range c.Rules {
			emit(ruleMatches, float64(r.Matches), c.Name, r.Name)
			emit(ruleErrors, float64(r.Errors), c.Name, r.Name)
			emit(ruleEvaluations, float64(r.Evaluations), c.Name, r.Name)
			emit(ruleCost, float64(r.Cost), c.Name, r.Name)
			emit(ruleSeconds, r.Seconds, c.Name, r.Name)
		}
	}
	for i := range s.Sinks {
		k := &s.Sinks[i]
		if k.State == "standby" {
			continue
		}
		emit(sinkLag, k.LagSeconds, k.Name)
		emit(sinkServices, float64(k.Services), k.Name)
		emit(sinkPending, float64(k.Pending), k.Name)
		emit(sinkRefused, float64(k.Refused), k.Name)
		if !k.LastAcknowledged.IsZero() {
			emit(sinkLastAck, float64(k.LastAcknowledged.UnixMilli())/1000, k.Name)
		}
		emit(sinkFailing, truth(k.State == "failing"), k.Name)
		emit(sinkUnkept, truth(k.Unkept != ""), k.Name)
	}
	for _, l := range s.Lanes {
		emit(queueDepth, float64(l.Depth), l.Name)
		emit(queueOldest, l.OldestSeconds, l.Name)
		emit(queueUnfinished, l.UnfinishedSeconds, l.Name)
		emit(queueLongest, l.LongestSeconds, l.Name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
