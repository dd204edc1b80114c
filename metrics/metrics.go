// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"log/slog"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tributary.dev/tributary/metrics/record"
)

// Options set up Metrics. The zero value is usable: no log, no gauges.
type Options struct {
	// Logger gets one line per change; nil: none does.
	Logger *slog.Logger
	// Version and Revision are shown by build_info.
	Version, Revision string
	// Status is asked at every scrape for the value of the gauges. It must be
	// safe for concurrent use and answer without waiting for a cluster.
	// Conflicts, Held, Rejected and Slowest are added by Metrics. nil: no gauges.
	Status func() Status
	// NotReady lists what readiness waits for, nothing when ready: /readyz is asked
	// more often than the whole status is worth. nil: always ready.
	NotReady func() []string
	// Leader tells who writes, for /readyz; nil: nobody can tell.
	Leader func() LeaderStatus
}

// Metrics receives what happens and keeps what operators look at. All methods
// are safe for concurrent use and none waits for I/O, the log aside.
type Metrics struct {
	registry *prometheus.Registry
	records  *record.Keeper
	status   func() Status
	notReady func() []string
	leader   func() LeaderStatus
	troubles troubles
	// heartbeats are those of the process.
	heartbeats Heartbeats
	// removed has the names of clusters that left the configuration.
	removed sync.Map

	latency, native, delay                     *prometheus.HistogramVec
	changes                                    *prometheus.CounterVec
	rejected, events, restarts, listed, unread *prometheus.CounterVec
	requests                                   *prometheus.CounterVec
	listTook, requestTook                      *prometheus.HistogramVec
	written                                    *prometheus.CounterVec
	writeTook                                  *prometheus.HistogramVec
	added, retried                             *prometheus.CounterVec
	waited, worked                             *prometheus.HistogramVec
	reloads, sinkSent                          *prometheus.CounterVec
	sinkTook                                   *prometheus.HistogramVec
}

// New returns Metrics on a registry of its own.
func New(o Options) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), status: o.Status, notReady: o.NotReady, leader: o.Leader,
		troubles: troubles{of: map[replicaKey]*Trouble{}, unlogged: map[replicaKey]bool{}},
	}
	m.troubles.rejected = func(cluster, reason string) {
		if m.known(cluster) {
			m.rejected.WithLabelValues(cluster, reason).Inc()
		}
	}
	m.records = record.NewKeeper(record.NewRing(0, 0), o.Logger, m.echoed)
	if m.notReady == nil {
		m.notReady = func() []string { return nil }
	}
	if m.leader == nil {
		m.leader = func() LeaderStatus { return LeaderStatus{} }
	}
	m.register(o)
	return m
}

func (m *Metrics) register(o Options) {
	r := m.registry
	m.latency, m.native, m.delay = changeLatency.histogram(r), nativeLag.histogram(r), sourceDelay.histogram(r)
	m.changes = changesTotal.counter(r)
	m.rejected, m.events = rejectedAddresses.counter(r), watchEvents.counter(r)
	m.restarts, m.listed = watchRestarts.counter(r), lists.counter(r)
	m.unread, m.listTook = unreadable.counter(r), listDuration.histogram(r)
	m.requests, m.requestTook = clientRequests.counter(r), clientRequestDuration.histogram(r)
	m.written, m.writeTook = writes.counter(r), writeDuration.histogram(r)
	m.added, m.retried = queueAdds.counter(r), queueRetries.counter(r)
	m.waited, m.worked = queueDuration.histogram(r), workDuration.histogram(r)
	m.reloads = configReloads.counter(r)
	m.sinkSent, m.sinkTook = sinkRequests.counter(r), sinkRequestDuration.histogram(r)
	buildInfo.gauge(r).WithLabelValues(o.Version, o.Revision, runtime.Version()).Set(1)
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newPuller(m),
	)
	for _, lane := range lanes() {
		m.added.WithLabelValues(lane)
		m.retried.WithLabelValues(lane)
	}
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("refused")
}

// Registry is where the families are registered.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Changes is the ring of change records.
func (m *Metrics) Changes() *record.Ring { return m.records.Ring() }

// Change takes a finished record: it counts in the families, is kept in the
// ring and logged. It returns the record's number, or 0 if the record is only
// counted: when nothing had to be written and no live event was behind it (a
// relist of a quiet fleet must be quiet), when no live event was behind it and
// it is held as it was before, and when a key keeps failing (the first, second,
// fourth, eighth … failure are told). Report what holds it before. Where no
// records are to be kept, each is only counted.
func (m *Metrics) Change(rec record.Change) (seq uint64) {
	kept := hold(&rec)
	rec.TraceID = record.NewTraceID()
	if m.known(rec.Cluster) {
		m.changes.WithLabelValues(rec.Cluster, string(rec.Result)).Inc()
		if rec.Result == record.Written && rec.Cause.Live {
			m.observe(&rec)
		}
	}
	if !m.worthLogging(&rec) && !kept {
		return 0
	}
	return m.records.Add(&rec)
}

// longestDelay bounds what a member's clock can make of the sum of its delays.
const longestDelay = time.Hour

func (m *Metrics) observe(rec *record.Change) {
	s, exemplar := &rec.Stages, exemplarOf(rec)
	m.stage(rec, "queue", s.Queue, exemplar)
	m.stage(rec, "compute", s.Compute, exemplar)
	m.stage(rec, "write", s.Write(), exemplar)
	m.stage(rec, "total", s.Total, exemplar)
	if c := &rec.Cause; !c.SourceTime.IsZero() {
		m.delay.WithLabelValues(rec.Cluster).Observe(min(max(0, c.Arrival.Sub(c.SourceTime)), longestDelay).Seconds())
	}
}

func (m *Metrics) stage(rec *record.Change, name string, took time.Duration, exemplar prometheus.Labels) {
	o := m.latency.WithLabelValues(rec.Cluster, rec.Lane, name)
	if exemplar == nil {
		o.Observe(took.Seconds())
		return
	}
	o.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), exemplar)
}

// exemplarOf leads from a latency to the trace of the change.
func exemplarOf(rec *record.Change) prometheus.Labels {
	if rec.TraceID == "" {
		return nil
	}
	return prometheus.Labels{"trace_id": rec.TraceID}
}

// worthLogging says whether a record is news.
func (m *Metrics) worthLogging(r *record.Change) bool {
	switch r.Result {
	case record.Dropped:
		return r.Cause.Live
	case record.Held:
		return m.troubles.takeUnlogged(r.Namespace, r.Service) || r.Cause.Live
	case record.Failed:
		return bits.OnesCount(uint(r.Attempt+1)) == 1
	default:
		return true
	}
}

// Expect says which versions the writes of a change made; see record.Keeper.
func (m *Metrics) Expect(seq uint64, rec *record.Change, refs []record.Ref) {
	m.records.Expect(seq, rec.Cause.Arrival, refs)
}

// Echo says that our own watch of the ingress cluster has shown a version.
func (m *Metrics) Echo(ref record.Ref, arrival time.Time) { m.records.Echo(ref, arrival) }

func (m *Metrics) echoed(rec *record.Change) {
	if rec.Cause.Live && rec.Result == record.Written && m.known(rec.Cluster) {
		m.stage(rec, "echo", rec.Stages.Echo, exemplarOf(rec))
	}
}

// Flush logs the changes whose echo is still awaited: the process ends.
func (m *Metrics) Flush() { m.records.Flush() }

// Report replaces what is known to be wrong with a replica. Call it after each
// pass, with nothing wrong too, and when the replica is gone.
func (m *Metrics) Report(namespace, service string, t Trouble) {
	m.troubles.report(namespace, service, t)
}

// AddCluster and RemoveCluster follow the configuration. AddCluster makes the
// series that a rate needs to begin at 0. After RemoveCluster the cluster's
// series are gone, and what its goroutines still report while they end does
// not bring them back.
func (m *Metrics) AddCluster(name string) {
	m.removed.Delete(name)
	for _, result := range record.Results() {
		m.changes.WithLabelValues(name, string(result))
	}
	for _, lane := range lanes() {
		for _, stage := range stages() {
			m.latency.WithLabelValues(name, lane, stage)
		}
	}
	for _, reason := range rejectReasons() {
		m.rejected.WithLabelValues(name, reason)
	}
}

// RemoveCluster: see AddCluster.
func (m *Metrics) RemoveCluster(name string) {
	m.removed.Store(name, true)
	m.sweep(name)
}

func (m *Metrics) sweep(name string) {
	of := prometheus.Labels{"member_cluster": name}
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.latency, m.native, m.delay, m.changes, m.rejected, m.events, m.restarts, m.listed, m.listTook, m.unread,
		m.requests, m.requestTook,
	} {
		vec.DeletePartialMatch(of)
	}
}

// lanes are the values of the label of that name.
func lanes() []string { return []string{"removal", "addition", "bulk"} }

// stages are the values of the label of that name.
func stages() []string { return []string{"queue", "compute", "write", "total", "echo"} }

// known is false for a cluster that left the configuration.
func (m *Metrics) known(cluster string) bool {
	_, gone := m.removed.Load(cluster)
	return !gone
}
