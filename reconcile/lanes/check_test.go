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
	line := func(line *heap, in func(*entry) bool) {
		ready += len(*line)
		for _, n := range *line {
			if e := n.entry; e.state != stateReady || e.in != line || !in(e) || q.entries[e.key] != e {
				err = errors.Join(err, fmt.Errorf("a line holds %v wrongly: %+v", e.key, e))
			}
		}
		err = errors.Join(err, line.check())
	}
	for _, lane := range lanes {
		line(&q.fresh[lane], func(e *entry) bool { return e.bulkhead == nil && !e.pending.judged && e.pending.lane == lane })
		line(&q.judged[lane], func(e *entry) bool { return e.bulkhead == nil && e.pending.judged && e.pending.lane == lane && !e.late })
	}
	for g, b := range q.bulkheads {
		line(&b.line, func(e *entry) bool {
			return e.bulkhead == b && g == group{e.key.Namespace, e.pending.lane == Removal, e.late}
		})
		if b.held == 0 && len(b.line) == 0 {
			err = errors.Join(err, fmt.Errorf("%+v is empty", g))
		}
	}
	for _, e := range q.entries {
		if e.state == stateReady {
			ready--
		}
		if e.state != stateReady && e.in != nil {
			err = errors.Join(err, fmt.Errorf("%v is in line in state %d", e.key, e.state))
		}
	}
	if ready != 0 {
		err = errors.Join(err, fmt.Errorf("lanes hold %d more keys than are ready", ready))
	}
	if len(q.idle) > 0 {
		compare, write := q.compareTurns, q.writeTurns
		if e := q.lockedNext(); e != nil {
			q.lockedReady(e, e.readySince)
			err = errors.Join(err, fmt.Errorf("%v waits while %d workers idle", e.key, len(q.idle)))
		}
		q.compareTurns, q.writeTurns = compare, write
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
	var busy [placeCount]int
	working := 0
	held := map[*bulkhead]int{}
	var ages [laneCount]int
	for _, e := range q.entries {
		for _, b := range []*batch{&e.pending, &e.working} {
			if b.enqueued.IsZero() != (b.age == nil) || b.age != nil && !b.age.at.Equal(b.enqueued) {
				err = errors.Join(err, fmt.Errorf("%v: the age of a batch is wrong", e.key))
			} else if b.age != nil && b.age.index != absent {
				ages[b.lane]++
			}
			if alone := e.failures >= FailsAlone && !q.away; b.age != nil && alone != (b.age.index == absent) {
				err = errors.Join(err, fmt.Errorf("%v: its age counts: %t", e.key, alone))
			}
		}
		if e.state != stateWorking {
			if !e.working.enqueued.IsZero() {
				err = errors.Join(err, fmt.Errorf("%v: work left in state %d", e.key, e.state))
			}
			continue
		}
		working++
		busy[e.place]++
		if e.bulkhead != nil {
			held[e.bulkhead]++
		}
		if (e.bulkhead != nil) != (e.place == apartRemoval || e.place == apartOther) || e.bulkhead != nil && q.bulkheads[e.bulkhead.group] != e.bulkhead {
			err = errors.Join(err, fmt.Errorf("%v is at %d in %+v", e.key, e.place, e.bulkhead))
		}
		if _, ok := q.working[e]; !ok {
			err = errors.Join(err, fmt.Errorf("%v is not known to be in work", e.key))
		}
	}
	for g, b := range q.bulkheads {
		if held[b] != b.held {
			err = errors.Join(err, fmt.Errorf("%+v holds %d, want %d", g, b.held, held[b]))
		}
	}
	if busy != q.busy || working != len(q.working) {
		err = errors.Join(err, fmt.Errorf("busy is %v, want %v; %d in work, want %d", q.busy, busy, len(q.working), working))
	}
	for _, lane := range lanes {
		if len(q.ages[lane]) != ages[lane] {
			err = errors.Join(err, fmt.Errorf("lane %s has %d ages, want %d", lane, len(q.ages[lane]), ages[lane]))
		}
		err = errors.Join(err, q.ages[lane].check())
	}
	if busy[Removal] > q.opts.Workers || busy[comparing] > q.opts.Compare {
		err = errors.Join(err, fmt.Errorf("busy is %v, more than %+v allows", busy, q.opts))
	}
	return err
}

func (q *Queue) checkLag() (err error) {
	nodes := 0
	for _, e := range q.entries {
		for _, b := range []*batch{&e.pending, &e.working} {
			for _, n := range b.stamps {
				if n.index == absent {
					continue
				}
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
		if i > 0 && n.before(h[(i-1)/2]) {
			return fmt.Errorf("node %d is before its parent", i)
		}
	}
	return nil
}
