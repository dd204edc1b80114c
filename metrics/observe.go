// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// Write counts a write to the ingress cluster: kind and verb as in the API,
// and how long the answer took.
func (m *Metrics) Write(kind, verb string, result WriteResult, took time.Duration) {
	m.written.WithLabelValues(kind, verb, string(result)).Inc()
	m.writeTook.WithLabelValues(kind, verb).Observe(took.Seconds())
}

// QueueAdded counts a cause that was added to a lane.
func (m *Metrics) QueueAdded(lane string) { m.added.WithLabelValues(lane).Inc() }

// QueueRetried counts a key that returned to a lane after a failure.
func (m *Metrics) QueueRetried(lane string) { m.retried.WithLabelValues(lane).Inc() }

// QueueTaken says how long a key had waited when a worker took it.
func (m *Metrics) QueueTaken(lane string, waited time.Duration) {
	m.waited.WithLabelValues(lane).Observe(waited.Seconds())
}

// WorkDone says how long a worker was busy with a key.
func (m *Metrics) WorkDone(lane string, took time.Duration) {
	m.worked.WithLabelValues(lane).Observe(took.Seconds())
}

// WatchEvent counts an event that a member's watch delivered. resource is the
// plural ("pods"); event is added, modified, deleted or bookmark.
func (m *Metrics) WatchEvent(cluster, resource, event string) {
	if m.known(cluster) {
		m.events.WithLabelValues(cluster, resource, event).Inc()
	}
}

// WatchEnded counts a watch that ended. reason is one of a few constant words,
// never text that a server sent.
func (m *Metrics) WatchEnded(cluster, resource, reason string) {
	if m.known(cluster) {
		m.restarts.WithLabelValues(cluster, resource, reason).Inc()
	}
}

// Listed counts a complete list and how long it took. reason is one of a few
// constant words.
func (m *Metrics) Listed(cluster, resource, reason string, took time.Duration) {
	if m.known(cluster) {
		m.listed.WithLabelValues(cluster, resource, reason).Inc()
		m.listTook.WithLabelValues(cluster, resource).Observe(took.Seconds())
	}
}

// Unreadable counts an event or object that could not be used.
func (m *Metrics) Unreadable(cluster, resource string) {
	if m.known(cluster) {
		m.unread.WithLabelValues(cluster, resource).Inc()
	}
}

// NativeLag says how much later than we a member's own controller came to the
// same endpoints.
func (m *Metrics) NativeLag(cluster string, lag time.Duration) {
	if m.known(cluster) {
		m.native.WithLabelValues(cluster).Observe(lag.Seconds())
	}
}

// NativeEnd says that a member's own controllers are not observed any more: what was
// measured of them goes.
func (m *Metrics) NativeEnd(cluster string) { m.native.DeleteLabelValues(cluster) }

// ConfigReload counts that an edited configuration was read: err is nil when
// it is the running one now, else why it was refused.
func (m *Metrics) ConfigReload(err error) {
	result := "ok"
	if err != nil {
		result = "refused"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// SinkRequest counts a request to a sink's receiver, and how long it took. result is one of
// a closed set.
func (m *Metrics) SinkRequest(sink, result string, took time.Duration) {
	m.sinkSent.WithLabelValues(sink, result).Inc()
	m.sinkTook.WithLabelValues(sink).Observe(took.Seconds())
}

// RemoveSink drops the series of a sink that left the configuration.
func (m *Metrics) RemoveSink(sink string) {
	m.sinkSent.DeletePartialMatch(prometheus.Labels{"sink": sink})
	m.sinkTook.DeletePartialMatch(prometheus.Labels{"sink": sink})
}
