// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// puller turns the status into gauges at scrape time: nothing to keep in step,
// and a cluster that is gone has no series.
type puller struct{ m *Metrics }

// Describe implements prometheus.Collector. It describes nothing: which gauges there are depends on what there is.
func (puller) Describe(chan<- *prometheus.Desc) {}

// emit sends the value of a gauge.
type emit func(f Family, value float64, labels ...string)

// Collect implements prometheus.Collector.
func (p puller) Collect(out chan<- prometheus.Metric) {
	emit := emit(func(f Family, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(f.desc(), prometheus.GaugeValue, value, labels...)
	})
	s := p.m.whole()
	emit.process(&s)
	for i := range s.Clusters {
		emit.cluster(&s.Clusters[i], s.Time)
	}
	for i := range s.Sinks {
		if k := &s.Sinks[i]; k.State != "standby" {
			emit(sinkLag, k.LagSeconds, k.Name)
		}
	}
	emit.troubles(&s)
}

func (emit emit) process(s *Status) {
	emit(ready, truth(s.Ready))
	emit(leader, truth(s.Leader.Writes()))
	emit(configLastOK, truth(s.Config.Error == ""))
	emit(configRestart, truth(len(s.Config.Restart) > 0))
	emit(ingressUp, truth(s.Ingress.Up))
	emit(replicas, float64(s.Ingress.Replicas))
	emit(orphanReplicas, float64(s.OrphanReplicas))
	for _, l := range s.Lanes {
		emit(requestsWaiting, float64(l.Waiting), l.Name)
	}
}

func (emit emit) cluster(c *ClusterStatus, now time.Time) {
	emit(clusterUp, truth(c.Up), c.Name)
	emit(clusterSynced, truth(c.Synced), c.Name)
	for _, condition := range c.Conditions { // each reason once
		emit(clusterCondition, 1, c.Name, condition.Reason)
	}
	if !c.CredentialExpires.IsZero() {
		emit(kubeconfigExpiry, float64(c.CredentialExpires.Unix()), c.Name)
	}
	if !c.LastContact.IsZero() {
		emit(clusterLastContact, max(0, now.Sub(c.LastContact).Seconds()), c.Name)
	}
	emit(syncLag, c.LagSeconds, c.Name)
	if c.Native != nil {
		emit(nativeBehind, c.Native.BehindSeconds, c.Name)
	}
	emit(services, float64(c.Services), c.Name)
	emit(endpoints, float64(c.Endpoints.Ready), c.Name, "ready")
	emit(endpoints, float64(c.Endpoints.Reserve), c.Name, "reserve")
	emit(endpoints, float64(c.Endpoints.NotReady), c.Name, "not_ready")
	emit(endpoints, float64(c.Endpoints.Terminating), c.Name, "terminating")
	emit(missing, float64(c.Missing), c.Name)
}

func (emit emit) troubles(s *Status) {
	reasons := map[string]int{}
	for i := range s.Conflicts {
		reasons[s.Conflicts[i].Reason]++
	}
	for reason, n := range reasons {
		emit(conflicts, float64(n), reason)
	}
	rejected := map[[2]string]int{}
	for i := range s.Rejected {
		rejected[[2]string{s.Rejected[i].Cluster, s.Rejected[i].Reason}]++
	}
	for of, n := range rejected {
		emit(rejectedAddresses, float64(n), of[0], of[1])
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
