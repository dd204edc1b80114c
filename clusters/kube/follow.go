// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// follow resumes at the revision and tells what a stream brings, until it ends.
func (f *Follower[T]) follow(ctx context.Context, s *Session) error {
	st, err := s.watch(ctx, f.query(), f.revision.Load())
	if err != nil {
		return f.after(err)
	}
	opened := time.Now()
	f.say(Following, nil)
	err = f.read(ctx, s, st)
	st.stop()
	if time.Since(opened) < healthyAfter {
		if err == nil { // the server is there, and each stream brings what has happened since
			f.wait(longer(&f.delay, time.Second), nil)
		}
		return f.after(err)
	}
	f.delay = 0
	_ = f.after(err) // the next one may work: it is opened at once
	return nil
}

// after decides whether a list must come next, and returns the error otherwise.
func (f *Follower[T]) after(err error) error {
	switch {
	case err == nil:
		return nil
	case isExpired(err):
		if f.listed = false; f.revision.Load() == f.floor { // so was the last list
			f.wait(longer(&f.delay, retryLimit), nil)
		}
		return nil
	}
	return fmt.Errorf("watch %s: %w", f.kind.Resource.Resource, err)
}

// read tells what a stream brings, and attends to the list beside it. It returns nil when the
// stream has ended in order or is to be left.
func (f *Follower[T]) read(ctx context.Context, s *Session, st *stream) error {
	end := time.NewTimer(watchTime + watchGrace)
	defer end.Stop()
	last := time.Now()
	for {
		relist := f.relist
		if f.beside != nil {
			relist = nil // it is begun when that one is done
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.retired.Done():
			return nil
		case <-end.C:
			if quiet := time.Since(last); quiet < watchGrace { // it has much to tell
				end.Reset(watchGrace - quiet)
				continue
			}
			st.cut()
			return errFrozen
		case <-f.back:
			f.wentBack()
			return nil
		case <-relist:
			f.listBeside()
		case <-f.beside.looked():
		case e, open := <-st.events:
			if !open {
				return st.err
			}
			last = time.Now()
			if err := f.event(e); err != nil {
				return err
			}
		}
		f.level()
	}
}

// event tells one event. An error ends the stream.
func (f *Follower[T]) event(e event) error {
	switch {
	case e.err != nil:
		f.fault(fmt.Errorf("an event of %s: %w", f.kind.Resource.Resource, e.err))
		return nil
	case e.kind == watch.Error:
		return apierrors.FromObject(e.object)
	}
	v, err := f.head(e.object)
	if err != nil {
		f.fault(fmt.Errorf("an event of %s: %w", f.kind.Resource.Resource, err))
		return nil
	}
	if v.Revision > f.revision.Load() {
		f.revision.Store(v.Revision)
		if e.kind == watch.Bookmark {
			f.sink.At(v.Revision)
		}
	}
	if v.Revision > f.floor {
		f.object(e, v)
	}
	return nil
}

// object tells what an event says of an object.
func (f *Follower[T]) object(e event, v Versioned[T]) {
	switch e.kind {
	case watch.Added, watch.Modified:
		v, ok := f.convert(e.object)
		if ok && v.Object != nil {
			f.sink.seen(v, e.arrived)
			return
		}
		if !ok {
			return
		}
	case watch.Deleted:
	case watch.Bookmark:
		return
	default:
		f.fault(fmt.Errorf("%w: an event of %s of type %.32q", ErrUndecodable, f.kind.Resource.Resource, e.kind))
		return
	}
	f.sink.Gone(v.Key, v.UID, v.Revision, e.arrived)
}
