// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"tributary.dev/tributary/reconcile/write"
)

// errStandby is why a plan is not carried out: another process writes. The replica is
// looked at again, and is as it should be once that one has written.
var errStandby = errors.New("this process stands by")

// Lead writes until ctx is done. It lets the requests in flight end then, for
// Options.Grace at most, and returns when nothing is written any more. Follow must run
// meanwhile. It may be called again.
//
// While it does not run the queue takes the ingress cluster for away: every key is
// compared, and those that differ wait in the lanes of their differences.
func (r *Reconciler) Lead(ctx context.Context) {
	if r.WaitForSync(ctx) != nil {
		return
	}
	if r.opts.Leading != nil {
		r.opts.Leading()
	}
	r.leadership.begin(r.queue.SetAway)
	r.rivals.begin(time.Now())
	r.events.run(ctx)
	<-ctx.Done()
	r.rivals.end()
	r.leadership.end(r.opts.Grace, r.queue.SetAway)
}

// retryNow lets one key be tried, to find out whether the ingress cluster takes it.
func (r *Reconciler) retryNow() (any bool) {
	return r.leadership.leads() && r.queue.RetryNow()
}

// leadership is the right to write, and who is making use of it. All methods are safe
// for concurrent use.
type leadership struct {
	mu sync.Mutex
	// writing is the context of requests, nil while there is no right to any. It is
	// ended by stop; refuse ends that in which more of them may be begun.
	writing context.Context
	stop    context.CancelFunc
	refuse  context.CancelFunc
	// broken is whether the ingress cluster takes no writes.
	broken bool
	// writers counts the passes that are writing; idle is closed when, after the end, none
	// is left.
	writers int
	idle    chan struct{}
}

func (l *leadership) begin(setAway func(bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var accepting, writing context.Context
	writing, l.stop = context.WithCancel(context.Background())
	accepting, l.refuse = context.WithCancel(writing)
	l.writing = write.WhileAccepting(writing, accepting)
	setAway(l.broken)
}

// leads reports whether there is the right to write.
func (l *leadership) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writing != nil
}

// setBroken notes whether the ingress cluster takes writes.
func (l *leadership) setBroken(broken bool, setAway func(bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
	setAway(broken || l.writing == nil)
}

// write returns the context to write with and what is to be called afterwards, or false.
func (l *leadership) write() (ctx context.Context, done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing == nil {
		return nil, nil, false
	}
	l.writers++
	return l.writing, l.done, true
}

func (l *leadership) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writers--; l.writers == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// end takes the right away and waits for those who are writing; after the grace their
// requests are given up.
func (l *leadership) end(grace time.Duration, setAway func(bool)) {
	l.mu.Lock()
	stop := l.stop
	l.refuse()
	l.writing = nil
	setAway(true)
	idle := make(chan struct{})
	if l.writers == 0 {
		close(idle)
	} else {
		l.idle = idle
	}
	l.mu.Unlock()
	timer := time.AfterFunc(grace, stop)
	<-idle
	timer.Stop()
	stop()
}
