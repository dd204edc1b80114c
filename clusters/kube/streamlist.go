// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/syncer"
)

// streamList reads a list as a watch that begins with every object (KEP-3157):
// the server sends them one by one from its cache instead of building pages, and
// the stream goes on as the watch. A server that knows nothing of it ignores the
// parameters and never watermarks the end of the initial objects, so pauses are
// bounded.
func (l *Loop[T]) streamList(ctx context.Context, source ListWatcher) fetched[T] {
	opts := l.watchOptions()
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	opts.SendInitialEvents = new(true)
	stream, _, err := openStream(ctx, source, opening{opts: opts})
	if err != nil {
		return fetched[T]{err: err}
	}
	items, rv, err := l.initialEvents(ctx, stream)
	if err != nil {
		stream.Stop()
		return fetched[T]{err: err}
	}
	return fetched[T]{items: items, rv: rv, stream: stream}
}

// initialEvents reads up to the bookmark that ends the initial objects. Events
// among them may already be changes, so they are kept by key.
func (l *Loop[T]) initialEvents(ctx context.Context, stream Stream) ([]T, string, error) {
	byKey := make(map[syncer.Key]T)
	idle := time.NewTimer(initialIdle)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-idle.C:
			return nil, "", errNoInitialEnd
		case e, open := <-stream.Events():
			if !open {
				return nil, "", cmp.Or(stream.Err(), errors.New("the streaming list ended before its last object"))
			}
			idle.Reset(initialIdle)
			end, rv, err := l.initialEvent(byKey, e)
			if err != nil || !end {
				if err != nil {
					return nil, "", err
				}
				continue
			}
			items := make([]T, 0, len(byKey))
			for _, item := range byKey {
				items = append(items, item)
			}
			return items, rv, nil
		}
	}
}

func (l *Loop[T]) initialEvent(byKey map[syncer.Key]T, e Event) (end bool, rv string, err error) {
	if e.Err != nil {
		l.noteUndecodable("object that cannot be decoded", e.Err)
		return false, "", e.Err
	}
	switch e.Type {
	case watch.Added, watch.Modified:
		if item, ok := l.convert(e.Object); ok {
			byKey[l.cfg.Key(&item)] = item
		}
	case watch.Deleted:
		if item, ok := l.convert(e.Object); ok {
			delete(byKey, l.cfg.Key(&item))
		}
	case watch.Bookmark:
		if m, err := meta.Accessor(e.Object); err == nil && m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			return true, m.GetResourceVersion(), nil
		}
	case watch.Error:
		return false, "", apierrors.FromObject(e.Object)
	default:
		l.noteUndecodable(fmt.Sprintf("event of type %q", e.Type), nil)
	}
	if most := l.most(); most > 0 && len(byKey) > most {
		return false, "", fmt.Errorf("list %s: %w (%d)", l.cfg.Kind, ErrTooManyObjects, most)
	}
	return false, "", nil
}

// openStream opens a watch; see ListWatcher.open.
func openStream(ctx context.Context, source ListWatcher, o opening) (stream Stream, out map[string]error, err error) {
	stream, err = accepted(ctx, openTimeout, func(ctx context.Context) (stream Stream, err error) {
		stream, out, err = source.open(ctx, o)
		return stream, err
	})
	return stream, out, err
}

// accepted gives the server only so long to accept a watch.
func accepted(ctx context.Context, limit time.Duration, open func(context.Context) (Stream, error)) (Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(errOpenTimeout) })
	stream, err := open(ctx)
	timer.Stop()
	if err != nil {
		if context.Cause(ctx) == errOpenTimeout {
			err = errOpenTimeout
		}
		cancel(nil)
		return nil, err
	}
	return stopAlso{stream, func() { cancel(nil) }}, nil
}

// stopAlso is a stream with a context of its own.
type stopAlso struct {
	Stream
	cancel func()
}

// Stop ends the context, then the stream.
func (s stopAlso) Stop() {
	s.cancel()
	s.Stream.Stop()
}
