// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tributary.dev/tributary/syncer"
)

// readsInFlight is how many reads of one cluster are under way at once: 200 objects are
// asked for within a second and 5,000 within half a minute at 100 ms a read, and an API
// server gives a client of ordinary priority ten times as many seats.
const readsInFlight = 20

// Reading is a question for one object.
type Reading struct {
	Resource Resource
	Key      syncer.Key
	// Answered is told the outcome once, unless Run ends first. It is called from any
	// goroutine, several at a time.
	Answered func(object runtime.Object, outcome Outcome, err error)
}

// Reader reads objects one by one, several at a time. Ask may be called at any time from
// any goroutine.
type Reader struct {
	// session returns what to read through, held for the reader; nil when there is none.
	session func() *Session
	wake    chan struct{}

	mu    sync.Mutex
	queue []Reading
	// refused is since when all reads of a resource in a namespace are.
	refused map[place]time.Time
}

// place is where a right may be missing.
type place struct {
	resource  schema.GroupVersionResource
	namespace string
}

// refusedFor is how long reads are refused before the right to them counts as missing: a
// server that has just started refuses everything for a moment.
const refusedFor = 3 * time.Second

// NewReader returns a reader. session returns what to read through, held for the reader,
// which releases it; nil: reads fail.
func NewReader(session func() *Session) *Reader {
	return &Reader{session: session, wake: make(chan struct{}, 1), refused: map[place]time.Time{}}
}

// Ask queues questions; they are asked in order.
func (r *Reader) Ask(readings ...Reading) {
	r.mu.Lock()
	r.queue = append(r.queue, readings...)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run reads until ctx ends. It returns when every read has.
func (r *Reader) Run(ctx context.Context) {
	var reads, answers errgroup.Group
	reads.SetLimit(readsInFlight)
	defer func() { _ = answers.Wait() }()
	defer func() { _ = reads.Wait() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		for reading, ok := r.next(); ok && ctx.Err() == nil; reading, ok = r.next() {
			reads.Go(func() error {
				a := r.read(ctx, reading)
				answers.Go(func() error { // the next object may be read meanwhile
					r.handOn(ctx, reading, a)
					return nil
				})
				return nil
			})
		}
	}
}

func (r *Reader) next() (Reading, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.queue = nil
		return Reading{}, false
	}
	next := r.queue[0]
	r.queue = r.queue[1:]
	return next, true
}

// reply is what came of a question. session is held; nil when there was none.
type reply struct {
	session *Session
	object  runtime.Object
	outcome Outcome
	err     error
}

// read asks, and asks once more when the server says that it is busy, after what it
// wants waited.
func (r *Reader) read(ctx context.Context, reading Reading) reply {
	a := r.once(ctx, reading)
	if wait := RetryAfter(a.err); a.outcome == Failed && wait > 0 && pause(ctx, min(wait, readTimeout)) {
		a.release()
		a = r.once(ctx, reading)
	}
	return a
}

func (r *Reader) once(ctx context.Context, reading Reading) (a reply) {
	if a.session = r.session(); a.session == nil {
		a.err = errNoSession
		return a
	}
	a.object, a.outcome, a.err = a.session.Read(ctx, reading.Resource, reading.Key)
	return a
}

// handOn hands on what was answered, unless it may be another cluster's, or refused for the
// moment alone.
func (r *Reader) handOn(ctx context.Context, reading Reading, a reply) {
	defer a.release()
	if a.outcome == There || a.outcome == Gone {
		if err := a.session.Confirm(ctx); err != nil {
			a.object, a.outcome, a.err = nil, Failed, err
		}
	}
	if r.mayStillBeAllowed(reading, a.outcome) {
		a.outcome = Failed
	}
	if ctx.Err() == nil {
		reading.Answered(a.object, a.outcome, a.err)
	}
}

// mayStillBeAllowed reports whether a read was refused, and others of its place were not
// long enough.
func (r *Reader) mayStillBeAllowed(reading Reading, outcome Outcome) bool {
	at := place{reading.Resource.GroupVersionResource, reading.Key.Namespace}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch outcome {
	case There, Gone:
		delete(r.refused, at)
	case Refused:
		if _, known := r.refused[at]; !known {
			r.refused[at] = time.Now()
		}
		return time.Since(r.refused[at]) < refusedFor
	case Failed:
	}
	return false
}

func (a reply) release() {
	if a.session != nil {
		a.session.Release()
	}
}
