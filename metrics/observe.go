// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
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

// Role tells the clients of members from those of the ingress cluster.
type Role string

// The roles of API servers.
const (
	RoleMember  Role = "member"
	RoleIngress Role = "ingress"
)

// Transport returns a wrapper for rest.Config.Wrap that counts the answers of one API server
// and times them until they begin. cluster is empty for the ingress cluster.
func (m *Metrics) Transport(role Role, cluster string) func(http.RoundTripper) http.RoundTripper {
	of := prometheus.Labels{"role": string(role), "member_cluster": cluster}
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
