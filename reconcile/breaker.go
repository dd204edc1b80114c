// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/write"
)

// breaker knows whether the ingress cluster takes writes. While it is open, keys wait
// in their lanes, so that the first to be written afterwards are removals; a probe asks
// now and then, and when that is answered one key is tried.
//
// All methods are safe for concurrent use.
type breaker struct {
	// ask is the probe; in doubt it asks for what a write needs.
	ask func(ctx context.Context, doubt bool) error
	// turned is called with true when the breaker opens, with false when it closes,
	// with mu held, so that no two calls change places. retryNow lets one key be tried;
	// false: none waits. retryAll ends the wait of all that failed.
	turned   func(open bool)
	retryNow func() bool
	retryAll func()
	logger   *slog.Logger
	// again has run look at how long it is until the next probe.
	again chan struct{}

	mu   sync.Mutex
	open bool
	// missed counts requests in a row that no server answered, tries those since the
	// breaker opened.
	missed, tries int
	// denied is since when the server answers and takes nothing, whatever it is asked;
	// zero: it takes things, or does not answer.
	denied time.Time
	// delay is the time until the next probe while the breaker is open.
	delay time.Duration
	// err is why nothing is written, as of the last probe or request; good is when the
	// server last gave a usable answer, and lost is set when that was long ago.
	err  error
	good time.Time
	lost bool
	// asked is when the last probe ended, resumed when all that failed was last tried again.
	asked, resumed time.Time
}

const (
	// breakerFailures in a row open the breaker: many enough that a server which loses
	// every fifth request is not taken for one that is away.
	breakerFailures = 8
	// breakerFirst and breakerMax bound the time between two probes while it is open.
	breakerFirst = 100 * time.Millisecond
	breakerMax   = time.Second
	// breakerStarting is how long a server may take from its first answer to the first
	// that helps, before its refusals are the business of each key. One that has just
	// started denies what it grants a moment later, when it has read its roles: to send
	// it every key meanwhile would cost each of them a backoff, and its order.
	breakerStarting = 2 * time.Second
	// An ingress cluster that does not answer is known as such probeLimit after it last
	// did: by then two probes are under way or have failed.
	probeEvery   = 3 * time.Second
	probeTimeout = 3 * time.Second
	probeLimit   = 8 * time.Second
	// deniedLimit is how long everything may be refused before a write is tried out, to
	// tell a key's trouble from the server's.
	deniedLimit = 2 * time.Second
	// resumeEvery bounds how often all that failed is tried again at once, because something
	// was taken: what is taken here may be denied there. It is as long as a key waits at most.
	resumeEvery = 30 * time.Second
)

func newBreaker(ask func(context.Context, bool) error, turned func(bool), retryNow func() bool, retryAll func(), logger *slog.Logger) *breaker {
	return &breaker{
		ask: ask, turned: turned, retryNow: retryNow, retryAll: retryAll, logger: logger, again: make(chan struct{}, 1), good: time.Now(),
	}
}

// isOpen reports whether keys wait.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// run probes until ctx is done.
func (b *breaker) run(ctx context.Context, heartbeat *metrics.Heartbeat) {
	kube.Probe{Ask: b.probe, Pause: b.pause, Again: b.again, Heartbeat: heartbeat}.Run(ctx)
}

// pause is the time until the next probe.
func (b *breaker) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.open:
		return b.delay
	case b.err != nil || !b.denied.IsZero():
		return max(0, time.Until(b.asked.Add(breakerMax)))
	}
	return probeEvery
}

// probe asks once. While keys wait, its answer does not close the breaker: one of them
// is tried, and what comes of that decides.
func (b *breaker) probe(ctx context.Context) {
	b.mu.Lock()
	doubt := b.lockedDoubt()
	b.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	err := b.ask(asking, doubt)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if b.probed(err, time.Now()) && !b.retryNow() && err == nil {
		b.mu.Lock()
		b.lockedClose()
		b.mu.Unlock()
	}
}

// lockedDoubt is true where there is reason to ask whether writes are taken: all were denied
// for a while. While there is none a probe reads: an idle Tributary sends nothing that a
// server would count as a write, also after an outage.
func (b *breaker) lockedDoubt() bool {
	return !b.denied.IsZero() && time.Since(b.denied) >= deniedLimit
}

// probed takes what a probe ended with, and returns whether a key is to be tried.
func (b *breaker) probed(err error, now time.Time) (try bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = now
	switch {
	case err != nil:
		b.err, b.delay = err, min(2*b.delay, breakerMax)
		// Who answers opens nothing, whatever it denies: who knows what it takes elsewhere.
		if !b.open && !write.Answered(err) && (kube.RefusedConnection(err) || now.Sub(b.good) >= probeLimit) {
			b.lockedOpen()
		}
	case b.tries < 2: // else it answers, but not what writes
		if b.good = now; !b.open {
			b.lockedResume(now)
		}
		b.err = nil
	}
	b.lockedJudge(now)
	return b.open
}

// answer takes what came of a request that writes.
func (b *breaker) answer(err error) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil && !write.Answered(err):
		b.missed++
		b.tries++
		b.denied = time.Time{}
		if b.open {
			b.err, b.delay = err, min(2*b.delay, breakerMax)
		} else if kube.RefusedConnection(err) || b.missed >= breakerFailures {
			b.err = err
			b.lockedOpen()
		}
	case kube.Denied(err):
		b.missed = 0
		if b.denied.IsZero() {
			b.denied = now
			b.lockedAgain()
		}
		starting := breakerStarting
		if kube.Denied(b.err) { // the probe is denied as well
			starting = probeLimit
		}
		if b.open && now.Sub(b.denied) >= starting {
			b.lockedClose()
		}
	default:
		b.good, b.missed, b.denied = now, 0, time.Time{}
		b.lockedResume(now)
		b.err = nil
		b.lockedClose()
	}
}

func (b *breaker) lockedOpen() {
	b.open, b.tries, b.delay = true, 0, breakerFirst
	b.turned(true)
	b.lockedAgain()
}

// lockedClose lets keys be written. That the server denies what it is asked stays known.
func (b *breaker) lockedClose() {
	if b.missed, b.tries = 0, 0; !kube.Denied(b.err) {
		b.err = nil
	}
	b.lockedJudge(time.Now())
	if b.open {
		b.open = false
		b.turned(false)
	}
}

// lockedResume has all that was denied tried again where the server was lost, and something is
// taken.
func (b *breaker) lockedResume(now time.Time) {
	if b.lost && !b.open && now.Sub(b.resumed) >= resumeEvery {
		b.resumed = now
		b.retryAll()
	}
}

// lockedAgain has run look at how long it is until the next probe.
func (b *breaker) lockedAgain() {
	select {
	case b.again <- struct{}{}:
	default:
	}
}

// lockedJudge says so, once, when the ingress cluster is lost or found again.
func (b *breaker) lockedJudge(now time.Time) {
	lost := b.err != nil && (kube.NotAllowed(b.err) || now.Sub(b.good) >= probeLimit)
	if lost == b.lost {
		return
	}
	b.lost = lost
	if lost {
		b.logger.Warn("the ingress cluster gives no usable answer, trying on", "since", b.good.UTC(), "error", b.err)
		return
	}
	b.logger.Info("the ingress cluster answers again")
}

// trouble returns why the ingress cluster counts as lost, or why changes wait; nil if
// neither. It is a matter of time, and not only of news.
func (b *breaker) trouble() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lockedJudge(time.Now())
	if b.lost || b.open {
		return b.err
	}
	return nil
}
