// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/syncer"
)

// Config says what a Loop follows. Kind, Convert, Key and Handler must be set;
// every other zero value stands for the default given.
type Config[T any] struct {
	// Kind names the objects in logs and metrics, such as "Pod".
	Kind string
	// Convert turns a decoded object into what is kept of it; ok is false for an
	// object of another type, which is then ignored.
	Convert func(runtime.Object) (item T, ok bool)
	// Key identifies an item.
	Key func(*T) syncer.Key
	// Version is an item's revision as a number, 0 when it is none; nil where nobody
	// asks for Marks.
	Version func(*T) uint64
	// Handler is told what happens.
	Handler Handler[T]
	// Options are merged into every list and watch: selectors.
	Options metav1.ListOptions
	// PageSize is the limit of one page (default 500).
	PageSize int64
	// MaxObjects fails lists that are longer than it says at the time; nil or 0 is no
	// bound. It is called for each object and from any goroutine.
	MaxObjects func() int
	// RefusedRetry is how long to wait at least after a refusal (401, 403), at this time;
	// nil or 0: as after any other error.
	RefusedRetry func() time.Duration
	// Observer counts; nil counts nothing.
	Observer Observer
	// Logger is used sparingly: states belong to the handler. Nil logs nothing.
	Logger *slog.Logger
}

// The times of a loop. They are constants, not settings: each follows from what
// an API server does or from a promise of the product.
const (
	// retryBase and retryLimit bound the wait after an error.
	retryBase  = 200 * time.Millisecond
	retryLimit = 5 * time.Second
	// briefLimit bounds the wait after streams that were accepted and ended at once, in
	// order: the server is there, and each stream brings what has happened since.
	briefLimit = time.Second
	// healthyAfter is how long an eventless stream must have lived for its end to
	// count as normal.
	healthyAfter = 500 * time.Millisecond
	// openTimeout bounds the wait for a server to accept a watch.
	openTimeout = 15 * time.Second
	// pageTimeout bounds one page of a list; API servers give up after 60 s.
	pageTimeout = 60 * time.Second
	// initialIdle is how long a streaming list may pause before it is given up.
	initialIdle = 10 * time.Second
	// watchSeconds is the least watch timeout asked for; up to as much again is
	// added at random.
	watchSeconds = 300
	// undecodableLimit is how many streams in a row may break on the same revision
	// before a list steps over it.
	undecodableLimit = 3
	// Lists that follow each other within listQuiet are delayed: see pacer.
	listQuiet = time.Minute
	listShare = 4
)

// Loop follows one kind of object until its context ends. Run is called once;
// SetListWatcher, Relist, Rewind, WentBack and RetryNow may be called at any time from
// any goroutine, also before Run.
type Loop[T any] struct {
	cfg Config[T]
	// wake is sent to (without blocking) when something below mu has changed.
	wake chan struct{}
	seen atomic.Uint64 // the newest of at, for Revision

	watermarks Watermarks
	pace       pacer

	mu                sync.Mutex
	checks            checks
	source            ListWatcher
	generation        int                // counts SetListWatcher
	former            []former           // sources that may still be in use
	ended             bool               // Run has returned
	rewind            bool               // the revision is to be forgotten
	back              bool               // because the server went back in time
	retries           int                // counts RetryNow
	requested         bool               // a relist was asked for
	undecodableLogged bool               // something undecodable has been logged
	abort             context.CancelFunc // cancels the list or open in progress; nil when none
	patience          patience

	// The rest belongs to the goroutine in Run.

	children    sync.WaitGroup
	due         Reason // why a list must come before the next stream; "" when none must
	at          positions
	listed      map[string]bool // scopes that some list has shown
	retry       Backoff
	brief       Backoff
	broken      int  // streams in a row that broke on something unreadable
	doubted     bool // the last stream was frozen, and the next one has shown no life yet
	noStream    int  // generation of the source whose streaming list failed; 0 when none
	seenRetries int
	outRetry    Backoff       // of lists that leave something out
	outWait     time.Duration // before what is left out is asked for again
	unopened    bool          // no stream could be opened last
	breaks      string        // the scope that broke the last stream at once; "" when none did
	stream      Stream        // left open by a streaming list
	streamGen   int           // generation of its source
}

// New returns a loop that reads from source.
func New[T any](cfg Config[T], source ListWatcher) *Loop[T] {
	if cfg.PageSize == 0 {
		cfg.PageSize = 500
	}
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Loop[T]{
		cfg: cfg, source: source, generation: 1, due: FirstFill, listed: map[string]bool{},
		wake:  make(chan struct{}, 1),
		retry: NewBackoff(retryBase, retryLimit),
		brief: NewBackoff(retryBase, briefLimit),
		pace:  pacer{backoff: NewBackoff(retryBase, retryLimit)},

		outRetry: NewBackoff(scopeRetry, scopeRetryLimit),
		patience: patience{slow: map[string]bool{}},
	}
}

// Relist asks for a complete list. While it is read the stream goes on, and what
// the stream brings meanwhile wins over the list.
func (l *Loop[T]) Relist() {
	l.mu.Lock()
	l.requested = true
	l.mu.Unlock()
	l.signal()
}

// Rewind forgets the revision, leaves the stream and lists anew: for a server that
// shows more or less than before.
func (l *Loop[T]) Rewind() { l.again(false) }

// WentBack does the same for a server that went back in time, whose watch would stay
// silent until its revisions have caught up. The list counts as older than what was
// seen, whatever its revision.
func (l *Loop[T]) WentBack() { l.again(true) }

func (l *Loop[T]) again(back bool) {
	l.mu.Lock()
	l.rewind = true
	l.back = l.back || back
	l.mu.Unlock()
	l.signal()
}

// Revision is the revision up to which the loop has seen everything, as a number;
// 0 when it is none or nothing was listed yet.
func (l *Loop[T]) Revision() uint64 { return l.seen.Load() }

// RetryNow ends a wait after an error, and makes further waits short again: something
// else has just reached the server.
func (l *Loop[T]) RetryNow() {
	l.mu.Lock()
	l.retries++
	l.mu.Unlock()
	l.signal()
}

func (l *Loop[T]) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run follows until ctx ends. It returns when everything it started has ended.
func (l *Loop[T]) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer l.children.Wait()
	defer cancel()
	for ctx.Err() == nil {
		if l.take(&l.rewind) {
			l.due = cmp.Or(l.due, Rewound)
		}
		if l.due != "" {
			l.relist(ctx)
		} else {
			l.follow(ctx)
		}
	}
	l.leaveStream()
	l.end()
}

// leaveStream stops the stream that a streaming list left open, if any.
func (l *Loop[T]) leaveStream() {
	if l.stream != nil {
		l.stream.Stop()
		l.stream = nil
	}
}

// take returns whether something was asked for, and forgets it.
func (l *Loop[T]) take(asked *bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := *asked
	*asked = false
	return was
}

// keepBack keeps for the next list that the server went back in time.
func (l *Loop[T]) keepBack(back bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = l.back || back
}

// failed tells the handler about err and waits before the next attempt.
func (l *Loop[T]) failed(ctx context.Context, err error, generation int) {
	if ctx.Err() != nil {
		return
	}
	if _, now := l.current(); now != generation {
		l.retry.Reset() // the source was exchanged: what failed is gone
		return
	}
	phase, delay := Waiting, l.retry.Next()
	if NotAllowed(err) {
		phase = Forbidden
		if l.cfg.RefusedRetry != nil {
			delay = max(delay, l.cfg.RefusedRetry())
		}
	}
	l.cfg.Handler.Changed(State{Phase: phase, Err: err})
	asked := RetryAfter(err)
	l.sleep(ctx, max(delay, asked), asked == 0) // what a server asks for is not cut short
}

// sleep waits for d, or until the source is exchanged, or, when it may be
// retriedNow, until RetryNow.
func (l *Loop[T]) sleep(ctx context.Context, d time.Duration, cuttable bool) {
	if d <= 0 {
		return
	}
	over := time.After(d)
	_, generation := l.current()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-l.wake:
			_, now := l.current()
			retriedNow := l.retriedNow() && cuttable
			if retriedNow {
				l.retry.Reset()
			}
			if retriedNow || now != generation {
				return
			}
		}
	}
}

// retriedNow reports whether RetryNow was called since the last look.
func (l *Loop[T]) retriedNow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	retriedNow := l.retries != l.seenRetries
	l.seenRetries = l.retries
	return retriedNow
}

// watchOptions are the options of a watch.
func (l *Loop[T]) watchOptions() metav1.ListOptions {
	opts := l.cfg.Options
	opts.AllowWatchBookmarks = true
	opts.TimeoutSeconds = new(watchSeconds + rand.Int64N(watchSeconds))
	return opts
}

// noteUndecodable notes something that could not be used. It is logged once: a server
// that sends one such thing sends thousands.
func (l *Loop[T]) noteUndecodable(what string, err error) {
	l.cfg.Observer.Undecodable(l.cfg.Kind)
	l.mu.Lock()
	said := l.undecodableLogged
	l.undecodableLogged = true
	l.mu.Unlock()
	if said {
		return
	}
	l.cfg.Logger.Warn("cluster sent something that cannot be used; further cases are only counted",
		"kind", l.cfg.Kind, "what", what, "error", err)
}
