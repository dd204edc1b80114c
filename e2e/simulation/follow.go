// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/cache"
)

// shown is an object as a Course has it.
type shown struct{ Object }

// follower does what a Course wants.
type follower struct {
	*way
	query  Query
	course *kube.Course[shown]
	// told is up to which revisions the Course has been told all, and since when; for the laws.
	told    []telling
	wake    time.Duration // of the turn that is planned; 0: none is
	stream  *stream
	listing bool
	// lists and streams count what was begun: of what is not the last nothing is told.
	lists, streams int
	over           bool
}

// telling is that something told all up to a revision: a list, or an event. writes are how many had
// taken effect by then.
type telling struct {
	revision uint64
	at       time.Duration
	list     bool
	writes   int
}

// How long a watch lasts, and how long before its end comes a bookmark.
const (
	watchLife     = 20 * time.Second
	bookmarkAhead = 2 * time.Second
)

func follow(w *way, q Query, sink kube.Sink[shown]) *follower {
	f := &follower{way: w, query: q}
	f.course = kube.NewCourse(w.process.clock(), sink, func(d time.Duration) time.Duration { return time.Duration(w.Int64N(int64(d))) })
	f.turn()
	return f
}

// ask sends a request about what is followed. What is answered is for the Course, if still is true.
func (f *follower) ask(timeout time.Duration, still func() bool, act func(*Server) (any, error), done func(now time.Time, value any, err error)) {
	f.request(ID{Kind: f.query.Kind, Namespace: f.query.Namespace}, timeout, always, act, func(value any, err error) {
		if !f.over && still() {
			done(f.process.clock(), value, err)
			f.turn()
		}
	})
}

// turn does what is to be done now.
func (f *follower) turn() {
	for !f.over {
		switch next := f.course.Next(f.process.clock()); next.Do {
		case kube.Wait:
			at := f.now + next.Until.Sub(f.process.clock())
			if f.wake != 0 && f.wake <= at {
				return
			}
			f.wake = at
			f.process.after(at-f.now, func() {
				if f.wake == at {
					f.wake = 0
					f.turn()
				}
			})
			return
		case kube.List:
			f.lists++
			f.listing = true
			f.page(nil, nil)
		case kube.Watch:
			f.watch(next.Revision)
		case kube.Cut:
			f.leave()
			f.proven = nil
		case kube.Probe:
			f.ask(askTimeout, always, func(s *Server) (any, error) { return s.revision, nil }, func(now time.Time, value any, err error) {
				if err == nil {
					f.course.Probed(now, value.(uint64))
				}
			})
		}
	}
}

// page reads a list from one of its pages on.
func (f *follower) page(after *Page, all []kube.Versioned[shown]) {
	n := f.lists
	var next *Page
	f.ask(pageTimeout, func() bool { return n == f.lists }, func(s *Server) (any, error) {
		page, more, err := s.List(f.query, 500, after)
		page.Items, next = f.cluster.lie(page.Items), more
		return page, err
	}, func(now time.Time, value any, err error) {
		if err != nil {
			f.course.ListFailed(now, err)
			return
		}
		p := value.(Page)
		for _, o := range p.Items {
			all = append(all, versioned(o))
		}
		if next != nil {
			f.page(next, all)
			return
		}
		f.listing = false
		f.tell(p.Revision, true)
		f.course.Listed(now, all, p.Revision)
		f.process.read()
	})
}

func versioned(o Object) kube.Versioned[shown] {
	return kube.Versioned[shown]{Object: &shown{o}, Key: keyOf(o), UID: string(o.GetUID()), Revision: cache.Revision(o.GetResourceVersion())}
}

// opened is the first event of every stream.
const opened watch.EventType = "OPENED"

// watch opens a stream.
func (f *follower) watch(from uint64) {
	n := f.streams
	f.ask(acceptTimeout, func() bool { return n == f.streams }, func(s *Server) (any, error) {
		if n != f.streams {
			return nil, nil
		}
		st := &stream{link: f.link}
		st.tell = func(e Event) {
			f.process.runs(func() {
				if f.stream == st {
					f.event(e)
					f.turn()
				}
			})
		}
		f.link.streams = append(f.link.streams, st)
		f.stream = st
		st.send(Event{Type: opened})
		st.watch = s.Watch(f.query, from, st.send)
		f.after(watchLife-bookmarkAhead, st.watch.bookmark)
		f.after(watchLife, func() { st.watch.end(nil) })
		return nil, nil
	}, func(now time.Time, _ any, err error) {
		if err != nil {
			f.leave()
			f.course.Ended(now, err)
		}
	})
}

// event takes in what the stream brings.
func (f *follower) event(e Event) {
	now := f.process.clock()
	f.tell(e.Revision, false)
	v := kube.Versioned[shown]{Revision: e.Revision}
	switch e.Type {
	case opened:
		f.course.Opened(now)
		return
	case watch.Error:
		f.leave()
		f.course.Ended(now, e.Err)
		return
	case watch.Added, watch.Modified:
		v = versioned(e.Object)
	case watch.Deleted:
		v = versioned(e.Object)
		v.Object = nil
	}
	f.course.Event(v, now)
}

// tell notes how far the Course has been told.
func (f *follower) tell(revision uint64, list bool) {
	last := f.reached()
	if list && revision < last { // what came late was of a store that is no more
		last, f.told = 0, nil
	}
	if revision > last {
		f.told = append(f.told, telling{revision, f.now, list, f.process.world.laws.writes})
	}
}

// reached is up to which revision the Course has been told all.
func (f *follower) reached() uint64 {
	if len(f.told) == 0 {
		return 0
	}
	return f.told[len(f.told)-1].revision
}

// follows reports whether a stream brings news.
func (f *follower) follows() bool { return f.stream != nil && !f.listing }

// shown is what told of a revision first; nil: nothing has.
func (f *follower) shown(revision uint64) *telling {
	if at := slices.IndexFunc(f.told, func(t telling) bool { return t.revision >= revision }); at >= 0 {
		return &f.told[at]
	}
	return nil
}

// relist has a complete list read beside the stream.
func (f *follower) relist() {
	f.course.Relist(f.process.clock())
	f.turn()
}

// leave ends the stream, or that it is being opened.
func (f *follower) leave() {
	if f.streams++; f.stream != nil {
		f.stream.leave()
		f.stream = nil
	}
}

// end ends the following.
func (f *follower) end() {
	f.leave()
	f.over = true
}
