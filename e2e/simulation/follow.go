// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/syncer"
)

// way is a process's way to one cluster: a link, and which cluster is expected at its end.
type way struct {
	*link
	process *Process
	// pin is the UID that is expected; "": any. proven is the cluster that the connection in
	// use has shown.
	pin    string
	proven *Cluster
	// learned is told of the UID that a new connection shows; nil is not.
	learned func(uid string)
}

// The deadlines of requests.
const (
	pageTimeout   = 60 * time.Second
	askTimeout    = 5 * time.Second
	acceptTimeout = 10 * time.Second
	watchLife     = 20 * time.Second
	bookmarkAhead = 2 * time.Second
)

// request sends a request over a connection that has shown which cluster is at its end.
func (w *way) request(of ID, timeout time.Duration, act func(*Server) (any, error), done func(any, error)) (giveUp func()) {
	return w.requestIf(func() bool { return true }, of, timeout, act, done)
}

// requestIf sends a request if it may be sent at the moment at which it would be.
func (w *way) requestIf(may func() bool, of ID, timeout time.Duration, act func(*Server) (any, error), done func(any, error)) (giveUp func()) {
	stop := func() {}
	tell := func(value any, err error) { w.process.runs(func() { done(value, err) }) }
	send := func() {
		if !may() {
			tell(nil, errNotSent)
			return
		}
		stop = w.call(of, timeout, func(s *Server) (any, error) {
			if w.proven == nil || w.proven.Server != s {
				return nil, errBroken
			}
			return act(s)
		}, func(value any, err error) {
			if errors.Is(err, errBroken) {
				w.proven = nil
			}
			tell(value, err)
		})
	}
	if w.proven != nil && w.proven == w.cluster {
		send()
		return func() { stop() }
	}
	stop = w.call(ID{}, askTimeout, func(s *Server) (any, error) { return s.Get(ID{Kind: Namespaces, Name: metav1.NamespaceSystem}) }, func(value any, err error) {
		if err != nil {
			tell(nil, err)
			return
		}
		uid := string(value.(Object).GetUID())
		if w.pin != "" && uid != w.pin {
			tell(nil, kube.ErrOtherCluster)
			return
		}
		w.process.runs(func() {
			w.pin, w.proven = uid, w.cluster
			if w.learned != nil {
				w.learned(uid)
			}
			send()
		})
	})
	return func() { stop() }
}

// follower does what a Course wants.
type follower[T any] struct {
	way     *way
	query   Query
	convert func(Object) *T
	course  *kube.Course[T]
	// told is up to which revisions the Course has been told all, and since when; for the laws.
	told     []telling
	wake     time.Duration // of the turn that is planned; 0: none is
	stream   *stream
	opening  func()
	dropList func()
	over     bool
}

func follow[T any](w *way, q Query, sink kube.Sink[T], convert func(Object) *T) *follower[T] {
	f := &follower[T]{way: w, query: q, convert: convert}
	f.course = kube.NewCourse(w.process.clock(), sink, func(d time.Duration) time.Duration { return time.Duration(w.Int64N(int64(d))) })
	f.turn()
	return f
}

// turn does what is to be done now.
func (f *follower[T]) turn() {
	for !f.over {
		switch next := f.course.Next(f.way.process.clock()); next.Do {
		case kube.Wait:
			at := f.way.now + next.Until.Sub(f.way.process.clock())
			if f.wake != 0 && f.wake <= at {
				return
			}
			f.wake = at
			f.way.process.after(at-f.way.now, func() {
				if f.wake == at {
					f.wake = 0
					f.turn()
				}
			})
			return
		case kube.List:
			f.list()
		case kube.Watch:
			f.watch(next.Revision)
		case kube.Leave:
			f.leave()
		case kube.Cut:
			f.leave()
			f.way.proven = nil
		case kube.Probe:
			q := Query{Kind: f.query.Kind, Namespace: f.query.Namespace}
			f.way.request(f.about(), askTimeout, func(s *Server) (any, error) {
				page, _, err := s.List(q, 1, nil)
				return page.Revision, err
			}, func(value any, err error) {
				if err == nil && !f.over {
					f.course.Probed(f.way.process.clock(), value.(uint64))
					f.turn()
				}
			})
		}
	}
}

// about is what requests are about.
func (f *follower[T]) about() ID { return ID{Kind: f.query.Kind, Namespace: f.query.Namespace} }

// page is one page as it was answered.
type page struct {
	Page
	next *token
}

// list reads a complete list page by page.
func (f *follower[T]) list() {
	if f.dropList != nil {
		f.dropList()
	}
	var all []kube.Versioned[T]
	revision, dropped := uint64(0), false
	f.dropList = func() { dropped = true }
	var read func(from *token)
	read = func(from *token) {
		f.way.request(f.about(), pageTimeout, func(s *Server) (any, error) {
			p, next, err := s.List(f.query, 500, from)
			p.Items = f.way.cluster.lie(f.query, p.Items)
			return page{p, next}, err
		}, func(value any, err error) {
			if dropped || f.over {
				return
			}
			now := f.way.process.clock()
			if err != nil {
				f.course.ListFailed(now, err)
				f.turn()
				return
			}
			p := value.(page)
			for _, o := range p.Items {
				all = append(all, f.versioned(o))
			}
			if revision == 0 {
				revision = p.Revision
			}
			if p.next != nil {
				read(p.next)
				return
			}
			f.dropList = nil
			f.tell(revision, true)
			f.course.Listed(now, all, revision)
			f.turn()
			f.way.process.read()
		})
	}
	read(nil)
}

func (f *follower[T]) versioned(o Object) kube.Versioned[T] {
	return kube.Versioned[T]{
		Object: f.convert(o), Key: syncer.Key{Namespace: o.GetNamespace(), Name: o.GetName()}, UID: string(o.GetUID()), Revision: cache.Revision(o.GetResourceVersion()),
	}
}

// opened is the first event of every stream.
const opened watch.EventType = "OPENED"

// watch opens a stream.
func (f *follower[T]) watch(from uint64) {
	w, left := f.way, false
	f.opening = func() { left = true }
	w.request(f.about(), acceptTimeout, func(s *Server) (any, error) {
		if left {
			return nil, nil
		}
		st := &stream{link: w.link, tell: f.event}
		st.send(Event{Type: opened})
		w.streams = append(w.streams, st)
		st.watch = s.Watch(f.query, from, st.send)
		w.link.after(watchLife-bookmarkAhead, st.watch.bookmark)
		w.link.after(watchLife, func() { st.watch.end(nil) })
		f.stream = st
		return nil, nil
	}, func(_ any, err error) {
		if err != nil && !left && !f.over {
			f.leave()
			f.course.Ended(w.process.clock(), err)
			f.turn()
		}
	})
}

// event takes in what the stream brings.
func (f *follower[T]) event(e Event) {
	st := f.stream
	f.way.process.runs(func() {
		if st == nil || f.stream != st || f.over {
			return
		}
		now := f.way.process.clock()
		f.tell(e.Revision, false)
		switch e.Type {
		case opened:
			f.course.Opened(now)
		case watch.Added, watch.Modified:
			f.course.Event(f.versioned(e.Object), now)
		case watch.Deleted:
			v := f.versioned(e.Object)
			v.Object = nil
			f.course.Event(v, now)
		case watch.Bookmark:
			f.course.Event(kube.Versioned[T]{Revision: e.Revision}, now)
		case watch.Error:
			f.leave()
			f.course.Ended(now, e.Err)
		}
		f.turn()
	})
}

// telling is that something told all up to a revision: a list, or an event.
type telling struct {
	revision uint64
	at       time.Duration
	list     bool
}

func (f *follower[T]) tell(revision uint64, list bool) {
	last, _ := f.reached()
	if list && revision < last { // what came late was of a store that is no more
		last, f.told = 0, nil
	}
	if revision > last {
		f.told = append(f.told, telling{revision, f.way.now, list})
	}
}

// shown is what told of a revision first; nil: nothing has.
func (f *follower[T]) shown(revision uint64) *telling {
	if at := slices.IndexFunc(f.told, func(t telling) bool { return t.revision >= revision }); at >= 0 {
		return &f.told[at]
	}
	return nil
}

// leave ends the stream, or that it is being opened.
func (f *follower[T]) leave() {
	if f.opening != nil {
		f.opening()
	}
	if f.stream != nil {
		f.stream.leave()
		f.stream = nil
	}
}

// end ends the following.
func (f *follower[T]) end() {
	f.leave()
	f.over = true
}

// lie leaves out of a list what is not to be seen in it.
func (c *Cluster) lie(q Query, items []Object) []Object {
	if c.lies == 0 || q.Kind > EndpointSlices || len(items) == 0 {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), func(Object) bool { return c.chance(c.lies) })
}
