// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"time"

	"tributary.dev/tributary/syncer"
)

// concurrentList is a list that is read while the stream goes on. A list of a large
// cluster takes seconds, and a removal must not wait for it; so events are
// handed on as ever, and noted here to be laid over the list, which may show an
// earlier moment.
type concurrentList[T any] struct {
	result chan fetched[T]
	seen   uint64 // the revision that had been seen when the list was begun
	noted  map[syncer.Key]note[T]
}

// note is the last event of a key since the list was begun.
type note[T any] struct {
	item    T
	number  uint64
	deleted bool
}

// listConcurrently begins a list. It is repeated until it succeeds, is found too long, or
// ctx ends; in each case something is sent.
func (l *Loop[T]) listConcurrently(ctx context.Context) *concurrentList[T] {
	b := &concurrentList[T]{result: make(chan fetched[T], 1), seen: l.at.newest(), noted: make(map[syncer.Key]note[T])}
	delay := l.pace.wait(time.Now())
	l.children.Go(func() {
		retry := NewBackoff(retryBase, retryLimit)
		for pause(ctx, delay) {
			source, _ := l.current()
			f := l.fetch(ctx, source, false)
			l.listDone(f)
			if f.err == nil || errors.Is(f.err, ErrTooManyObjects) {
				b.result <- f
				return
			}
			l.cfg.Logger.Debug("relist failed", "kind", l.cfg.Kind, "error", f.err)
			delay = max(retry.Next(), RetryAfter(f.err), l.pace.wait(time.Now()))
		}
		b.result <- fetched[T]{err: ctx.Err()}
	})
	return b
}

// done is nil, which blocks a select for ever, while no list is being read.
func (b *concurrentList[T]) done() <-chan fetched[T] {
	if b == nil {
		return nil
	}
	return b.result
}

// note remembers an event that was handed on.
func (b *concurrentList[T]) note(key syncer.Key, item T, number uint64, deleted bool) {
	if b != nil {
		b.noted[key] = note[T]{item: item, number: number, deleted: deleted}
	}
}

// apply hands on a list that was read beside the stream.
func (f *follower[T]) apply(ctx context.Context, list fetched[T]) {
	l, b := f.loop, f.concurrent
	f.concurrent = nil
	if list.err != nil { // it is too long, unless the context has ended
		if errors.Is(list.err, ErrTooManyObjects) {
			f.follows(list.err)
		}
		l.signal()
		return
	}
	list.items = b.over(list, l.cfg.Key)
	stream := l.at
	l.replace(list, Requested, b.seen, false)
	l.at.ahead(stream)
	l.seen.Store(l.at.newest())
	f.listAgain(ctx, list.out)
	l.signal() // another may have been asked for meanwhile
}

// listAgain asks for another list where one failed for a scope whose stream goes on: nothing
// else would bring one.
func (f *follower[T]) listAgain(ctx context.Context, out map[string]error) {
	for scope, err := range out {
		if wait := f.loop.outWait; f.out[scope] == nil && !isRefusal(err) {
			f.loop.children.Go(func() {
				pause(ctx, wait)
				f.loop.Relist()
			})
			return
		}
	}
}

// over lays the noted events over the list. Where revisions cannot be compared
// every event wins: if the list was newer, the stream still has to bring what
// made it so.
func (b *concurrentList[T]) over(list fetched[T], keyOf func(*T) syncer.Key) []T {
	listed := number(list.rv)
	for key, n := range b.noted {
		if n.number != 0 && listed != 0 && n.number <= listed {
			delete(b.noted, key)
		}
	}
	if len(b.noted) == 0 {
		return list.items
	}
	items := list.items[:0]
	for _, item := range list.items {
		if _, later := b.noted[keyOf(&item)]; !later {
			items = append(items, item)
		}
	}
	for _, n := range b.noted {
		if !n.deleted {
			items = append(items, n.item)
		}
	}
	return items
}
