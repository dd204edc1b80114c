// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
)

// change is an open record. A comparison opens one, and its last acknowledgement closes it.
// What is left to the next comparison goes on in the same record: a new replica is one change,
// though its objects are written one after the other.
type change struct {
	rec record.Change
	// more is true where another comparison must follow.
	more bool
	// now is what stood at the first comparison, acked what was written since, last when.
	now   plan.Current
	acked []plan.Action
	last  time.Time
	// err is why a write was not taken.
	err error
}

// settle leaves the actions of a comparison with the dispatcher, and returns the records that
// end with it: those of earlier ones that failed, and its own if there is nothing to write.
func (c *Core) settle(now time.Time, of *Comparison) (ended []record.Change) {
	w := of.work
	former := c.dispatch.Replace(now, w, of.Actions, of.Waiting.More)
	own := &change{more: of.Waiting.More, now: of.Now, rec: record.Begin(w.Key.Namespace, w.Key.Name, w.Cause, w.Causes, of.taken)}
	own.rec.Computed(now)
	own.rec.Lane = w.Lane.String()
	for _, earlier := range former {
		was := c.changes[earlier]
		if delete(c.changes, earlier); was == nil {
			continue // its last acknowledgement has ended it
		}
		if own.rec.Attempt = max(own.rec.Attempt, was.rec.Attempt); was.err == nil {
			own.continues(was)
			continue
		}
		own.rec.Attempt++
		ended = append(ended, was.end(record.Failed, was.err, now))
	}
	switch obstacle := of.obstacle(); {
	case len(of.Actions) > 0:
		own.rec.Lane = lane(of.Actions).String()
		c.changes[w] = own
	case of.Waiting.More:
		c.changes[w] = own
	case own.rec.Writes > 0:
		ended = append(ended, own.end(record.Written, nil, own.last))
	case w.Causes > 0 && obstacle != nil:
		ended = append(ended, own.end(record.Blocked, obstacle, now))
	case w.Causes > 0:
		ended = append(ended, own.end(record.Dropped, nil, now))
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

// wrote notes the answer to a request.
func (c *change) wrote(now time.Time, a plan.Action, err error) {
	if err != nil {
		c.err = err
		return
	}
	c.last, c.acked = now, append(c.acked, a)
	c.rec.Acknowledged(a.Kind.String(), now)
}

// end closes the record.
func (c *change) end(result record.Result, err error, at time.Time) record.Change {
	delta := plan.Change(c.now, c.acked)
	c.rec.Added, c.rec.Removed, c.rec.Readied, c.rec.Unreadied = delta.Added, delta.Removed, delta.Readied, delta.Unreadied
	c.rec.End(at, result, err)
	return c.rec
}

// ended ends a grant, and returns the record of its comparison if that ends with it. One that
// failed ends with the next comparison.
func (c *Core) ended(now time.Time, g *lanes.Grant, out lanes.Outcome) []record.Change {
	is := c.changes[g.Work]
	if last := g.Done(now, out); !last || out.Result == lanes.Unused || is.err != nil || is.more {
		return nil
	}
	delete(c.changes, g.Work)
	return []record.Change{is.end(record.Written, nil, is.last)}
}
