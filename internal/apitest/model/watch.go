// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// ErrBroken is the end of a connection that broke.
var ErrBroken = errors.New("the connection was closed by the other side")

// Query is what is listed or watched.
type Query struct {
	Kind           Kind
	Namespace      string
	Labels, Fields string
}

// matcher returns a function that reports whether an object is one of those that are asked for.
func (q *Query) matcher() func(Object) bool {
	byLabels, err := labels.Parse(q.Labels)
	byFields, wrong := fields.ParseSelector(q.Fields)
	if err != nil || wrong != nil {
		panic(errors.Join(err, wrong))
	}
	return func(o Object) bool {
		return o != nil && KindOf(o) == q.Kind && (q.Namespace == "" || q.Namespace == o.GetNamespace()) &&
			byLabels.Matches(labels.Set(o.GetLabels())) && byFields.Matches(selectable(o))
	}
}

// selectable are the fields of an object by which it can be selected.
func selectable(o Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName()}
	if pod, ok := o.(*corev1.Pod); ok {
		set["status.phase"] = string(pod.Status.Phase)
	}
	return set
}

// Page is an answer to a list. The next begins with rest.
type Page struct {
	Items    []Object
	Revision uint64
	rest     []Object
}

// List answers one page, the first or that after another. The rest of a list shows the moment of
// its first page. next is nil where it ends.
func (s *Server) List(q Query, limit int, after *Page) (p Page, next *Page, err error) {
	if after == nil {
		matches := q.matcher()
		p.Revision = s.Revision
		for _, o := range s.All(q.Kind, q.Namespace) {
			if matches(o) {
				p.rest = append(p.rest, o)
			}
		}
	} else if p = *after; p.Revision < s.compacted || p.Revision > s.Revision {
		return Page{}, nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
	}
	if limit == 0 || limit > s.PageSize {
		limit = s.PageSize
	}
	n := min(limit, len(p.rest))
	if p.Items, p.rest = p.rest[:n:n], p.rest[n:]; len(p.rest) > 0 {
		next = &p
	}
	return p, next, nil
}

// Event is what a watch shows. Object is that of a bookmark, too; Err ends the stream.
type Event struct {
	Type     watch.EventType
	Object   Object
	Revision uint64
	Err      error
}

// Watch is a stream that a Server feeds.
type Watch struct {
	Server *Server
	Over   bool // it has ended

	matches func(Object) bool
	from    uint64
	tell    func(Event)
}

// Watch begins a stream of what happens after a revision. One of the future is silent until
// that is reached.
func (s *Server) Watch(q Query, from uint64, tell func(Event)) *Watch {
	w := &Watch{matches: q.matcher(), Server: s, from: from, tell: tell}
	if from < s.compacted {
		w.End(apierrors.NewResourceExpired("too old resource version"))
		return w
	}
	s.watches = append(s.watches, w)
	for i := range s.history {
		w.show(&s.history[i])
	}
	return w
}

// show sends a change as a client with the watch's selectors sees it.
func (w *Watch) show(c *Change) {
	if w.Over || c.Revision <= w.from {
		return
	}
	was, is := w.matches(c.Before), w.matches(c.After)
	e := Event{Type: watch.Modified, Object: c.After, Revision: c.Revision}
	switch {
	case is && !was:
		e.Type = watch.Added
	case was && !is:
		e.Type, e.Object = watch.Deleted, c.Before.DeepCopyObject().(Object)
		e.Object.SetResourceVersion(strconv.FormatUint(c.Revision, 10))
	case !is:
		return
	}
	w.tell(e)
}

// Bookmark sends the revision that the stream has reached.
func (w *Watch) Bookmark() {
	if !w.Over && w.Server.Revision > w.from {
		w.tell(Event{Type: watch.Bookmark, Revision: w.Server.Revision})
	}
}

// End ends the stream; nil: in order.
func (w *Watch) End(err error) {
	if !w.Over {
		w.Over = true
		w.Server.watches = slices.DeleteFunc(w.Server.watches, func(other *Watch) bool { return other == w })
		w.tell(Event{Type: watch.Error, Err: err})
	}
}

// EndWatches ends all streams.
func (s *Server) EndWatches(err error) {
	for _, w := range slices.Clone(s.watches) {
		w.End(err)
	}
}
