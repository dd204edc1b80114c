// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// records are the change records that are open. A comparison opens one, and its last
// acknowledgement closes it. What is left to the next comparison goes on in the same record:
// a new replica is one change, though its objects are written one after the other.
type records struct {
	mu   sync.Mutex
	open map[syncer.Key][]*change
}

// change is an open record.
type change struct {
	rec record.Change
	// work is the latest comparison, planned what it came to; more is true where another one
	// must follow.
	work    *lanes.Work
	planned []plan.Action
	more    bool
	// now is what stood at the first one, acked what was written since, last when.
	now   plan.Current
	acked []plan.Action
	last  time.Time
	// err is why a write was not taken.
	err error
}

// compared leaves the actions of a comparison with the dispatcher, and returns the records that
// end with it: those of earlier ones that failed, and its own if there is nothing to write.
func (r *records) compared(d *lanes.Dispatch, w *lanes.Work, c *Comparison, taken time.Time) (ended []record.Change) {
	now := time.Now()
	r.mu.Lock() // an answer to what is planned now finds its record
	defer r.mu.Unlock()
	d.Replace(w, c.Actions, c.Waiting.More)
	own := &change{work: w, planned: c.Actions, more: c.Waiting.More, now: c.Now, rec: record.Begin(w.Key.Namespace, w.Key.Name, w.Cause, w.Causes, taken)}
	own.rec.Computed(now)
	open := slices.DeleteFunc(r.open[w.Key], func(was *change) bool {
		if slices.ContainsFunc(was.planned, func(a plan.Action) bool { return d.Busy(a.Object()) }) {
			return false // it is answered yet
		}
		if own.rec.Attempt = max(own.rec.Attempt, was.rec.Attempt); was.err == nil {
			own.continues(was)
			return true
		}
		own.rec.Attempt++
		ended = append(ended, was.end(record.Failed, was.err, now))
		return true
	})
	own.rec.Lane = w.Lane.String()
	switch obstacle := c.obstacle(); {
	case len(c.Actions) > 0:
		own.rec.Lane = lane(c.Actions).String()
		open = append(open, own)
	case c.Waiting.More:
		open = append(open, own)
	case own.rec.Writes > 0:
		ended = append(ended, own.end(record.Written, nil, own.last))
	case w.Causes > 0 && obstacle != nil:
		ended = append(ended, own.end(record.Blocked, obstacle, now))
	case w.Causes > 0:
		ended = append(ended, own.end(record.Dropped, nil, now))
	}
	if r.open[w.Key] = open; len(open) == 0 {
		delete(r.open, w.Key)
	}
	return ended
}

// continues takes over what an earlier comparison has begun; the earliest first.
func (c *change) continues(was *change) {
	if len(c.acked) == 0 {
		c.now = was.now
	}
	if c.rec.Cause == was.rec.Cause {
		c.rec.Stages = was.rec.Stages
	}
	c.acked, c.rec.Writes = append(c.acked, was.acked...), c.rec.Writes+was.rec.Writes
	if was.last.After(c.last) {
		c.last = was.last
	}
}

// end closes the record.
func (c *change) end(result record.Result, err error, at time.Time) record.Change {
	delta := plan.Change(c.now, c.acked)
	c.rec.Added, c.rec.Removed, c.rec.Readied, c.rec.Unreadied = delta.Added, delta.Removed, delta.Readied, delta.Unreadied
	c.rec.End(at, result, err)
	return c.rec
}

// lockedOf returns the record of a comparison of which a request is under way.
func (r *records) lockedOf(w *lanes.Work) *change {
	open := r.open[w.Key]
	return open[slices.IndexFunc(open, func(c *change) bool { return c.work == w })]
}

// wrote notes the answer to a request.
func (r *records) wrote(w *lanes.Work, a plan.Action, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.lockedOf(w)
	if err != nil {
		c.err = err
		return
	}
	c.last, c.acked = time.Now(), append(c.acked, a)
	c.rec.Acknowledged(a.Kind.String(), c.last)
}

// answered ends a grant, and returns the record of its comparison if that ends with it. One
// that failed ends with the next comparison.
func (r *records) answered(g *lanes.Grant, out lanes.Outcome) (ended record.Change, ends bool) {
	r.mu.Lock() // the comparison that follows finds its record without this request
	defer r.mu.Unlock()
	c := r.lockedOf(g.Work)
	if last := g.Done(out); !last || out.Result == lanes.Unused || c.err != nil || c.more {
		return record.Change{}, false
	}
	key := g.Work.Key
	if r.open[key] = slices.DeleteFunc(r.open[key], func(other *change) bool { return other == c }); len(r.open[key]) == 0 {
		delete(r.open, key)
	}
	return c.end(record.Written, nil, c.last), true
}

// obstacle says why nothing is written though something is wanted; nil: nothing is.
func (c *Comparison) obstacle() error {
	switch {
	case c.Excluded && c.Want != nil:
		return errors.New("namespace " + c.Replica.Namespace + " may not be written to (ingress.namespaces)")
	case c.Waiting.Reason != "":
		return errors.New("waiting: " + string(c.Waiting.Reason))
	case len(c.Waiting.Conflicts) > 0:
		return errors.New("conflict: " + c.Waiting.Conflicts[0].Message)
	}
	return nil
}
