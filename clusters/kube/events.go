// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
)

// event handles one event; end is not empty when the stream is to be left.
func (f *follower[T]) event(e Event) (end End, err error) {
	l, scope := f.loop, Scope{Namespace: e.Scope}
	if e.Err != nil {
		l.noteUndecodable("object that cannot be decoded", e.Err)
		return EndUndecodable, scope.wrap(e.Err)
	}
	switch e.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		f.object(e)
	case watch.Bookmark:
		if m, err := meta.Accessor(e.Object); err == nil {
			f.events++
			l.advance(e.Scope, m.GetResourceVersion())
		}
		f.aliveFrom(e.Scope)
		l.cfg.Handler.Contact(e.Arrival, true)
	case scopeOpened:
		delete(f.out, e.Scope)
		l.leaveOut(f.out)
		l.watermarks.Opened(f.out)
		f.aliveFrom(e.Scope)
		f.follows(nil)
	case watch.Error:
		return endOf(scope.wrap(apierrors.FromObject(e.Object)))
	default:
		l.noteUndecodable("event of unknown type", nil)
		return EndUndecodable, scope.wrap(fmt.Errorf("%w: unknown type of event", ErrUndecodable))
	}
	return "", nil
}

// object hands an object on. What the last list already showed is dropped: it
// comes again after streams were exchanged or a list was read beside one.
func (f *follower[T]) object(e Event) {
	l := f.loop
	item, ok := l.convert(e.Object)
	if !ok {
		return
	}
	f.events++
	f.aliveFrom(e.Scope)
	m := EventMeta{Type: word(e.Type), Arrival: e.Arrival}
	if accessor, err := meta.Accessor(e.Object); err == nil {
		m.ResourceVersion = accessor.GetResourceVersion()
	}
	n := number(m.ResourceVersion)
	if l.at.shown(e.Scope, n) {
		l.cfg.Handler.Contact(e.Arrival, false)
		return
	}
	l.advance(e.Scope, m.ResourceVersion)
	deleted := e.Type == watch.Deleted
	key := l.cfg.Key(&item)
	l.watermarks.Observed(Watermark{Key: key, Revision: n, Gone: deleted, Made: e.Type == watch.Added})
	f.concurrent.note(key, item, n, deleted)
	if deleted {
		l.cfg.Handler.Deleted(item, m)
	} else {
		l.cfg.Handler.Upserted(item, m)
	}
}

// word is the type of an object's event as users read it.
func word(t watch.EventType) string {
	switch t {
	case watch.Added:
		return "added"
	case watch.Deleted:
		return "deleted"
	default:
		return "modified"
	}
}

// advance moves the revision from which a scope is resumed.
func (l *Loop[T]) advance(scope, rv string) {
	if l.at.advance(scope, rv) {
		l.broken = 0
		l.seen.Store(l.at.newest())
	}
}

// number reads a revision as a number; 0 when it is none. Revisions are opaque
// only in principle: every API server's are etcd revisions, and comparing them
// is sanctioned since 1.35 (KEP-5504).
func number(rv string) uint64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
