// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// object names an object of a member.
type object struct {
	Kind Kind
	Key  syncer.Key
}

func (o object) compare(p object) int {
	if o.Kind != p.Kind {
		return int(o.Kind) - int(p.Kind)
	}
	return o.Key.Compare(p.Key)
}

// seen takes in an object that a watch shows.
func seen[T Object](s *State, now time.Time, t table[T], e *Seen[T], out *Effects) {
	s.reach.contact = now
	if !t.wanted(s, &e.Object) || outdated(s, t, e.Versioned) {
		return
	}
	if !t.room(s, &e.Object) {
		t.met(s, now, &e.Object, out)
		t.claim(s, now, &e.Object, out)
		return
	}
	heard(s, now, t, &e.Versioned, e.name(), out)
}

// removed is what is known of an object that went without a stream's telling: a stream may lag
// behind, and a list that was begun before may show it.
type removed struct {
	rv uint64 // what is older than that is no news of it
	// uid is the one that is gone for good, as an answer said at a moment; "": none has.
	uid string
	at  time.Time
}

// noteRemoved notes that an object is removed of which nothing is news before a revision.
func (s *State) noteRemoved(id object, rv uint64) {
	if m := s.removed[id]; rv > m.rv {
		m.rv = rv
		s.removed[id] = m
	}
}

// noteGone notes that a UID is gone for good.
func (s *State) noteGone(now time.Time, id object, uid string) {
	m := s.removed[id]
	if m.uid, m.at = uid, now; uid != "" {
		s.removed[id] = m
	}
	if uid != "" && id.Kind == Pods {
		s.departures.noteDeleted(uid)
	}
}

// outdated reports whether an object that is shown is older than what is known of it.
func outdated[T Object](s *State, t table[T], v store.Versioned[T]) bool {
	m, is := s.removed[t.id(&v.Object)]
	return t.outdated(s, v) || is && (v.RV != 0 && v.RV < m.rv || m.uid != "" && m.uid == t.uid(&v.Object))
}

// heard takes in what an object says of itself, which nothing holds back.
func heard[T Object](s *State, now time.Time, t table[T], v *store.Versioned[T], event string, out *Effects) {
	cause := t.cause(&v.Object, v.RV, event)
	cause.SourceTime = t.since(s, &v.Object)
	ruled := s.ruledBy(t.id(&v.Object))
	dirty := t.hear(s, now, *v, out)
	cause.Rule = cmp.Or(s.ruledBy(t.id(&v.Object)), ruled)
	s.announce(out, Change{Cause: cause, Dirty: dirty})
	if a := s.absent[t.id(&v.Object)]; a != nil && event == "asked" && t.listed(s, *v) { // a list has overtaken it
		s.markHeld(a)
	} else {
		s.reappeared(t.id(&v.Object)) // or what it shows would replace it
	}
	t.met(s, now, &v.Object, out)
	t.claim(s, now, &v.Object, out)
	s.rejudge(now, dirty, out)
}

// gone takes in the deletion of an object, which nothing holds back.
func gone[T Object](s *State, now time.Time, t table[T], e *Gone[T], out *Effects) {
	s.reach.contact = now
	if !t.wanted(s, &e.Object) || t.outdated(s, e.Versioned) {
		return
	}
	cause := t.cause(&e.Object, e.RV, "deleted")
	cause.SourceTime = t.since(s, &e.Object)
	cause.Rule = s.ruledBy(t.id(&e.Object))
	_, known := t.revision(s, &e.Object)
	dirty := t.remove(s, now, e.Versioned)
	s.announce(out, Change{Cause: cause, Dirty: dirty})
	s.reappeared(t.id(&e.Object))
	s.disbelieve(t.id(&e.Object))
	t.missed(s, &e.Object, known, cause, out)
	s.rejudge(now, dirty, out)
}

func objectCause(kind string, key syncer.Key, uid string, rv uint64, event string) Cause {
	return Cause{Kind: kind, Event: event, Key: key, UID: uid, Revision: rv, Live: true}
}

// plain is a table of a kind about which there is no more to say.
type plain[T Object] struct{}

func (plain[T]) finished(*T) bool                                           { return false }
func (plain[T]) wanted(*State, *T) bool                                     { return true }
func (plain[T]) since(*State, *T) int64                                     { return 0 }
func (plain[T]) room(*State, *T) bool                                       { return true }
func (plain[T]) claim(*State, time.Time, *T, *Effects)                      {}
func (plain[T]) missed(*State, *T, bool, Cause, *Effects)                   {}
func (plain[T]) places(s *State) []string                                   { return s.store.Namespaces() }
func (plain[T]) compare(*State, time.Time, store.Versioned[T])              {}
func (plain[T]) replaced(*State, *T) (l lost, is bool)                      { return l, false }
func (plain[T]) compared(*State, time.Time, []store.Versioned[T], *Effects) {}
func (plain[T]) believed(*State) []store.Dirty                              { return nil }
