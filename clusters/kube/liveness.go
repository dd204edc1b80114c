// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A watch says nothing when nothing happens, and one that is frozen says the same: behind
// a proxy that lost its other end, or a balancer that answers pings itself. So a stream
// that brings neither event nor bookmark for checkAfter is checked: a short watch from
// the same revision brings what the stream should have brought. Nothing means that
// nothing happened; anything means that the stream is frozen, and is used in its place.
// That the short watch is ended by the server within its time shows that what is sent
// does arrive, also through a proxy that holds answers back. What is neither shown nor
// checked for beliefLimit is not believed any more: with the time that a member's state
// takes to follow, that is within 30 s.
const (
	checkAfter   = 14 * time.Second
	checkJitter  = 2 * time.Second
	checkSeconds = 2
	checkTimeout = 6 * time.Second
	checkRetry   = time.Second
	// checkPatience is how long a check waits for one of several namespaces: two of them end before
	// the stream is not believed any more.
	checkPatience = 3 * time.Second
	beliefLimit   = 26 * time.Second
	// checkGrace is how much later than a check a healthy stream may bring an event.
	checkGrace = 500 * time.Millisecond
	// checkEvents bounds what a check takes in; a stream so far behind is opened anew.
	checkEvents = 1000
)

// errFrozen is a stream that did not bring what happened.
var errFrozen = errors.New("the stream is frozen: what it should have brought came otherwise")

// ErrUnproven is a stream of which nobody knows what it should have brought.
var ErrUnproven = errors.New("the stream is frozen: it brought nothing, and what it should have brought could not be asked for")

// checked is the outcome of a check.
type checked struct {
	number int
	events []Event // in order
	// out are scopes that it tells nothing of, by why, which did not use to be left out.
	out map[string]error
	err error
}

// check reads what happened since. It is proof for all scopes: it ends in order only when all
// of them have.
func check(ctx context.Context, source ListWatcher, opts metav1.ListOptions, at positions) (events []Event, out map[string]error, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	opts.TimeoutSeconds = new(int64(checkSeconds))
	stream, out, err := openStream(ctx, source, opening{opts: opts, at: at, toEnd: true, patience: checkPatience})
	if err != nil {
		return nil, nil, err
	}
	defer stream.Stop()
	if len(out) > 0 {
		return nil, out, nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil, nil, ErrUnproven
		case e, open := <-stream.Events():
			switch {
			case !open:
				return events, nil, stream.Err()
			case e.Err != nil:
				return nil, nil, e.Err
			case e.Type == watch.Error:
				return nil, nil, apierrors.FromObject(e.Object)
			}
			events = append(events, e)
			if e.Type == watch.Bookmark && len(source.Scopes) == 0 || len(events) == checkEvents {
				return events, nil, nil
			}
		}
	}
}

// startCheck begins a check of the stream.
func (f *follower[T]) startCheck(ctx context.Context) {
	l := f.loop
	source, _ := l.current()
	source = source.without(f.out)
	opts, at := l.watchOptions(), maps.Clone(l.at)
	number := l.numberCheck()
	result := make(chan checked, 1)
	f.checking = result
	l.children.Go(func() {
		events, out, err := check(ctx, source, opts, at)
		result <- checked{number, events, out, err}
	})
}

// checkedStream takes in the outcome of a check; end is not empty when the stream is to
// be left.
func (f *follower[T]) checkedStream(c checked) (end End, err error) {
	f.checking, f.checkAt = nil, time.Now().Add(checkRetry)
	defer f.arm()
	if c.err != nil {
		if isExpired(c.err) {
			return EndExpired, c.err
		}
		return "", nil // until it succeeds, or the stream is not believed any more
	}
	if end, err := f.drain(); end != "" {
		return end, err
	}
	if len(c.out) > 0 {
		if _, failing, _ := leftOut(c.out); len(failing) == len(c.out) && !f.failed {
			f.failed = true // once, which may pass
			return "", nil
		}
		f.leaveOut(c.out) // their streams can be proven no more: the others go on without
		return EndClosed, nil
	}
	news := c.events[:0]
	for _, e := range c.events {
		m, err := meta.Accessor(e.Object)
		if err == nil && number(m.GetResourceVersion()) > f.loop.at[e.Scope].number {
			news = append(news, e)
		}
	}
	for _, e := range news {
		if e.Type != watch.Bookmark && time.Since(e.Arrival) < checkGrace {
			return "", nil // it may be on its way by the stream as well
		}
	}
	frozen := false
	if len(news) > 0 {
		f.loop.watermarks.Opened(f.out) // what the check brings is not by the same stream
	}
	for _, e := range news {
		frozen = frozen || e.Type != watch.Bookmark
		if end, err := f.event(e); end != "" {
			return end, err
		}
	}
	if frozen {
		return EndSilent, errFrozen
	}
	f.loop.clean(c.number)
	f.allAlive(time.Now())
	f.alive(time.Now())
	f.loop.cfg.Handler.Contact(time.Now(), false)
	return "", nil
}

// drain handles what the stream has brought by now.
func (f *follower[T]) drain() (end End, err error) {
	for {
		select {
		case e, open := <-f.stream.Events():
			if !open {
				return endOf(f.stream.Err())
			}
			if end, err := f.event(e); end != "" {
				return end, err
			}
		default:
			return "", nil
		}
	}
}

// aliveFrom notes that the stream of a scope lives. Where there are several, what is known
// of all of them counts.
func (f *follower[T]) aliveFrom(scope string) {
	now := time.Now()
	if f.aliveBy != nil {
		if now = f.aliveBy.note(scope, now); !now.After(f.aliveAt) {
			return
		}
	}
	f.alive(now)
}

// allAlive notes it for all scopes.
func (f *follower[T]) allAlive(at time.Time) {
	if len(f.loop.at) < 2 {
		return
	}
	f.aliveBy = lastProofs{}
	for scope := range f.loop.at {
		if f.out[scope] == nil {
			f.aliveBy[scope] = at
		}
	}
}

// alive notes a proof that the stream lives.
func (f *follower[T]) alive(at time.Time) {
	f.failed, f.aliveAt, f.checkAt = false, at, at.Add(checkAfter+randomUpTo(checkJitter))
	if f.loop.doubted {
		f.loop.doubted = false
		f.follows(nil)
	}
}

// believed starts a check when one is due, and reports whether the stream is to be
// believed on.
func (f *follower[T]) believed(ctx context.Context) bool {
	now := time.Now()
	if now.Sub(f.aliveAt) >= beliefLimit {
		return false
	}
	if f.checking == nil && !now.Before(f.checkAt) {
		f.startCheck(ctx)
	}
	f.arm()
	return true
}

// arm sets the watchdog. That the stream shows life does not: the watchdog then finds that
// it came too early, which costs less than to set it with each event.
func (f *follower[T]) arm() {
	at := f.aliveAt.Add(beliefLimit)
	if f.checking == nil && f.checkAt.Before(at) {
		at = f.checkAt
	}
	f.watchdog.Reset(time.Until(at))
}

// checks numbers the checks of a loop's streams, so that somebody who doubts a stream can
// ask for one that begins from now on. The loop's lock guards it.
type checks struct {
	started, proof int
	wanted         bool
}

// numberCheck begins a check.
func (l *Loop[T]) numberCheck() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checks.started++
	l.checks.wanted = false
	return l.checks.started
}

// clean notes that a check found nothing that its stream had not brought.
func (l *Loop[T]) clean(check int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checks.proof = max(l.checks.proof, check)
}

func (l *Loop[T]) checkWanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checks.wanted
}

// Prove asks for a check of the stream that begins from now on, and returns its number.
func (l *Loop[T]) Prove() int {
	l.mu.Lock()
	l.checks.wanted = true
	next := l.checks.started + 1
	l.mu.Unlock()
	l.signal()
	return next
}

// Proven reports whether that check, or a later one, has shown that the stream brought
// all that happened before it.
func (l *Loop[T]) Proven(check int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checks.proof >= check
}
