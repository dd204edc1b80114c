// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
)

// change is the open record of a comparison, which its last acknowledgement closes. What is left
// to the next comparison goes on in the same record: a new replica is one change, though its
// objects are written one after the other.
type change struct {
	rec record.Change
	// more is true where another comparison must follow.
	more bool
	// now is the current state at the comparison, acked what was written since, last when; delta is what
	// was written before.
	now   plan.Current
	acked []plan.Action
	last  time.Time
	delta plan.Delta
	// err is why a write was not accepted.
	err error
}

// settle plans the actions of a comparison, which took from begun to now, with the dispatcher. It
// returns the records that end with it: those of earlier ones that failed, and its own if there is
// nothing to write. Its conflicts are why that may be so.
func (c *Core) settle(w *lanes.Work, of *Comparison, begun, now time.Time) (ended []record.Change) {
	former := c.dispatch.Replace(now, w, of.Actions, of.Waiting.More)
	for _, earlier := range former {
		ended = append(ended, c.end(now, earlier, true)...)
	}
	is := record.Begin(w.Key.Namespace, w.Key.Name, w.Cause, w.Causes, begun)
	is.Computed(now)
	own, obstacles := c.unfinished[w.Key], of.trouble.Conflicts
	delete(c.unfinished, w.Key)
	switch {
	case own == nil:
		own = &change{rec: is}
	case w.Causes > 0 && own.rec.Cause != is.Cause: // news that is more of a cause
		own.rec.Cause, own.rec.Cluster, own.rec.Stages, own.last = is.Cause, is.Cluster, is.Stages, time.Time{}
	}
	own.now, own.more = of.Now, of.Waiting.More
	own.rec.Lane, own.rec.Attempt, own.rec.Causes = w.Lane.String(), w.Attempt, max(own.rec.Causes, w.Causes)
	switch {
	case len(of.Actions) > 0:
		urgent := slices.MinFunc(of.Actions, func(a, b plan.Action) int { return cmp.Compare(a.Lane(), b.Lane()) })
		own.rec.Lane = urgent.Lane().String()
		c.changes[w] = own
	case own.more:
		c.unfinished[w.Key] = own
	case own.rec.Writes > 0:
		ended = append(ended, own.end(cmp.Or(own.last, now), record.Written, nil))
	case w.Causes > 0 && len(obstacles) > 0:
		ended = append(ended, own.end(now, record.Blocked, errors.New(obstacles[0].Reason+": "+obstacles[0].Message)))
	case w.Causes > 0:
		ended = append(ended, own.end(now, record.Dropped, nil))
	}
	return ended
}

// end is called when nothing of a comparison is planned or under way any more, and returns its
// record unless that goes on.
func (c *Core) end(now time.Time, w *lanes.Work, goesOn bool) []record.Change {
	is := c.changes[w]
	delete(c.changes, w)
	switch {
	case is.err != nil:
		return []record.Change{is.end(now, record.Failed, is.err)}
	case !goesOn && !is.more:
		return []record.Change{is.end(is.last, record.Written, nil)}
	}
	is.tell()
	if other := c.unfinished[w.Key]; other != nil {
		is.rec.Writes += other.rec.Writes
		is.delta = is.delta.With(other.delta)
	}
	c.unfinished[w.Key] = is
	return nil
}

// end closes the record.
func (c *change) end(at time.Time, result record.Result, err error) record.Change {
	c.tell()
	c.rec.Added, c.rec.Removed, c.rec.Readied, c.rec.Unreadied = c.delta.Added, c.delta.Removed, c.delta.Readied, c.delta.Unreadied
	c.rec.End(at, result, err)
	return c.rec
}

// tell records what was written since the comparison. What one comparison adds and the next
// removes is recorded as both.
func (c *change) tell() {
	c.delta, c.acked = c.delta.With(plan.Change(c.now, c.acked)), nil
}
