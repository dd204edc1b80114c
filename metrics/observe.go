// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/util/workqueue"
)

// WriteResult says how one write to the ingress cluster ended. The set is
// closed: it is a metric label.
type WriteResult string

// The results of a write.
const (
	WriteOK        WriteResult = "ok"
	WriteConflict  WriteResult = "conflict"
	WriteNotFound  WriteResult = "not_found"
	WriteExists    WriteResult = "exists"
	WriteThrottled WriteResult = "throttled"
	WriteForbidden WriteResult = "forbidden"
	WriteInvalid   WriteResult = "invalid"
	WriteTimeout   WriteResult = "timeout"
	WriteFailed    WriteResult = "error"
)

// Write counts a write to the ingress cluster: kind and verb as in the API.
func (m *Metrics) Write(kind, verb string, result WriteResult) {
	m.written.WithLabelValues(kind, verb, string(result)).Inc()
}

// NativeLag says how much later than we a member's own controller came to the
// same endpoints.
func (m *Metrics) NativeLag(cluster string, lag time.Duration) {
	m.native.WithLabelValues(cluster).Observe(lag.Seconds())
}

// ConfigReload counts that an edited configuration was read: err is nil when
// it is the running one now, else why it was refused.
func (m *Metrics) ConfigReload(err error) {
	result := "ok"
	if err != nil {
		result = "refused"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// SinkRequest counts a request to a sink's receiver. result is one of a closed set.
func (m *Metrics) SinkRequest(sink, result string) {
	m.sinkSent.WithLabelValues(sink, result).Inc()
}

// Workqueue returns what a client-go workqueue reports into.
func (m *Metrics) Workqueue() workqueue.MetricsProvider { return provider{m} }

// provider makes the usual families of a workqueue.
type provider struct{ m *Metrics }

// NewDepthMetric implements workqueue.MetricsProvider, as all that follow.
func (p provider) NewDepthMetric(name string) workqueue.GaugeMetric {
	return p.m.queueDepth.WithLabelValues(name)
}

func (p provider) NewAddsMetric(name string) workqueue.CounterMetric {
	return p.m.queueAdds.WithLabelValues(name)
}

func (p provider) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return p.m.queueDuration.WithLabelValues(name)
}

func (p provider) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return p.m.queueWork.WithLabelValues(name)
}

func (p provider) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return p.m.queueUnfinished.WithLabelValues(name)
}

func (p provider) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return p.m.queueLongestRun.WithLabelValues(name)
}

// NewRetriesMetric counts where nobody looks: only a queue that delays asks for it, and ours does not.
func (provider) NewRetriesMetric(string) workqueue.CounterMetric {
	return prometheus.NewCounter(prometheus.CounterOpts{})
}

// Transport returns a wrapper for rest.Config.Wrap that counts the answers of the API server of a member, or
// with "" of the ingress cluster, and times them until they begin.
func (m *Metrics) Transport(member string) func(http.RoundTripper) http.RoundTripper {
	of := prometheus.Labels{"role": "member", "member_cluster": member}
	if member == "" {
		of["role"] = "ingress"
	}
	return func(next http.RoundTripper) http.RoundTripper {
		timed := promhttp.InstrumentRoundTripperDuration(m.requestTook.MustCurryWith(of), next)
		return transport{promhttp.InstrumentRoundTripperCounter(m.requests.MustCurryWith(of), timed), next}
	}
}

type transport struct {
	http.RoundTripper
	next http.RoundTripper
}

// WrappedRoundTripper lets client-go reach the transport below, which it does to close idle connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// puller makes gauges of the status at scrape time: there is no second state,
// and a cluster that is gone has no series.
type puller struct {
	m        *Metrics
	revision string
}

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
	emit(buildInfo, 1, s.Version, p.revision, runtime.Version())
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
