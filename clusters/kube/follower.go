// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/internal/wire"
	"tributary.dev/tributary/syncer"
)

// Convert turns an object in protobuf into what is stored of it, and must not retain its bytes.
// After an error the object counts as not shown. It may be called from two goroutines at once.
type Convert[T any] func(content []byte) (*T, error)

// Versioned is an object as a list or a stream shows it. Without a Key it has only the revision.
type Versioned[T any] struct {
	Object   *T // nil: it is gone, or has left the selectors
	Key      syncer.Key
	UID      string
	Revision uint64
	// Relisted is the Object of an event as the list under way converts it; nil: as in Object.
	Relisted *T
}

// Sink receives what a Follower sees. All calls come from the goroutine in Run, one at a
// time and in order, and block the stream. An object may come twice, so it must not be
// changed.
type Sink[T any] interface {
	// Event is an event of the stream. With it, everything up to its revision has been
	// reported. arrived is when it was read off the wire.
	Event(v Versioned[T], arrived time.Time)
	// Listed is a complete list; what it lacks is missing. Objects that could not be
	// converted are not in it.
	Listed(all []Versioned[T], revision uint64)
	// Following says whether a stream is open, or has just ended after a normal life. If not, err
	// says why; nil: a list is being read, as is the case initially. Nothing follows from it for
	// the data.
	Following(is bool, err error)
	// WentBack says that the cluster's store was restored from a backup: earlier revisions mean
	// nothing any more. A list follows.
	WentBack()
}

// Follower follows one kind of objects: it lists, watches and resumes as its Course says.
type Follower[T any] struct {
	query    Query
	converts func() Convert[T]
	access   *Access
	sink     Sink[T]
	fault    func(error)
	dice     func(time.Duration) time.Duration
	relist   chan struct{}

	// All below belongs to the goroutine in Run, which executes what comes through told.
	ctx    context.Context
	course *Course[T]
	told   chan func()
	tasks  sync.WaitGroup
	// convert converts what the stream shows, listing what the list under way does; nil: none is.
	convert, listing    Convert[T]
	dropList, endStream func()
}

// NewFollower returns a follower of a query; an object that leaves its selectors is gone. converts
// is called when a list begins, by the goroutine in Run, and returns the Convert for the objects of
// that list, and for those of the stream once the list was reported. fault is called with each
// object that could not be decoded or converted, from any goroutine.
func NewFollower[T any](q Query, converts func() Convert[T], access *Access, sink Sink[T], fault func(error)) *Follower[T] {
	return &Follower[T]{query: q, converts: converts, access: access, sink: sink, fault: fault, dice: rand.N[time.Duration],
		relist: make(chan struct{}, 1), told: make(chan func(), streamBuffer), dropList: func() {}}
}

// Relist asks for a complete list beside the running stream. It may be called at any time
// from any goroutine.
func (f *Follower[T]) Relist() {
	select {
	case f.relist <- struct{}{}:
	default:
	}
}

// Run follows until ctx ends, and returns when everything that it started has ended. It is called once.
func (f *Follower[T]) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	f.ctx, f.course = ctx, NewCourse(time.Now(), f.sink, f.dice)
	for timer := time.NewTimer(0); ctx.Err() == nil; {
		next := f.course.Next(time.Now())
		if next.Do != Wait {
			f.do(next)
			continue
		}
		timer.Reset(time.Until(next.Until))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-f.relist:
			f.course.Relist(time.Now())
		case tell := <-f.told:
			tell()
		}
	}
	cancel()
	f.tasks.Wait()
}

// do starts an action.
func (f *Follower[T]) do(next Action) {
	switch next.Do {
	case List:
		f.dropList()
		convert := f.converts()
		f.listing = convert
		f.dropList = f.begin(func(ctx context.Context, tell func(func())) { f.list(ctx, tell, convert) })
	case Watch:
		f.endStream = f.begin(func(ctx context.Context, tell func(func())) { f.watch(ctx, tell, next.Revision) })
	case Cut:
		f.endStream()
		f.access.Current().retire(justProved)
	case Probe:
		f.begin(f.probe)
	}
}

// begin runs a task beside Run. What it passes to tell is executed in Run's goroutine, in order,
// but not once the task was ended.
func (f *Follower[T]) begin(task func(ctx context.Context, tell func(func()))) (end func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	ended := false
	f.tasks.Go(func() {
		defer cancel()
		task(ctx, func(what func()) {
			select {
			case f.told <- func() {
				if !ended {
					what()
				}
			}:
			case <-ctx.Done():
			}
		})
	})
	return func() {
		ended = true
		cancel()
	}
}

// list reads a complete list, over a connection that has just shown the identity of its
// cluster: from what a list lacks follows more than from anything else, and a proxy with
// long-lived connections may have another cluster behind it by now.
func (f *Follower[T]) list(ctx context.Context, tell func(func()), convert Convert[T]) {
	var all []Versioned[T]
	var revision uint64
	s, err := f.access.Get(ctx)
	if err == nil {
		s.retire(justProved)
		revision, err = s.pages(ctx, f.query, func(content []byte) error {
			if v, err := f.read(content, convert); err != nil {
				f.fault(err)
			} else {
				all = append(all, v)
			}
			return nil
		})
	}
	tell(func() {
		f.listing = nil
		if err != nil {
			f.course.ListFailed(time.Now(), err)
			return
		}
		f.convert = convert
		f.course.Listed(time.Now(), all, revision)
	})
}

// watch reads a stream of the changes after a revision.
func (f *Follower[T]) watch(ctx context.Context, tell func(func()), revision uint64) {
	s, err := f.access.Get(ctx)
	if err == nil {
		err = s.watch(ctx, f.query, revision, func(e event) {
			tell(func() {
				if e.kind == opened {
					f.course.Opened(e.arrived)
				} else {
					f.course.Event(f.versioned(e), e.arrived)
				}
			})
		})
	}
	if err != nil {
		err = fmt.Errorf("watch %s: %w", f.query.Resource.Resource, bare(err))
	}
	at := time.Now()
	tell(func() { f.course.Ended(at, err) })
}

// probe asks for the revision of a list.
func (f *Follower[T]) probe(ctx context.Context, tell func(func())) {
	s := f.access.Current()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// Without selectors, for which old servers would search their whole store.
	q := Query{Resource: f.query.Resource, Namespace: f.query.Namespace}
	if _, list, err := s.page(ctx, q, metav1.ListOptions{Limit: 1}, new(bytes.Buffer)); err == nil {
		tell(func() { f.course.Probed(time.Now(), Revision(list.ResourceVersion)) })
	}
}

// versioned converts an event. One that cannot be used is reported as a fault, and only its
// revision remains.
func (f *Follower[T]) versioned(e event) (v Versioned[T]) {
	err := e.err
	switch {
	case err != nil:
	case e.kind == watch.Added || e.kind == watch.Modified:
		if v, err = f.read(e.content, f.convert); err == nil && f.listing != nil {
			v.Relisted, _ = f.listing(e.content)
		}
	default:
		v, err = f.head(e.content)
	}
	if err != nil {
		f.fault(fmt.Errorf("an event of %s: %w", f.query.Resource.Resource, err))
	}
	if err != nil || e.kind == watch.Bookmark {
		v = Versioned[T]{Revision: v.Revision}
	}
	return v
}

// read converts an object.
func (f *Follower[T]) read(content []byte, convert Convert[T]) (v Versioned[T], err error) {
	if v, err = f.head(content); err != nil {
		return v, err
	}
	if v.Object, err = convert(content); err != nil {
		err = fmt.Errorf("%s %s: %w", f.query.Resource.Resource, v.Key, err)
	}
	return v, err
}

// head reads what is the same for all kinds of objects, from the metadata.
func (f *Follower[T]) head(content []byte) (v Versioned[T], err error) {
	var version string
	err = wire.Walk(content, func(at wire.Path, _ uint64, value []byte) bool {
		switch at {
		case 0x0101:
			v.Key.Name = string(value)
		case 0x0103:
			v.Key.Namespace = string(value)
		case 0x0105:
			v.UID = string(value)
		case 0x0106:
			version = string(value)
		}
		return at == 0x01
	})
	if err == nil {
		if v.Revision = Revision(version); v.Revision != 0 {
			return v, nil
		}
		err = fmt.Errorf("the resourceVersion %.32q of %s is no number", version, v.Key)
	}
	return v, fmt.Errorf("%w: one of %s: %w", ErrUndecodable, f.query.Resource.Resource, err)
}
