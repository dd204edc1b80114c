// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"log/slog"
	"math/bits"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tributary.dev/tributary/metrics/record"
)

// Options set up Metrics. The zero value is usable: no log, no gauges.
type Options struct {
	// Logger gets one line per change; nil: none does.
	Logger *slog.Logger
	// Revision is shown by build_info, with the version of the status.
	Revision string
	// Export, if any, is called with every record that is reported. It must not wait.
	Export func(*record.Change)
	// Status is called at every scrape for the value of the gauges. It must be
	// safe for concurrent use and answer without waiting for a cluster.
	// Conflicts, Rejected and Orphans are added by Metrics. nil: no gauges.
	Status func() Status
}

// Metrics receives what happens and stores what operators look at. All methods
// are safe for concurrent use and none waits for I/O, the log aside.
type Metrics struct {
	registry *prometheus.Registry
	ring     *record.Ring
	log      *record.Log
	export   func(*record.Change)
	status   func() Status
	troubles troubles

	latency, native, delay           *prometheus.HistogramVec
	requests, written                *prometheus.CounterVec
	requestTook                      *prometheus.HistogramVec
	reloads, sinkSent                *prometheus.CounterVec
	queueDepth                       *prometheus.GaugeVec
	queueAdds                        *prometheus.CounterVec
	queueDuration, queueWork         *prometheus.HistogramVec
	queueUnfinished, queueLongestRun *prometheus.GaugeVec
}

// New returns Metrics on a registry of its own.
func New(o Options) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{
		registry: r, ring: record.NewRing(0, 0), log: record.NewLog(o.Logger), export: o.Export, status: o.Status,
		troubles: troubles{of: map[replicaKey]Trouble{}},
		latency:  changeLatency.histogram(r), native: nativeLag.histogram(r), delay: sourceDelay.histogram(r),
		requests: clientRequests.counter(r), requestTook: clientRequestDuration.histogram(r),
		written: writes.counter(r), reloads: configReloads.counter(r), sinkSent: sinkRequests.counter(r),
		queueDepth: queueDepth.gauge(r), queueAdds: queueAdds.counter(r),
		queueDuration: queueDuration.histogram(r), queueWork: queueWork.histogram(r),
		queueUnfinished: queueUnfinished.gauge(r), queueLongestRun: queueLongest.gauge(r),
	}
	if m.status == nil {
		m.status = func() Status { return Status{} }
	}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), puller{m, o.Revision})
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("refused")
	return m
}

// Registry is where the families are registered.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Changes is the ring of change records.
func (m *Metrics) Changes() *record.Ring { return m.ring }

// Change accepts a finished record: it counts in the families, goes into the
// ring and is logged. It returns the record's number, or 0 if the record is not
// reported: when nothing had to be written and no live event was behind it (a
// relist of a quiet fleet must be quiet), and when a replica fails again and again (the
// first, second, fourth, eighth … failure are reported).
func (m *Metrics) Change(rec record.Change) (seq uint64) {
	rec.TraceID = record.NewTraceID()
	if rec.Result == record.Written && rec.Cause.Live {
		m.observe(&rec)
	}
	if !worthReporting(&rec) {
		return 0
	}
	seq = m.ring.Add(&rec)
	m.log.Write(&rec)
	if m.export != nil {
		m.export(&rec)
	}
	return seq
}

// worthReporting says whether a record is news.
func worthReporting(r *record.Change) bool {
	switch r.Result {
	case record.Dropped, record.Blocked:
		return r.Cause.Live
	case record.Failed:
		return bits.OnesCount(uint(r.Attempt+1)) == 1
	default:
		return true
	}
}

// longestDelay bounds what a member's clock can make of the sum of its delays.
const longestDelay = time.Hour

func (m *Metrics) observe(rec *record.Change) {
	s := &rec.Stages
	for name, took := range map[string]time.Duration{"queue": s.Queue, "compute": s.Compute, "write": s.Write(), "total": s.Total} {
		o := m.latency.WithLabelValues(rec.Cluster, rec.Lane, name).(prometheus.ExemplarObserver)
		o.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": rec.TraceID})
	}
	if c := &rec.Cause; !c.SourceTime.IsZero() {
		m.delay.WithLabelValues(rec.Cluster).Observe(min(max(0, c.Arrival.Sub(c.SourceTime)), longestDelay).Seconds())
	}
}
