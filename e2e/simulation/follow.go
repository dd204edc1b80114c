// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/apitest/model"
)

// follower carries out the steps of a Course.
type follower[T any] struct {
	*following
	query  model.Query
	decode func(model.Object) *T
	course *kube.Course[T]
	wakes  alarm
	list   *[]kube.Versioned[T] // being read; nil if there is none
}

// following is what a follower of any kind has.
type following struct {
	*way
	stream *stream // open or being opened; nil if there is none
	over   bool
	// relist has a complete list read beside the stream. listIn is the store of the member's state that it lists.
	relist func()
	listIn int
	// told are, for the laws, the revisions up to which the Course has reported everything of a store:
	// store counts how often that had been restored, read that of the last list.
	told        []telling
	store, read int
}

// telling is the moment at which a list or an event was reported, and with it everything up to a revision. writes is
// how many writes had taken effect by then.
type telling struct {
	revision uint64
	at       time.Duration
	list     bool
	writes   int
}

// How long a watch lasts, and how long before its end a bookmark is sent.
const (
	watchLife     = 20 * time.Second
	bookmarkAhead = 2 * time.Second
)

func follow[T any](w *way, q model.Query, decode func(model.Object) *T, sink kube.Sink[T]) *following {
	f := &follower[T]{following: &following{way: w, store: w.home.store}, query: q, decode: decode}
	f.course = kube.NewCourse(w.process.clock(), kube.Sink[T](&noted[T]{sink, f.following}), func(d time.Duration) time.Duration { return time.Duration(w.Int64N(int64(d))) })
	f.relist = func() {
		f.course.Relist(w.process.clock())
		f.proceed()
	}
	f.proceed()
	return f.following
}

func (f *follower[T]) versioned(o model.Object) kube.Versioned[T] {
	return kube.Versioned[T]{Object: f.decode(o), Key: keyOf(o), UID: string(o.GetUID()), Revision: kube.Revision(o.GetResourceVersion())}
}

// ask sends a request about what is followed. The answer is dropped unless still is true by then.
func (f *follower[T]) ask(timeout time.Duration, still func() bool, act func(*model.Server) (any, error), done func(now time.Time, value any, err error)) {
	f.request(model.ID{Kind: f.query.Kind, Namespace: f.query.Namespace}, timeout, nil, act, func(value any, err error) {
		if !f.over && still() {
			done(f.process.clock(), value, err)
			f.proceed()
		}
	})
}

// proceed carries out what the Course wants now.
func (f *follower[T]) proceed() {
	for !f.over {
		switch next := f.course.Next(f.process.clock()); next.Do {
		case kube.Wait:
			f.wakes.set(f.process, next.Until, f.proceed)
			return
		case kube.List:
			f.list = &[]kube.Versioned[T]{}
			f.page(f.list, nil)
		case kube.Watch:
			f.watch(next.Revision)
		case kube.Cut:
			f.leave()
			f.proven = nil
		case kube.Probe:
			f.ask(askTimeout, func() bool { return true }, func(s *model.Server) (any, error) { return s.Revision, nil }, func(now time.Time, value any, err error) {
				if err == nil {
					f.course.Probed(now, value.(uint64))
				}
			})
		}
	}
}

// page reads the rest of a list, from one of its pages on.
func (f *follower[T]) page(list *[]kube.Versioned[T], after *model.Page) {
	var next *model.Page
	f.ask(pageTimeout, func() bool { return list == f.list }, func(s *model.Server) (any, error) {
		page, more, err := s.List(f.query, 500, after)
		page.Items, next, f.read = f.cluster.lie(page.Items), more, f.home.store
		return page, err
	}, func(now time.Time, value any, err error) {
		p, _ := value.(model.Page)
		for _, o := range p.Items {
			*list = append(*list, f.versioned(o))
		}
		if err == nil && next != nil {
			f.page(list, next)
			return
		}
		if f.list = nil; err != nil {
			f.course.ListFailed(now, err)
			return
		}
		f.course.Listed(now, *list, p.Revision)
	})
}

// opened is the first event of every stream.
const opened watch.EventType = "OPENED"

func (f *follower[T]) watch(from uint64) {
	st := &stream{link: f.link}
	f.stream = st
	still := func() bool { return f.stream == st }
	st.tell = func(e model.Event) {
		f.process.runs(func() {
			if still() {
				f.event(e)
				f.proceed()
			}
		})
	}
	f.ask(acceptTimeout, still, func(s *model.Server) (any, error) {
		if still() {
			f.link.streams = append(slices.DeleteFunc(f.link.streams, func(o *stream) bool { return o.watch.Over }), st)
			st.send(model.Event{Type: opened})
			st.watch = s.Watch(f.query, from, st.send)
			f.after(watchLife-bookmarkAhead, st.watch.Bookmark)
			f.after(watchLife, func() { st.watch.End(nil) })
		}
		return nil, nil
	}, func(now time.Time, _ any, err error) {
		if err != nil {
			f.leave()
			f.course.Ended(now, err)
		}
	})
}

func (f *follower[T]) event(e model.Event) {
	now := f.process.clock()
	switch e.Type {
	case opened:
		f.course.Opened(now)
	case watch.Error:
		f.leave()
		f.course.Ended(now, e.Err)
	default:
		v := kube.Versioned[T]{Revision: e.Revision}
		if e.Object != nil {
			v = f.versioned(e.Object)
		}
		if e.Type == watch.Deleted {
			v.Object = nil
		}
		f.course.Event(v, now)
	}
}

// noted is a Sink that records up to which revision everything was reported to it.
type noted[T any] struct {
	kube.Sink[T]
	f *following
}

// Event implements kube.Sink.
func (n *noted[T]) Event(v kube.Versioned[T], arrived time.Time) {
	n.f.tell(v.Revision, false)
	n.Sink.Event(v, arrived)
}

// Listed implements kube.Sink.
func (n *noted[T]) Listed(all []kube.Versioned[T], revision uint64) {
	n.f.tell(revision, true)
	n.Sink.Listed(all, revision)
}

func (f *following) tell(revision uint64, list bool) {
	if list && f.store != f.read {
		f.told, f.store = nil, f.read
	}
	if !f.void() && revision > f.reached() {
		f.told = append(f.told, telling{revision, f.now, list, f.process.world.writes})
	}
}

// of is the store that was reported, void whether that was restored since; nil knows of none.
func (f *following) of() int {
	if f == nil {
		return -1
	}
	return f.store
}
func (f *following) void() bool { return f.of() != f.home.store }

// reached is the revision up to which everything of the present store was reported; 0 for nil.
func (f *following) reached() uint64 {
	if f == nil || f.void() || len(f.told) == 0 {
		return 0
	}
	return f.told[len(f.told)-1].revision
}

// follows reports whether a stream is open.
func (f *following) follows() bool { return f != nil && f.stream != nil && f.stream.watch != nil }

// shown is what first reported a revision; nil if nothing has.
func (f *following) shown(revision uint64) *telling {
	if f.reached() < revision {
		return nil
	}
	return &f.told[slices.IndexFunc(f.told, func(t telling) bool { return t.revision >= revision })]
}

// leave ends the stream, even one that is being opened.
func (f *following) leave() {
	if f.stream != nil && f.stream.watch != nil {
		f.stream.watch.End(nil)
	}
	f.stream = nil
}

func (f *following) end() {
	f.leave()
	f.over = true
}
