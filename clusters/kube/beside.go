// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/syncer"
)

// beside is a list that is read beside the running stream. It is kept level by a watch of its
// own, as any follower's sink is, until it is not older than the stream; then it takes the
// place of what was told.
type beside[T any] struct {
	cancel context.CancelFunc
	ended  chan struct{}
	news   chan struct{} // there is something to look at

	mu       sync.Mutex
	all      map[syncer.Key]Versioned[T]
	revision uint64 // up to where it shows everything; 0: it is not complete
}

// listBeside begins to list beside the stream.
func (f *Follower[T]) listBeside() {
	ctx, cancel := context.WithCancel(f.ctx)
	b := &beside[T]{cancel: cancel, ended: make(chan struct{}), news: make(chan struct{}, 1)}
	f.beside = b
	reader := newFollower[T](f.kind, f.access, b, f.fault)
	f.children.Go(func() {
		defer close(b.ended)
		reader.run(ctx)
	})
}

// leaveBeside ends the list beside the stream, if there is one.
func (f *Follower[T]) leaveBeside() {
	if b := f.beside; b != nil {
		f.beside = nil
		b.cancel()
		<-b.ended
	}
}

// looked brings that there is something to look at. A nil *beside has nothing.
func (b *beside[T]) looked() <-chan struct{} {
	if b == nil {
		return nil
	}
	return b.news
}

// level tells the list beside the stream once it is not older than the stream. What the
// stream brings later of the same has been told then.
func (f *Follower[T]) level() {
	b := f.beside
	if b == nil {
		return
	}
	b.mu.Lock()
	all, revision := b.all, b.revision
	level := revision != 0 && revision >= f.revision.Load()
	if level {
		b.all, b.revision = nil, 0
	}
	b.mu.Unlock()
	if level {
		f.leaveBeside()
		f.tell(slices.Collect(maps.Values(all)), revision)
	}
}

// take edits the list.
func (b *beside[T]) take(revision uint64, edit func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all != nil {
		edit()
		b.revision = revision
	}
	signal(b.news)
}

func (b *beside[T]) seen(v Versioned[T], _ time.Time) {
	b.take(v.Revision, func() { b.all[v.Key] = v })
}

// Gone implements Sink.
func (b *beside[T]) Gone(key syncer.Key, _ string, revision uint64, _ time.Time) {
	b.take(revision, func() { delete(b.all, key) })
}

// At implements Sink.
func (b *beside[T]) At(revision uint64) { b.take(revision, func() {}) }

// Listed implements Sink.
func (b *beside[T]) Listed(all []Versioned[T], revision uint64) {
	listed := make(map[syncer.Key]Versioned[T], len(all))
	for _, v := range all {
		listed[v.Key] = v
	}
	b.mu.Lock()
	b.all = listed
	b.mu.Unlock()
	b.At(revision)
}

// Phase implements Sink: what keeps the list from being read keeps the stream, too.
func (b *beside[T]) Phase(Phase, error) {}

// WentBack implements Sink: the probe finds it as well.
func (b *beside[T]) WentBack() {}
