// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Work is one comparison of a replica, with what made it necessary. The exported fields do
// not change once Dispatch.Replace has returned.
type Work struct {
	Key syncer.Key
	// Lane is the most urgent that its news asked for: a hint, for the difference decides.
	Lane plan.Lane
	// Cause is the earliest of those that it gathers (record.Earlier), and Causes their
	// number: none where the replica is only compared again. Those of earlier comparisons
	// of which something is left are among them; Attempt counts their failures in a row.
	Cause           record.Cause
	Causes, Attempt int

	// arrivals are the oldest of each member. passed is true once another work has them, left
	// counts the actions that are planned or under way.
	arrivals map[string]time.Time
	passed   bool
	left     int
	// seat is its place in the queue, in the line of its lane.
	seat seat
}

// gather adds the causes of another work, unless one has.
func (w *Work) gather(other *Work) {
	w.Attempt = max(w.Attempt, other.Attempt)
	switch {
	case other.Causes == 0 || other.passed:
		return
	case w.Causes == 0:
		w.Cause, w.arrivals = other.Cause, map[string]time.Time{}
	default:
		w.Cause = record.Earlier(w.Cause, other.Cause)
	}
	w.Causes, other.passed = w.Causes+other.Causes, true
	mergeOldest(w.arrivals, other.arrivals)
}

func mergeOldest(of, others map[string]time.Time) {
	for member, at := range others {
		if known, ok := of[member]; !ok || at.Before(known) {
			of[member] = at
		}
	}
}

// Queue holds the replicas that are to be compared. Each Work that Next returns is ended by
// exactly one call of Done, after Dispatch.Replace.
type Queue struct {
	// work knows which keys wait and which are being compared, for metrics, too. In which order
	// they come is decided below.
	work *workqueue.Typed[syncer.Key]
	// pending is what the next comparison of a key is for, whether it waits for it already or
	// for an answer.
	pending map[syncer.Key]*Work
	// order holds the works that wait, whose number is waiting.
	order   fair
	waiting int
}

// NewQueue returns an empty queue. provider receives the workqueue's usual metrics under the
// name until ShutDown; with nil there are none.
func NewQueue(name string, provider workqueue.MetricsProvider) *Queue {
	q := &Queue{pending: map[syncer.Key]*Work{}}
	if provider == nil {
		name = "" // the workqueue knows none without a name
	}
	q.work = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[syncer.Key]{Name: name, MetricsProvider: provider, Queue: (*order)(q)})
	return q
}

// Len is the number of keys that wait.
func (q *Queue) Len() int { return q.waiting }

// Add asks for a comparison of a replica. The hint is what the news may mean: it says in
// which order keys are compared, no more. For a key that waits already the causes are
// gathered and the more urgent lane counts; for one that is being compared they make a new
// wait. Without a cause the replica is compared again. An arrival of zero counts as now.
func (q *Queue) Add(now time.Time, key syncer.Key, hint plan.Lane, causes ...record.Cause) {
	w := q.next(key)
	for _, cause := range causes {
		if cause.Arrival.IsZero() {
			cause.Arrival = now
		}
		w.gather(&Work{Cause: cause, Causes: 1, arrivals: map[string]time.Time{cause.Cluster: cause.Arrival}})
	}
	if hint < w.Lane {
		w.Lane = hint
		if w.seat.in != nil { // it waits already
			w.seat.leave()
			w.seat = q.order.lines[hint].push(w.Cause.Cluster, w)
		}
	}
	q.work.Add(key)
}

// AddPending asks for a comparison of each replica in a namespace that waits for an answer.
func (q *Queue) AddPending(now time.Time, namespace string) {
	for _, key := range slices.SortedFunc(maps.Keys(q.pending), syncer.Key.Compare) {
		if key.Namespace == namespace {
			q.Add(now, key, plan.Addition)
		}
	}
}

// next is what the next comparison of a key is for.
func (q *Queue) next(key syncer.Key) *Work {
	w := q.pending[key]
	if w == nil {
		w = &Work{Key: key, Lane: plan.Bulk}
		q.pending[key] = w
	}
	return w
}

// Next is the replica that is to be compared next; nil if none waits.
func (q *Queue) Next() *Work {
	if q.waiting == 0 {
		return nil
	}
	key, _ := q.work.Get()
	w := q.pending[key]
	delete(q.pending, key)
	return w
}

// Done ends a comparison whose actions were planned.
func (q *Queue) Done(w *Work) { q.work.Done(w.Key) }

// ShutDown ends the queue: what is added after is ignored.
func (q *Queue) ShutDown() { q.work.ShutDown() }

// order is the Queue as the workqueue's storage: it decides what comes next and nothing else.
type order Queue

// Push implements workqueue.Queue.
func (o *order) Push(key syncer.Key) {
	w := o.pending[key]
	w.seat = o.order.lines[w.Lane].push(w.Cause.Cluster, w)
	o.waiting++
}

// Touch implements workqueue.Queue: Add has moved the key if it has become more urgent.
func (o *order) Touch(syncer.Key) {}

// Len implements workqueue.Queue.
func (o *order) Len() int { return o.waiting }

// Pop implements workqueue.Queue.
func (o *order) Pop() syncer.Key {
	w := o.order.pop(func(plan.Lane) bool { return true }).(*Work)
	o.order.served++
	o.waiting--
	return w.Key
}
