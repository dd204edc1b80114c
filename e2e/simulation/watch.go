// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"slices"
	"strconv"
	"sync"

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

// selectors are parsed once.
var labelSelectors, fieldSelectors sync.Map

// parsed is a selector as its parser reads it.
func parsed[T any](in *sync.Map, text string, parse func(string) (T, error)) T {
	if s, ok := in.Load(text); ok {
		return s.(T)
	}
	s, err := parse(text)
	if err != nil {
		panic(err)
	}
	in.Store(text, s)
	return s
}

func parseLabels(text string) (labels.Selector, error) { return labels.Parse(text) }

// matches reports whether an object is one of those that are asked for.
func (q *Query) matches(o Object) bool {
	if q.Namespace != "" && q.Namespace != o.GetNamespace() {
		return false
	}
	if q.Labels != "" && !parsed(&labelSelectors, q.Labels, parseLabels).Matches(labels.Set(o.GetLabels())) {
		return false
	}
	if q.Fields == "" {
		return true
	}
	s := parsed(&fieldSelectors, q.Fields, fields.ParseSelector)
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if pod, ok := o.(*corev1.Pod); ok {
		set["status.phase"] = string(pod.Status.Phase)
	}
	return s.Matches(set)
}

// Page is an answer to a list.
type Page struct {
	Items    []Object
	Revision uint64
	Continue string
}

// token is what a list goes on from.
type token struct {
	revision uint64
	rest     []Object
}

// List answers one page. The rest of a list shows the moment of its first page.
func (s *Server) List(q Query, limit int, from *token) (Page, *token, error) {
	var rest []Object
	at := s.revision
	if from == nil {
		for _, o := range s.all(q.Kind, q.Namespace) {
			if q.matches(o) {
				rest = append(rest, o)
			}
		}
	} else if rest, at = from.rest, from.revision; at < s.compacted || at > s.revision {
		return Page{}, nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
	}
	if limit == 0 || limit > s.pageSize {
		limit = s.pageSize
	}
	if len(rest) <= limit {
		return Page{Items: rest, Revision: at}, nil, nil
	}
	return Page{Items: rest[:limit], Revision: at, Continue: strconv.Itoa(len(rest))}, &token{at, rest[limit:]}, nil
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
	query  Query
	server *Server
	from   uint64
	tell   func(Event)
	over   bool
}

// Watch begins a stream of what happens after a revision. One of the future is silent until
// that is reached.
func (s *Server) Watch(q Query, from uint64, tell func(Event)) *Watch {
	w := &Watch{query: q, server: s, from: from, tell: tell}
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
	o := c.after
	if o == nil {
		o = c.before
	}
	if w.over || c.revision <= w.from || kindOf(o) != w.query.Kind {
		return
	}
	was, is := c.before != nil && w.query.matches(c.before), c.after != nil && w.query.matches(c.after)
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
	if w.over {
		return
	}
	w.over = true
	if i := slices.Index(w.server.watches, w); i >= 0 {
		w.server.watches = slices.Delete(w.server.watches, i, i+1)
	}
	w.tell(Event{Type: watch.Error, Err: err})
}
