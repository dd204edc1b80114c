// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/next/syncer"
)

// beside is a list that is read beside the running stream. When it has been read, a watch
// of its own brings it level with the stream; then it takes the place of what was told.
type beside[T any] struct {
	sent   uint64 // the stream's revision when it was begun
	cancel context.CancelFunc
	result chan besideList[T] // nil when it has been read

	all      []Versioned[T] // zero where an object has gone since
	places   map[syncer.Key]int
	revision uint64
	stream   *stream
}

// besideList is what has been read; stream is open where err is nil.
type besideList[T any] struct {
	all      []Versioned[T]
	revision uint64
	stream   *stream
	err      error
}

// done brings what has been read. A nil *beside reads nothing.
func (b *beside[T]) done() <-chan besideList[T] {
	if b == nil {
		return nil
	}
	return b.result
}

// events are those of the list's own watch.
func (b *beside[T]) events() <-chan event {
	if b == nil || b.stream == nil {
		return nil
	}
	return b.stream.events
}

// listBeside begins to list beside the stream.
func (f *Follower[T]) listBeside(s *Session) {
	ctx, cancel := context.WithCancel(f.ctx)
	result := make(chan besideList[T], 1)
	f.beside = &beside[T]{sent: f.revision.Load(), cancel: cancel, result: result}
	f.children.Go(func() {
		var r besideList[T]
		if r.all, r.revision, r.err = f.pages(ctx, s); r.err == nil {
			r.stream, r.err = s.watch(ctx, f.query(), r.revision)
		}
		result <- r
	})
}

// leaveBeside ends the list beside the stream, if there is one.
func (f *Follower[T]) leaveBeside() {
	b := f.beside
	if b == nil {
		return
	}
	f.beside = nil
	b.cancel()
	if b.result != nil {
		b.stream = (<-b.result).stream
	}
	if b.stream != nil {
		b.stream.stop()
	}
}

// besideFailed leaves the list and begins it again later.
func (f *Follower[T]) besideFailed(err error) {
	f.leaveBeside()
	delay := max(retryLimit, RetryAfter(err))
	f.children.Go(func() {
		if pause(f.ctx, delay) {
			f.Relist()
		}
	})
}

// besideListed takes what has been read.
func (f *Follower[T]) besideListed(r besideList[T]) {
	b := f.beside
	b.result, b.all, b.revision, b.stream = nil, r.all, r.revision, r.stream
	switch {
	case r.err != nil:
		f.besideFailed(r.err)
	case r.revision < b.sent:
		f.wentBack()
	default:
		b.places = make(map[syncer.Key]int, len(b.all))
		for i, v := range b.all {
			b.places[v.Key] = i
		}
	}
}

// besideEvent carries an event over into the list.
func (f *Follower[T]) besideEvent(e event, open bool) {
	b := f.beside
	switch {
	case !open:
		f.besideFailed(b.stream.err)
		return
	case e.kind == watch.Error:
		f.besideFailed(apierrors.FromObject(e.object))
		return
	case e.err != nil: // the stream reports it as well
		return
	}
	v, err := f.head(e.object)
	if err != nil {
		return
	}
	b.revision = max(b.revision, v.Revision)
	place, known := b.places[v.Key]
	switch e.kind {
	case watch.Added, watch.Modified:
		v, ok := f.convert(e.object)
		switch {
		case !ok:
		case known:
			b.all[place] = v
		default:
			b.places[v.Key] = len(b.all)
			b.all = append(b.all, v)
		}
	case watch.Deleted:
		if known {
			b.all[place] = Versioned[T]{}
			delete(b.places, v.Key)
		}
	}
}

// level tells the list beside the stream once it is not older than the stream. What the
// stream brings later of the same, it has told.
func (f *Follower[T]) level() {
	b := f.beside
	if b == nil || b.stream == nil || b.revision < f.revision.Load() {
		return
	}
	f.tell(slices.DeleteFunc(b.all, func(v Versioned[T]) bool { return v.Revision == 0 }), b.revision)
	f.leaveBeside()
}

const (
	// probeEvery is how often a follower asks whether the store went back, and probeTimeout
	// bounds one question.
	probeEvery   = 10 * time.Second
	probeTimeout = 5 * time.Second
)

// probe asks now and then for the revision of a list. Lists are never older than the store,
// so one below what the stream had shown when the list was asked for tells that the store
// was restored from a backup; the stream would stay silent until the revisions have caught
// up (kubernetes#107457).
func (f *Follower[T]) probe(ctx context.Context) {
	for first := rand.N(probeEvery); ; first = probeEvery {
		select {
		case <-ctx.Done():
			return
		case <-f.hurry:
		case <-time.After(first):
		}
		sent := f.revision.Load()
		s := f.access.Current()
		if s == nil || sent == 0 {
			continue
		}
		// Without selectors, for which old servers would search their whole store.
		q := query{Resource: f.kind.Resource, namespace: f.kind.Namespace}
		ask, cancel := context.WithTimeout(ctx, probeTimeout)
		_, revision, err := s.page(ask, q, metav1.ListOptions{Limit: 1})
		cancel()
		if err == nil && revision < sent && f.revision.Load() >= sent {
			signal(f.back)
		}
	}
}
