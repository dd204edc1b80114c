// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"errors"
	"fmt"
)

// check re-derives what the queue keeps incrementally and reports every
// difference.
func (q *Queue) check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return errors.Join(q.checkLanes(), q.checkBackoff(), q.checkWork(), q.checkLag())
}

func (q *Queue) checkLanes() (err error) {
	ready := 0
	for _, lane := range lanes {
		n := 0
		var prev *entry
		for e := q.ready[lane].head; e != nil; prev, e = e, e.next {
			n++
			if e.state != stateReady || e.pending.lane != lane || e.prev != prev || q.entries[e.key] != e {
				err = errors.Join(err, fmt.Errorf("lane %s holds %v wrongly: %+v", lane, e.key, e))
			}
		}
		if q.ready[lane].tail != prev || q.ready[lane].len != n {
			err = errors.Join(err, fmt.Errorf("lane %s: tail or length is wrong", lane))
		}
		ready += n
		if len(q.idle) > 0 && n > 0 && q.lockedMay(lane) {
			err = errors.Join(err, fmt.Errorf("lane %s has %d keys while %d workers idle", lane, n, len(q.idle)))
		}
	}
	for _, e := range q.entries {
		if e.state == stateReady {
			ready--
		}
	}
	if ready != 0 {
		err = errors.Join(err, fmt.Errorf("lanes hold %d more keys than are ready", ready))
	}
	return err
}

func (q *Queue) checkBackoff() (err error) {
	waiting := 0
	for _, e := range q.entries {
		if e.state == stateWaiting {
			waiting++
		}
		if (e.state == stateWaiting) != (e.due.index != absent) {
			err = errors.Join(err, fmt.Errorf("%v: state %d but place %d in the backoff", e.key, e.state, e.due.index))
		}
		if e.state != stateWorking && e.pending.enqueued.IsZero() {
			err = errors.Join(err, fmt.Errorf("%v waits for nothing", e.key))
		}
	}
	if waiting != len(q.backoff) {
		err = errors.Join(err, fmt.Errorf("%d keys wait, backoff holds %d", waiting, len(q.backoff)))
	}
	return errors.Join(err, q.backoff.check())
}

func (q *Queue) checkWork() (err error) {
	var busy [laneCount]int
	stalled := 0
	for _, e := range q.entries {
		if e.stalled {
			stalled++
		}
		if e.state == stateWorking && !e.stalled {
			busy[e.working.lane]++
		} else if e.state != stateWorking && e.stalled {
			err = errors.Join(err, fmt.Errorf("%v is stalled in state %d", e.key, e.state))
		} else if e.state != stateWorking && !e.working.enqueued.IsZero() {
			err = errors.Join(err, fmt.Errorf("%v: work left in state %d", e.key, e.state))
		}
	}
	if busy != q.busy {
		err = errors.Join(err, fmt.Errorf("busy is %v, want %v", q.busy, busy))
	}
	if stalled != q.stalled || stalled > q.opts.Stalls {
		err = errors.Join(err, fmt.Errorf("%d are stalled, counted are %d", stalled, q.stalled))
	}
	if busy[Bulk] > q.opts.BulkMax || busy[Bulk]+busy[Addition] > max(1, q.opts.Workers-q.opts.Reserve) {
		err = errors.Join(err, fmt.Errorf("busy is %v, more than %+v allows", busy, q.opts))
	}
	return err
}

func (q *Queue) checkLag() (err error) {
	nodes := 0
	for _, e := range q.entries {
		for _, b := range []*batch{&e.pending, &e.working} {
			for _, n := range b.stamps {
				nodes++
				h := q.lag[n.cluster]
				if h == nil || n.index >= len(*h) || (*h)[n.index] != n {
					err = errors.Join(err, fmt.Errorf("%v: stamp of %q is not in its heap", e.key, n.cluster))
				}
			}
			if len(b.causes) > maxCauses {
				err = errors.Join(err, fmt.Errorf("%v keeps %d causes", e.key, len(b.causes)))
			}
		}
	}
	for cluster, h := range q.lag {
		nodes -= len(*h)
		if len(*h) == 0 {
			err = errors.Join(err, fmt.Errorf("empty heap of %q kept", cluster))
		}
		err = errors.Join(err, h.check())
	}
	if nodes != 0 {
		err = errors.Join(err, fmt.Errorf("%d stamps too many", nodes))
	}
	return err
}

func (h heap) check() error {
	for i, n := range h {
		if n.index != i {
			return fmt.Errorf("node %d believes it is at %d", i, n.index)
		}
		if i > 0 && n.at.Before(h[(i-1)/2].at) {
			return fmt.Errorf("node %d is before its parent", i)
		}
	}
	return nil
}
