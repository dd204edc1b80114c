// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/syncer"
)

// The times of a course. They are constants, not settings: each follows from what an API
// server does or from a promise of the product.
const (
	// watchTime is how long a watch lasts, and watchGrace how much later its end may come.
	watchTime  = 20 * time.Second
	watchGrace = 3 * time.Second
	// acceptTime is how long a server may take to accept one.
	acceptTime = 10 * time.Second
	// healthyAfter is how long a stream must have lived for its end to count as normal.
	healthyAfter = 500 * time.Millisecond
	// retryBase and retryLimit bound the wait after an error.
	retryBase  = 200 * time.Millisecond
	retryLimit = 5 * time.Second
	// briefWait is the wait after a stream that ended in order almost as soon as it was open: a
	// server that always does so brings its news at that pace. It is longer than a gap takes to settle.
	briefWait = 1500 * time.Millisecond
	// probeEvery is how often it is asked whether the store went back.
	probeEvery = 10 * time.Second
	// relistEvery is how long after a list each kind is listed anew, less the first time: so each
	// has an hour of its own.
	relistEvery = 24 * time.Hour
)

// Do is what a Course wants done.
type Do uint8

// What there is to do.
const (
	// Wait until Action.Until, or until there is something to report.
	Wait Do = iota
	// List reads a complete list at the latest revision; Listed or ListFailed reports the
	// result. One that is still being read is dropped.
	List
	// Watch opens a stream after Action.Revision; Opened, Event for each event, and Ended report
	// it.
	Watch
	// Cut ends the stream, and retires its connection, which may be frozen. Nothing more is
	// reported of the stream, not even its end.
	Cut
	// Probe reads a list with limit 1; Probed reports its revision.
	Probe
)

// Action is what is to be done next.
type Action struct {
	Do       Do
	Revision uint64
	Until    time.Time
}

// Course decides how one kind of objects is followed, and what is reported to its Sink. It has
// no I/O, goroutine or clock: its driver calls Next until that returns Wait, and again after
// each report. It is not safe for concurrent use.
type Course[T any] struct {
	sink Sink[T]
	dice func(time.Duration) time.Duration

	revision  uint64 // up to where everything has been reported; 0: nothing has, or it is void
	following bool   // as reported
	delay     time.Duration

	listAt time.Time                   // when a list is wanted; zero: one is under way
	daily  time.Duration               // from a list to the next
	sent   uint64                      // the revision when the list that is under way was asked for
	since  map[syncer.Key]Versioned[T] // what the stream has brought since then; nil: none is under way

	listed   bool      // a stream may resume at the revision
	watching bool      // one is open, or being opened
	watchAt  time.Time // when one may be opened; while watching: when it has been silent for too long
	opened   time.Time // when it was; zero until then

	probeAt time.Time
	probed  uint64 // no list that is asked for from now on may be older
}

// NewCourse returns a course that begins with a list. dice returns a random time below its argument.
func NewCourse[T any](now time.Time, sink Sink[T], dice func(time.Duration) time.Duration) *Course[T] {
	return &Course[T]{sink: sink, dice: dice, listAt: now, daily: dice(relistEvery), probeAt: now.Add(dice(probeEvery))}
}

// Next returns what is to be done now, and assumes that it is begun.
func (c *Course[T]) Next(now time.Time) Action {
	until := now.Add(probeEvery)
	due := func(at time.Time) bool {
		if at.Before(until) {
			until = at
		}
		return !now.Before(at)
	}
	switch {
	case c.watching && due(c.watchAt):
		c.watching = false
		if c.listed {
			c.delay = 0
			c.say(false, errors.New("the watch is frozen")) // no process may begin to lead with what the watch brought
		}
		return Action{Do: Cut}
	case !c.listAt.IsZero() && due(c.listAt):
		c.listAt, c.sent, c.since = time.Time{}, c.revision, map[syncer.Key]Versioned[T]{}
		return Action{Do: List}
	case c.listed && !c.watching && due(c.watchAt):
		c.watching, c.opened, c.watchAt = true, time.Time{}, now.Add(acceptTime)
		return Action{Do: Watch, Revision: c.revision}
	case c.revision != 0 && due(c.probeAt):
		c.probeAt, c.probed = now.Add(probeEvery), max(c.probed, c.revision)
		return Action{Do: Probe}
	}
	return Action{Do: Wait, Until: until}
}

// Relist has a complete list read, beside the stream if one is open.
func (c *Course[T]) Relist(now time.Time) { c.listAt = now }

// Listed reports a complete list. If the stream is ahead of the list, the list is brought level
// with it; if it is behind, its events up to the revision of the list are skipped when they
// come.
func (c *Course[T]) Listed(now time.Time, all []Versioned[T], revision uint64) {
	if revision < c.sent {
		c.wentBack(now)
		return
	}
	if revision < c.revision {
		all = slices.DeleteFunc(all, func(v Versioned[T]) bool { return c.since[v.Key].Revision > revision })
		for _, v := range c.since {
			if v.Revision > revision && v.Object != nil {
				v.Object = cmp.Or(v.Relisted, v.Object)
				all = append(all, v)
			}
		}
		revision = c.revision
	}
	if !c.listed {
		c.listed, c.watchAt = true, now
	}
	c.listAt, c.daily = now.Add(c.daily), relistEvery
	c.since, c.revision = nil, revision
	c.sink.Listed(all, revision)
}

// ListFailed reports why there is no list. That is not passed on while a stream may be open.
func (c *Course[T]) ListFailed(now time.Time, err error) {
	c.since, c.listAt = nil, c.retry(now, err)
	if !c.listed {
		c.say(false, err)
	}
}

// Opened reports that the stream is open.
func (c *Course[T]) Opened(now time.Time) {
	c.opened, c.watchAt = now, now.Add(watchTime+watchGrace)
	c.say(true, nil)
}

// Event reports an event of the stream. Without a revision it shows only that the stream is alive.
func (c *Course[T]) Event(v Versioned[T], arrived time.Time) {
	if grace := arrived.Add(watchGrace); grace.After(c.watchAt) {
		c.watchAt = grace
	}
	if v.Revision <= c.revision {
		return // a list has shown it, or the stream repeats itself: its events are in the order of their revisions
	}
	c.revision = v.Revision
	c.sink.Event(v, arrived)
	if c.since != nil {
		c.since[v.Key] = v
	}
}

// Ended reports the end of the stream, or that it could not be opened; nil is an orderly end.
// After a normal life it is opened again at once, whatever ended it.
func (c *Course[T]) Ended(now time.Time, err error) {
	c.watching = false
	healthy := !c.opened.IsZero() && now.Sub(c.opened) >= healthyAfter
	if healthy {
		c.delay = 0
	}
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		c.unlisted(c.retry(now, nil)) // the next list may be as old
	case healthy:
		c.watchAt = now
	case err == nil:
		c.watchAt = now.Add(briefWait)
		c.say(false, errors.New("the server ends watches at once"))
	default:
		c.watchAt = c.retry(now, err)
		c.say(false, err)
	}
}

// Probed reports the revision of a list. Lists are never older than the store, so one below
// what the stream had shown when it was asked for, or below the list before it, shows that
// the store was restored from a backup; the stream would stay silent until the revisions have
// caught up (kubernetes#107457).
func (c *Course[T]) Probed(now time.Time, revision uint64) {
	if revision < c.probed {
		c.wentBack(now)
	} else if c.revision != 0 {
		c.probed = revision // a stream without events lags behind it
	}
}

// wentBack drops all revisions, and lists.
func (c *Course[T]) wentBack(now time.Time) {
	c.sink.WentBack()
	c.revision, c.probed, c.since = 0, 0, nil
	c.watchAt = now
	c.unlisted(now)
}

// unlisted has a list read before there is a stream again.
func (c *Course[T]) unlisted(at time.Time) {
	c.listed, c.listAt = false, at
	c.say(false, nil)
}

// retry returns when to try again. The wait doubles, and half of it is random, so that the
// retries of many clusters do not come back in step.
func (c *Course[T]) retry(now time.Time, err error) time.Time {
	c.delay = min(max(2*c.delay, retryBase), retryLimit)
	return now.Add(max(c.delay/2+c.dice(c.delay/2), RetryAfter(err)))
}

// say reports whether the stream is followed, if that has changed. That a failing stream starts
// anew with a list is no change.
func (c *Course[T]) say(following bool, err error) {
	if err != nil || following != c.following {
		c.following = following
		c.sink.Following(following, err)
	}
}
