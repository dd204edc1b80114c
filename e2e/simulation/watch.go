// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

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

// errBroken is a connection that broke.
var errBroken = errors.New("the connection was closed by the other side")

// Query is what is listed or watched.
type Query struct {
	Kind           Kind
	Namespace      string
	Labels, Fields string
}

// matcher returns what tells whether an object is one of those that are asked for.
func (q *Query) matcher() func(Object) bool {
	byLabels, err := labels.Parse(q.Labels)
	byFields, wrong := fields.ParseSelector(q.Fields)
	if err != nil || wrong != nil {
		panic(errors.Join(err, wrong))
	}
	return func(o Object) bool {
		if o == nil || kindOf(o) != q.Kind || q.Namespace != "" && q.Namespace != o.GetNamespace() || !byLabels.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		set := fields.Set{}
		if pod, ok := o.(*corev1.Pod); ok {
			set["status.phase"] = string(pod.Status.Phase)
		} else if q.Fields != "" {
			set["metadata.name"] = o.GetName()
		}
		return byFields.Matches(set)
	}
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
		p.Revision = s.revision
		for _, o := range s.all(q.Kind, q.Namespace) {
			if matches(o) {
				p.rest = append(p.rest, o)
			}
		}
	} else if p = *after; p.Revision < s.compacted || p.Revision > s.revision {
		return Page{}, nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
	}
	if limit == 0 || limit > s.pageSize {
		limit = s.pageSize
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
	matches func(Object) bool
	server  *Server
	from    uint64
	tell    func(Event)
	over    bool
}

// Watch begins a stream of what happens after a revision. One of the future is silent until
// that is reached.
func (s *Server) Watch(q Query, from uint64, tell func(Event)) *Watch {
	w := &Watch{matches: q.matcher(), server: s, from: from, tell: tell}
	if from < s.compacted {
		w.end(apierrors.NewResourceExpired("too old resource version"))
		return w
	}
	s.watches = append(s.watches, w)
	for i := range s.history {
		w.show(&s.history[i])
	}
	return w
}

// show tells what a change means to who has selectors.
func (w *Watch) show(c *change) {
	if w.over || c.revision <= w.from {
		return
	}
	was, is := w.matches(c.before), w.matches(c.after)
	e := Event{Type: watch.Modified, Object: c.after, Revision: c.revision}
	switch {
	case is && !was:
		e.Type = watch.Added
	case was && !is:
		e.Type, e.Object = watch.Deleted, c.before.DeepCopyObject().(Object)
		e.Object.SetResourceVersion(strconv.FormatUint(c.revision, 10))
	case !is:
		return
	}
	w.tell(e)
}

// bookmark tells how far the stream is.
func (w *Watch) bookmark() {
	if !w.over && w.server.revision > w.from {
		w.tell(Event{Type: watch.Bookmark, Revision: w.server.revision})
	}
}

// end ends the stream; nil: in order.
func (w *Watch) end(err error) {
	if !w.over {
		w.over = true
		w.server.watches = slices.DeleteFunc(w.server.watches, func(other *Watch) bool { return other == w })
		w.tell(Event{Type: watch.Error, Err: err})
	}
}

func (s *Server) endWatches(err error) {
	for _, w := range slices.Clone(s.watches) {
		w.end(err)
	}
}
