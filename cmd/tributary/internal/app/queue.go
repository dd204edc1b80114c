// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	"k8s.io/client-go/rest"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
)

// queueMetrics hands the queue's counts to the metrics: it implements
// lanes.Observer.
type queueMetrics struct{ *metrics.Metrics }

// queueOptions sets up the lanes, with the client-side limit on requests that access asks
// for, if it does.
func queueOptions(m *metrics.Metrics, access *rest.Config) lanes.Options {
	return lanes.Options{Observer: queueMetrics{m}, QPS: float64(max(0, access.QPS)), Burst: access.Burst}
}

// Added implements lanes.Observer.
func (q queueMetrics) Added(lane lanes.Lane) { q.QueueAdded(lane.String()) }

// Retried implements lanes.Observer.
func (q queueMetrics) Retried(lane lanes.Lane, _ time.Duration) { q.QueueRetried(lane.String()) }

// Taken implements lanes.Observer.
func (q queueMetrics) Taken(lane lanes.Lane, waited time.Duration) {
	q.QueueTaken(lane.String(), waited)
}
