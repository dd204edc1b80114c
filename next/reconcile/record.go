// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/next/metrics/record"
	"tributary.dev/tributary/next/reconcile/lanes"
	"tributary.dev/tributary/next/reconcile/plan"
	"tributary.dev/tributary/next/syncer"
)

// records are those of comparisons whose writes are not all acknowledged.
type records struct {
	mu   sync.Mutex
	open map[syncer.Key][]*change
}

// change is the record of one comparison while it is open.
type change struct {
	work *lanes.Work
	rec  record.Change
	// sent counts the requests that are under way.
	sent int
	// err is why a write of it was not taken, the last one.
	err error
	// delta is what the acknowledged writes came to.
	delta plan.Delta
}

// compared leaves the actions of a comparison with the dispatcher and opens its record. It
// returns the records that have ended: its own if there is nothing to write, and earlier ones
// of which the rest was taken over.
func (r *records) compared(d *lanes.Dispatch, w *lanes.Work, c *Comparison, taken time.Time) (ended []record.Change) {
	now := time.Now()
	r.mu.Lock() // an answer to what is planned now finds its record
	defer r.mu.Unlock()
	d.Replace(w, c.Actions, c.Waiting.More)
	attempt := 0
	open := slices.DeleteFunc(r.open[w.Key], func(was *change) bool {
		if was.sent > 0 {
			return false
		}
		if attempt = max(attempt, was.rec.Attempt); was.err != nil {
			attempt++
		}
		if was.err != nil || was.rec.Writes > 0 {
			ended = append(ended, was.end(now))
		}
		return true
	})
	own := &change{work: w, rec: record.Begin(w.Key.Namespace, w.Key.Name, w.Cause, w.Causes, taken)}
	own.rec.Computed(now)
	own.rec.Attempt = attempt
	switch {
	case len(c.Actions) > 0:
		own.rec.Lane = lane(c.Actions).String()
		open = append(open, own)
	case w.Causes > 0 && !c.Waiting.More:
		own.rec.Lane = w.Lane.String()
		if own.err = c.obstacle(); own.err != nil {
			own.rec.End(now, record.Blocked, own.err)
		} else {
			own.rec.End(now, record.Dropped, nil)
		}
		ended = append(ended, own.rec)
	}
	if r.open[w.Key] = open; len(open) == 0 {
		delete(r.open, w.Key)
	}
	return ended
}

// lockedOf returns the record of a comparison. One whose first request was granted while a later
// comparison took over begins anew.
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
func (r *records) wrote(w *lanes.Work, a *plan.Action, err error) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.lockedOf(w)
	if err != nil {
		c.err = err
		return
	}
	c.rec.Acknowledged(a.Kind.String(), now)
	c.delta = union(c.delta, a.Delta)
}

// answered ends a grant, and returns the record of its comparison if that was the last.
func (r *records) answered(g *lanes.Grant, out lanes.Outcome) (ended record.Change, last bool) {
	last = g.Done(out)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.lockedOf(g.Work)
	c.sent--
	if !last || out.Result == lanes.Unused {
		return record.Change{}, false
	}
	key := g.Work.Key
	if r.open[key] = slices.DeleteFunc(r.open[key], func(other *change) bool { return other == c }); len(r.open[key]) == 0 {
		delete(r.open, key)
	}
	return c.end(time.Now()), true
}

// end closes the record.
func (c *change) end(now time.Time) record.Change {
	c.rec.Added, c.rec.Removed, c.rec.Readied, c.rec.Unreadied = c.delta.Added, c.delta.Removed, c.delta.Readied, c.delta.Unreadied
	result := record.Written
	if c.err != nil {
		result = record.Failed
	}
	c.rec.End(now, result, c.err)
	return c.rec
}

// union is what two writes change together. The same address leaves Endpoints and slices.
func union(a, b plan.Delta) plan.Delta {
	both := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	return plan.Delta{Added: both(a.Added, b.Added), Removed: both(a.Removed, b.Removed), Readied: both(a.Readied, b.Readied), Unreadied: both(a.Unreadied, b.Unreadied)}
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
