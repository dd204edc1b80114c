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
	// work is the latest comparison, more is true where another one must follow.
	work *lanes.Work
	more bool
	// now is what stood at the first one, acked what was written since, last when.
	now   plan.Current
	acked []plan.Action
	last  time.Time
	// sent counts the requests that are under way, err is why one was not taken.
	sent int
	err  error
}

// compared leaves the actions of a comparison with the dispatcher, and returns the records that
// end with it: those of earlier ones that failed, and its own if there is nothing to write.
func (r *records) compared(d *lanes.Dispatch, w *lanes.Work, c *Comparison, taken time.Time) (ended []record.Change) {
	now := time.Now()
	r.mu.Lock() // an answer to what is planned now finds its record
	defer r.mu.Unlock()
	d.Replace(w, c.Actions, c.Waiting.More)
	own := &change{work: w, more: c.Waiting.More, now: c.Now, rec: record.Begin(w.Key.Namespace, w.Key.Name, w.Cause, w.Causes, taken)}
	own.rec.Computed(now)
	open := slices.DeleteFunc(r.open[w.Key], func(was *change) bool {
		if was.sent > 0 {
			return false
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

// continues takes over what an earlier comparison has begun.
func (c *change) continues(was *change) {
	c.now, c.acked, c.last = was.now, was.acked, was.last
	if c.rec.Cause == was.rec.Cause {
		c.rec.Stages = was.rec.Stages
	}
	c.rec.Writes = was.rec.Writes
}

// end closes the record.
func (c *change) end(result record.Result, err error, at time.Time) record.Change {
	delta := plan.Change(c.now, c.acked)
	c.rec.Added, c.rec.Removed, c.rec.Readied, c.rec.Unreadied = delta.Added, delta.Removed, delta.Readied, delta.Unreadied
	c.rec.End(at, result, err)
	return c.rec
}

// lockedOf returns the record of a comparison. One of which a request was granted while the
// next comparison took over begins anew.
func (r *records) lockedOf(w *lanes.Work) *change {
	open := r.open[w.Key]
	if at := slices.IndexFunc(open, func(c *change) bool { return c.work == w }); at >= 0 {
		return open[at]
	}
	c := &change{work: w, rec: record.Begin(w.Key.Namespace, w.Key.Name, w.Cause, w.Causes, time.Now())}
	c.rec.Lane = w.Lane.String()
	r.open[w.Key] = append(open, c)
	return c
}

// granted notes that a request is about to be sent.
func (r *records) granted(w *lanes.Work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lockedOf(w).sent++
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
	last := g.Done(out)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.lockedOf(g.Work)
	if c.sent--; !last || out.Result == lanes.Unused || c.err != nil || c.more {
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
