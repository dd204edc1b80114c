// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// follow opens a stream at the last revision, or takes over the one that a
// streaming list left open, reads it to its end and decides how to go on.
func (l *Loop[T]) follow(ctx context.Context) {
	source, generation := l.current()
	stream := l.stream
	var out map[string]error
	l.stream = nil
	if stream != nil {
		generation = l.streamGen
	} else {
		l.retire(generation)
		attempt, cancel := l.attempt(ctx)
		var err error
		stream, out, err = openStream(attempt, source, l.opening())
		l.attempted()
		l.leaveOut(out)
		if l.unopened = err != nil && !l.unopened; err != nil {
			cancel()
			if isExpired(err) {
				l.due = Expired
				return
			}
			l.failed(ctx, fmt.Errorf("watch %s: %w", l.cfg.Kind, err), generation)
			return
		}
		stream = stopAlso{stream, cancel}
	}
	f := &follower[T]{loop: l, stream: stream, out: out, generation: generation}
	l.watermarks.Opened(out)
	end, err := f.run(ctx)
	l.watermarks.Closed()
	l.cfg.Observer.StreamEnded(l.cfg.Kind, end)
	l.after(ctx, f, end, err)
}

// after decides what follows the end of a stream.
func (l *Loop[T]) after(ctx context.Context, f *follower[T], end End, err error) {
	lived := time.Since(f.opened)
	healthy := f.events > 0 || lived >= healthyAfter
	l.spare(end == EndExpired && len(f.out) > 0, len(f.out) == 0 && lived >= scopeRetryLimit)
	l.brokenBy(f, err, lived < healthyAfter && (end == EndBroken || end == EndUndecodable))
	switch end {
	case EndExpired:
		l.due = Expired
	case EndRewound:
		l.due = Rewound
	case EndUndecodable:
		l.broken++
		if l.broken >= undecodableLimit {
			l.due = Undecodable
		}
		l.failed(ctx, fmt.Errorf("watch %s: %w", l.cfg.Kind, err), f.generation)
	case EndBroken:
		if healthy {
			l.retry.Reset()
		}
		l.failed(ctx, fmt.Errorf("watch %s: %w", l.cfg.Kind, err), f.generation)
	case EndClosed:
		l.retry.Reset()
		if !healthy {
			l.sleep(ctx, l.brief.Next(), true)
			return
		}
		// A server that closes every second costs a request a second, and nobody
		// waits; one that closes after each event is slowed to a few a second.
		l.brief.Reset()
		l.sleep(ctx, retryBase-lived, true)
	case EndSilent:
		if l.doubted && errors.Is(err, ErrUnproven) {
			l.due = Unproven // nor did the one before it show any life
		}
		l.doubted = true
		l.cfg.Handler.Changed(State{Phase: Waiting, Err: fmt.Errorf("watch %s: %w", l.cfg.Kind, err)})
		if !healthy {
			l.sleep(ctx, l.brief.Next(), true)
		}
	case EndReplaced, EndStopped:
	}
}

// follower is one stretch of following: a stream, and what is under way beside
// it while a source is exchanged or a list was asked for.
type follower[T any] struct {
	loop       *Loop[T]
	stream     Stream
	out        map[string]error // the scopes that are not in stream, by why
	generation int              // of the source of stream
	opened     time.Time
	events     int // objects and bookmarks since opened

	next       chan opened // the stream of a new source; nil when none is being opened
	nextRetry  Backoff
	concurrent *concurrentList[T] // the list being read; nil when none

	checking <-chan checked // the check under way; nil when none
	aliveAt  time.Time      // the last proof that the stream lives
	aliveBy  lastProofs     // by scope; nil where there is but one
	failed   bool           // the last check, for some scopes alone
	checkAt  time.Time      // when it is checked unless it shows life before
	watchdog *time.Timer    // fires at checkAt or when the stream is not believed any more
}

// opened is the answer to an attempt to open a stream.
type opened struct {
	stream     Stream
	out        map[string]error
	generation int
	err        error
}

// run reads until the stream ends or the context does. Whatever it started has
// ended when it returns, the stream included.
func (f *follower[T]) run(ctx context.Context) (End, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer f.settle()
	defer cancel()
	f.nextRetry = NewBackoff(retryBase, retryLimit)
	f.watchdog = time.NewTimer(checkAfter)
	defer f.watchdog.Stop()
	f.start()
	if f.attend(ctx) {
		return EndRewound, nil
	}
	for {
		select {
		case <-ctx.Done():
			return EndStopped, ctx.Err()
		case <-f.watchdog.C:
			if !f.believed(ctx) {
				return EndSilent, ErrUnproven
			}
		case c := <-f.checking:
			if end, err := f.checkedStream(c); end != "" {
				return end, err
			}
			f.loop.signal() // another may be wanted
		case <-f.loop.wake:
			if f.attend(ctx) {
				return EndRewound, nil
			}
		case o := <-f.next:
			if f.swap(ctx, o) {
				return EndExpired, o.err
			}
		case list := <-f.concurrent.done():
			f.apply(ctx, list)
		case e, open := <-f.stream.Events():
			if !open {
				return endOf(f.stream.Err())
			}
			if end, err := f.event(e); end != "" {
				return end, err
			}
		}
	}
}

// endOf classifies the end of a stream by its error.
func endOf(err error) (End, error) {
	switch {
	case err == nil:
		return EndClosed, nil
	case isExpired(err):
		return EndExpired, err
	case errors.Is(err, ErrUndecodable):
		return EndUndecodable, err
	default:
		return EndBroken, err
	}
}

// start notes that the stream is open. After one that was frozen, it is believed once
// it has shown life or was checked.
func (f *follower[T]) start() {
	f.opened, f.events = time.Now(), 0
	f.loop.cfg.Handler.Contact(f.opened, false)
	f.aliveAt, f.checkAt = f.opened, f.opened.Add(checkAfter+randomUpTo(checkJitter))
	f.allAlive(f.opened)
	if f.loop.doubted {
		f.checkAt = f.opened
	} else {
		f.follows(nil)
	}
	f.arm()
}

// follows says that the stream is open, and what it leaves out, or else what is wrong beside it.
func (f *follower[T]) follows(beside error) {
	namespaces, failing, err := leftOut(f.out)
	f.loop.cfg.Handler.Changed(State{Phase: Following, Err: cmp.Or(err, beside), LeftOut: namespaces, Failing: failing})
}

// settle stops the stream and waits for what is under way, whose context has
// ended.
func (f *follower[T]) settle() {
	f.stream.Stop()
	if f.next != nil {
		if o := <-f.next; o.err == nil {
			o.stream.Stop()
		}
	}
	if f.concurrent != nil {
		<-f.concurrent.result
		f.loop.Relist() // it was not applied
	}
}

// attend looks at what was asked of the loop, and reports whether that is to
// leave the stream.
func (f *follower[T]) attend(ctx context.Context) (rewind bool) {
	if f.loop.take(&f.loop.rewind) {
		return true
	}
	f.loop.retriedNow()
	if _, generation := f.loop.current(); generation != f.generation && f.next == nil {
		f.openNext(ctx, 0)
	}
	if f.checking == nil && f.loop.checkWanted() {
		f.startCheck(ctx)
	}
	if f.concurrent == nil && f.loop.take(&f.loop.requested) {
		f.concurrent = f.loop.listConcurrently(ctx)
	}
	return false
}

// openNext opens a stream of the current source while the old one goes on.
func (f *follower[T]) openNext(ctx context.Context, delay time.Duration) {
	l := f.loop
	o := l.opening()
	if delay > 0 { // one that is left out may be what the new source shows
		o.out = nil
	}
	result := make(chan opened, 1)
	f.next = result
	l.children.Go(func() {
		if !pause(ctx, delay) {
			result <- opened{err: ctx.Err()}
			return
		}
		source, generation := l.current()
		stream, out, err := openStream(ctx, source, o)
		result <- opened{stream: stream, out: out, generation: generation, err: err}
	})
}

// swap goes over to a newly opened stream. Events of the old one that were not
// read come again, since the new one was opened at an earlier revision; what was
// handed on meanwhile lies below the floor, so that no older state of an object that
// is gone comes after its end. It reports whether the new source does not know that
// revision.
func (f *follower[T]) swap(ctx context.Context, o opened) (expired bool) {
	f.next = nil
	if o.err != nil {
		if isExpired(o.err) {
			return true
		}
		f.follows(o.err)
		f.openNext(ctx, max(f.nextRetry.Next(), RetryAfter(o.err)))
		return false
	}
	f.nextRetry.Reset()
	f.stream.Stop()
	f.loop.cfg.Observer.StreamEnded(f.loop.cfg.Kind, EndReplaced)
	f.stream, f.out, f.generation = o.stream, o.out, o.generation
	f.loop.leaveOut(f.out)
	f.loop.watermarks.Opened(f.out)
	f.loop.at.settle()
	f.loop.retire(o.generation)
	f.start()
	f.loop.signal() // the source may have been exchanged again
	return false
}

// pause waits for d and reports whether the context still lives.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}
