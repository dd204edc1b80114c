// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/syncer"
)

// Kind is what a Follower follows.
type Kind[T any] struct {
	// Resource is what is listed and watched.
	Resource Resource
	// Namespace restricts to one namespace; empty for all.
	Namespace string
	// Labels and Fields are selectors; empty for all. An object that leaves them is Gone.
	Labels, Fields string
	// Convert turns a decoded object into what is kept of it, and must not keep a reference
	// to it. Nil without an error: the object counts as gone, as a pod does that has
	// finished. After an error it is as if the object had not been shown. It may be called
	// from two goroutines at once.
	Convert func(runtime.Object) (*T, error)
}

// Versioned is an object as a list shows it.
type Versioned[T any] struct {
	// Object is nil where the object is there and counts as gone.
	Object   *T
	Key      syncer.Key
	UID      string
	Revision uint64
}

// Sink is told what a Follower sees. All calls come from the goroutine in Run, one at a
// time and in order, and hold up the stream while they last.
type Sink[T any] interface {
	// Seen is an object that was added or modified. arrived is when its event had been read
	// off the wire.
	Seen(o *T, revision uint64, arrived time.Time)
	// Gone is an object that was deleted, has left the selectors, or counts as gone.
	Gone(key syncer.Key, uid string, revision uint64, arrived time.Time)
	// Listed is a complete list; what it lacks is missing. Objects that could not be
	// converted are not in it.
	Listed(all []Versioned[T], revision uint64)
	// At says that everything up to a revision has been told.
	At(revision uint64)
	// Phase says how the following gets on; err says why not for Failing and Refused.
	Phase(phase Phase, err error)
	// WentBack says that the cluster's store was restored from a backup: revisions that were
	// told before mean nothing any more. A list follows.
	WentBack()
}

// Phase is how a Follower gets on. Whatever it is, nothing follows from it for the data.
type Phase uint8

// The phases.
const (
	// Listing: a list is being read, and no stream is open. Who has not been told a phase is
	// to take it for this one.
	Listing Phase = iota
	// Following: a stream is open, or has just ended in order.
	Following
	// Failing: the cluster cannot be reached, answers with errors, or is another one.
	Failing
	// Refused: the cluster answers 401 or 403.
	Refused
)

// The times of a follower. They are constants, not settings: each follows from what an API
// server does or from a promise of the product.
const (
	// retryBase and retryLimit bound the wait after an error.
	retryBase  = 200 * time.Millisecond
	retryLimit = 5 * time.Second
	// healthyAfter is how long a stream must have lived for its end to count as normal.
	healthyAfter = 500 * time.Millisecond
	// relistEvery is how often each kind is listed anew, at an hour of its own.
	relistEvery = 24 * time.Hour
)

// Follower follows one kind of objects: it lists, watches, and resumes.
type Follower[T any] struct {
	kind   Kind[T]
	access *Access
	sink   ear[T]
	fault  func(error)
	relist chan struct{} // a list beside the stream is wanted
	back   chan struct{} // the probe has found that the store went back
	hour   time.Duration // until the first daily list

	// revision is up to where everything has been told; 0: nothing has, or what was told is
	// forgotten.
	revision atomic.Uint64

	// The rest belongs to the goroutine in Run.

	children sync.WaitGroup
	ctx      context.Context // of Run
	listed   bool            // a stream may resume at the revision
	floor    uint64          // what is not newer has been told by a list
	delay    time.Duration   // between attempts that fail
	phase    Phase           // as told
	beside   *beside[T]      // the list that is read beside the stream; nil: none
}

// ear is what a follower tells: a Sink, or the list beside its stream.
type ear[T any] interface {
	seen(v Versioned[T], arrived time.Time)
	Gone(key syncer.Key, uid string, revision uint64, arrived time.Time)
	Listed(all []Versioned[T], revision uint64)
	At(revision uint64)
	Phase(phase Phase, err error)
	WentBack()
}

type outside[T any] struct{ Sink[T] }

func (o outside[T]) seen(v Versioned[T], arrived time.Time) { o.Seen(v.Object, v.Revision, arrived) }

// NewFollower returns a follower. fault is told of each object that the cluster sent and
// that could not be decoded or converted, from any goroutine; nil is told nothing.
func NewFollower[T any](kind Kind[T], access *Access, sink Sink[T], fault func(error)) *Follower[T] {
	if fault == nil {
		fault = func(error) {}
	}
	return newFollower(kind, access, ear[T](outside[T]{sink}), fault)
}

func newFollower[T any](kind Kind[T], access *Access, sink ear[T], fault func(error)) *Follower[T] {
	return &Follower[T]{
		kind: kind, access: access, sink: sink, fault: fault,
		relist: make(chan struct{}, 1), back: make(chan struct{}, 1),
		hour: rand.N(relistEvery),
	}
}

// Relist asks for a complete list beside the running stream. It may be called at any time
// from any goroutine.
func (f *Follower[T]) Relist() { signal(f.relist) }

// Run follows until ctx ends, and returns when everything that it started has ended.
func (f *Follower[T]) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer f.children.Wait()
	defer cancel()
	f.children.Go(func() { f.probe(ctx) })
	f.children.Go(func() { f.daily(ctx) })
	f.run(ctx)
}

func (f *Follower[T]) run(ctx context.Context) {
	f.ctx = ctx
	defer f.leaveBeside()
	for ctx.Err() == nil {
		swapped := f.access.swapped()
		err := f.once(ctx)
		if err == nil || ctx.Err() != nil || taken(swapped) {
			continue
		}
		if NotAllowed(err) {
			f.say(Refused, err)
		} else {
			f.say(Failing, err)
		}
		f.wait(max(longer(&f.delay, retryLimit), RetryAfter(err)), swapped)
	}
}

// once lists, or follows until a stream ends.
func (f *Follower[T]) once(ctx context.Context) error {
	s, err := f.access.Get(ctx)
	switch {
	case err != nil:
		return err
	case !f.listed:
		return f.list(ctx, s)
	default:
		return f.follow(ctx, s)
	}
}

// wait waits for d, or until the session is exchanged.
func (f *Follower[T]) wait(d time.Duration, swapped <-chan struct{}) {
	select {
	case <-f.ctx.Done():
	case <-swapped:
	case <-time.After(d):
	}
}

// longer doubles a delay up to a limit. Half of what it returns is random, so that the retries
// of many clusters do not come back in step.
func longer(delay *time.Duration, limit time.Duration) time.Duration {
	*delay = min(max(2**delay, retryBase), limit)
	return *delay/2 + rand.N(*delay/2)
}

// say tells a phase if it is news. That what fails begins anew with a list is none.
func (f *Follower[T]) say(phase Phase, err error) {
	if err == nil && (phase == f.phase || phase == Listing && f.phase != Following) {
		return
	}
	f.phase = phase
	f.sink.Phase(phase, err)
}

// daily asks for a list once a day.
func (f *Follower[T]) daily(ctx context.Context) {
	for wait := f.hour; pause(ctx, wait); wait = relistEvery {
		f.Relist()
	}
}

func (f *Follower[T]) query() query {
	return query{resource: f.kind.Resource, namespace: f.kind.Namespace, labels: f.kind.Labels, fields: f.kind.Fields}
}

// list reads a complete list while no stream is open, and tells it.
func (f *Follower[T]) list(ctx context.Context, s *Session) error {
	f.say(Listing, nil)
	f.leaveBeside()
	taken(f.relist) // this list answers it
	sent := f.revision.Load()
	all, revision, err := f.pages(ctx, s)
	if err != nil {
		return err
	}
	if taken(f.back) || revision < sent {
		f.sink.WentBack()
	}
	f.tell(all, revision)
	f.listed = true
	return nil
}

// tell hands on a complete list.
func (f *Follower[T]) tell(all []Versioned[T], revision uint64) {
	f.sink.Listed(all, revision)
	f.floor = revision
	f.revision.Store(revision)
}

// wentBack forgets all revisions.
func (f *Follower[T]) wentBack() {
	f.sink.WentBack()
	f.leaveBeside()
	f.listed, f.floor = false, 0
	f.revision.Store(0)
}

// pages reads a complete list, over a connection that has just shown the identity of its
// cluster: from what a list lacks follows more than from anything else, and a proxy that
// keeps its connections may have another cluster behind it by now.
func (f *Follower[T]) pages(ctx context.Context, s *Session) (all []Versioned[T], revision uint64, err error) {
	s.pool.renew(justProved)
	revision, err = s.pages(ctx, f.query(), func(object runtime.Object) {
		if v, ok := f.convert(object); ok {
			all = append(all, v)
		}
	}, func() { all = nil })
	if err != nil {
		return nil, 0, fmt.Errorf("list %s: %w", f.kind.Resource.Resource, err)
	}
	return all, revision, nil
}

// convert takes what is kept of an object; false: it cannot be used, and is reported.
func (f *Follower[T]) convert(object runtime.Object) (Versioned[T], bool) {
	v, err := f.head(object)
	if err == nil {
		v.Object, err = f.kind.Convert(object)
	}
	if err != nil {
		f.fault(fmt.Errorf("%s %s: %w", f.kind.Resource.Resource, v.Key, err))
	}
	return v, err == nil
}

// head takes of an object what is the same for all kinds.
func (f *Follower[T]) head(object runtime.Object) (v Versioned[T], err error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return v, fmt.Errorf("%w: a %T is no object", ErrUndecodable, object)
	}
	v.Key, v.UID = syncer.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, string(m.GetUID())
	if v.Revision = number(m.GetResourceVersion()); v.Revision == 0 {
		return v, fmt.Errorf("%w: its resourceVersion %.32q is no number", ErrUndecodable, m.GetResourceVersion())
	}
	return v, nil
}

// signal sends to a channel with room for one, unless there is one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// taken reports whether there was a signal, and takes it.
func taken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const (
	// probeEvery is how often a follower asks whether the store went back, and probeTimeout
	// bounds one question.
	probeEvery   = 10 * time.Second
	probeTimeout = 5 * time.Second
)

// probe asks now and then for the revision of a list. Lists are never older than the store,
// so one below what the stream had shown when the list was asked for, or the list before it,
// tells that the store was restored from a backup; the stream would stay silent until the
// revisions have caught up (kubernetes#107457).
func (f *Follower[T]) probe(ctx context.Context) {
	before := uint64(0) // what the last list was at: a stream without events lags behind it
	for wait := rand.N(probeEvery); ; wait = probeEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		sent := f.revision.Load()
		s := f.access.Current()
		if s == nil || sent == 0 {
			continue
		}
		// Without selectors, for which old servers would search their whole store.
		q := query{resource: f.kind.Resource, namespace: f.kind.Namespace}
		ask, cancel := context.WithTimeout(ctx, probeTimeout)
		_, revision, err := s.page(ask, q, metav1.ListOptions{Limit: 1})
		cancel()
		if err != nil {
			continue
		}
		if revision < max(sent, before) && f.revision.Load() >= sent {
			signal(f.back)
		}
		before = revision
	}
}
