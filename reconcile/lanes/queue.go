// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"sync"
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
	Lane Lane
	// Cause is the earliest of those that it gathers (record.Earlier), and Causes their
	// number: none where the replica is only looked at again. Replace adds those of earlier
	// comparisons whose changes it takes over.
	Cause  record.Cause
	Causes int
	// Since is when the key became dirty.
	Since time.Time

	// arrivals are the oldest of each member; guarded by the Queue.
	arrivals map[string]time.Time
	// planned and underWay count actions, owed says that something remains for the next
	// comparison; guarded by the Dispatch.
	planned, underWay int
	owed              bool
}

// gather takes over what another work is for.
func (w *Work) gather(other *Work) {
	switch {
	case other.Causes == 0:
	case w.Causes == 0:
		w.Cause = other.Cause
	default:
		w.Cause = record.Earlier(w.Cause, other.Cause)
	}
	w.Causes += other.Causes
	for member, at := range other.arrivals {
		if w.arrivals == nil {
			w.arrivals = map[string]time.Time{}
		}
		keepOldest(w.arrivals, member, at)
	}
}

func keepOldest(of map[string]time.Time, member string, at time.Time) {
	if known, ok := of[member]; !ok || at.Before(known) {
		of[member] = at
	}
}

// Queue holds the replicas that are to be compared. All methods are safe for concurrent
// use. Each Work that Get returns is ended by exactly one call: of Done, after
// Dispatch.Replace, or of Return.
type Queue struct {
	work *workqueue.Typed[syncer.Key]

	mu sync.Mutex
	// pending is what the next comparison of a key is for; a key with a worker may have one.
	pending map[syncer.Key]*Work
	// open holds all work of which something is not written.
	open map[*Work]struct{}
	// order holds the keys that wait, places where.
	order  fair
	places map[syncer.Key]*place
}

type place struct {
	seat
	lane Lane
}

// NewQueue returns an empty queue. provider receives the workqueue's usual metrics under the
// name; with nil there are none.
func NewQueue(name string, provider workqueue.MetricsProvider) *Queue {
	q := &Queue{pending: map[syncer.Key]*Work{}, open: map[*Work]struct{}{}, places: map[syncer.Key]*place{}}
	if provider == nil {
		name = "" // the workqueue knows none without a name
	}
	q.work = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[syncer.Key]{Name: name, MetricsProvider: provider, Queue: (*order)(q)})
	return q
}

// Len is the number of keys that wait.
func (q *Queue) Len() int { return q.work.Len() }

// Add asks for a comparison of a replica. The hint is what the news may mean: it says in
// which order keys are compared, no more. For a key that waits already the causes are
// gathered and the more urgent lane counts; for one with a worker they make a new wait.
// Without a cause the replica is looked at again. An arrival of zero counts as now.
func (q *Queue) Add(key syncer.Key, hint Lane, causes ...record.Cause) {
	w := &Work{Key: key, Lane: hint, Since: time.Now()}
	for _, cause := range causes {
		if cause.Arrival.IsZero() {
			cause.Arrival = w.Since
		}
		w.gather(&Work{Cause: cause, Causes: 1, arrivals: map[string]time.Time{cause.Cluster: cause.Arrival}})
	}
	q.wait(w)
}

func (q *Queue) wait(w *Work) {
	q.mu.Lock()
	if pending := q.pending[w.Key]; pending != nil {
		pending.gather(w)
		pending.Lane = min(pending.Lane, w.Lane)
	} else {
		q.pending[w.Key], q.open[w] = w, struct{}{}
	}
	q.mu.Unlock()
	q.work.Add(w.Key)
}

// Get waits for the replica that is to be compared next. ok is false after ShutDown, when
// nothing waits any more.
func (q *Queue) Get() (w *Work, ok bool) {
	for {
		key, shut := q.work.Get()
		if shut {
			return nil, false
		}
		q.mu.Lock()
		w := q.pending[key]
		delete(q.pending, key)
		q.mu.Unlock()
		if w != nil {
			return w, true
		}
		q.work.Done(key) // its news went with the comparison before
	}
}

// Done ends a comparison whose actions were planned.
func (q *Queue) Done(w *Work) { q.work.Done(w.Key) }

// Return ends a comparison that failed or was interrupted: what it was for goes back into
// the queue, at once and as old as it is.
func (q *Queue) Return(w *Work) {
	q.wait(&Work{Key: w.Key, Lane: w.Lane, Cause: w.Cause, Causes: w.Causes, Since: w.Since, arrivals: w.arrivals})
	q.written(w)
	q.work.Done(w.Key)
}

// ShutDown makes Get return false once nothing waits; what is added after is ignored.
func (q *Queue) ShutDown() { q.work.ShutDown() }

// Oldest returns, of every member of which something is not written yet, when its oldest
// change arrived: in the queue, under comparison, planned, under way, or, as the caller
// says, since when a question to the member is open. Changes without a member (repairs, the
// configuration) are under "". The cost grows with what is not written.
func (q *Queue) Oldest(asking map[string]time.Time) map[string]time.Time {
	oldest := map[string]time.Time{}
	for member, at := range asking {
		oldest[member] = at
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := range q.open {
		for member, at := range w.arrivals {
			keepOldest(oldest, member, at)
		}
	}
	return oldest
}

// inherit has a work take over what others owe.
func (q *Queue) inherit(w *Work, owing []*Work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, old := range owing {
		w.gather(old)
		delete(q.open, old)
	}
}

func (q *Queue) written(w *Work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, w)
}

// order is the Queue as the workqueue's storage: it says what comes next and nothing else.
// The workqueue calls it with its own lock held, so it never waits for anything.
type order Queue

// Push implements workqueue.Queue.
func (o *order) Push(key syncer.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lockedPush(key, o.pending[key])
}

func (o *order) lockedPush(key syncer.Key, w *Work) {
	if w == nil {
		w = &Work{Lane: plan.Bulk} // its news has just been taken: see Get
	}
	o.places[key] = &place{o.order.lines[w.Lane].push(w.Cause.Cluster, key), w.Lane}
}

// Touch implements workqueue.Queue: the key may have become more urgent.
func (o *order) Touch(key syncer.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, w := o.places[key], o.pending[key]; w != nil && w.Lane < p.lane {
		p.leave()
		o.lockedPush(key, w)
	}
}

// Len implements workqueue.Queue.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.places)
}

// Pop implements workqueue.Queue.
func (o *order) Pop() syncer.Key {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := o.order.pop(func(Lane) bool { return true }).(syncer.Key)
	o.order.served++
	delete(o.places, key)
	return key
}
