// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// answered takes in what came of a question.
func (s *State) answered(now time.Time, e Answer, out *Effects) {
	if e.Epoch != s.quarantine.epochs[e.Kind] {
		return
	}
	if w, _ := e.Object.(Written); e.Kind == Manual && (e.Outcome == There || e.Outcome == NotFound) {
		s.settleAll(now, s.unwritten(now, e.Read, w), "asked", out)
	}
	a := s.absent[object{e.Kind, e.Key}]
	if a == nil || a.state != asking || a.uid != e.UID {
		if e.Outcome == NotFound {
			s.notFound(now, e.Read, out)
		} else {
			s.thereIs(now, nil, e.Object, nil, out)
		}
		return
	}
	q := s.inquiries[e.Kind]
	if q != nil {
		q.heard = now
	}
	switch e.Outcome {
	case NotFound:
		q.isGone(a.id)
		s.notFound(now, e.Read, out)
	case There:
		s.thereIs(now, a, e.Object, q, out)
	case Refused:
		if a.state, a.asked = mayNotAsk, now; q != nil {
			q.mayNot = true
			q.refused++
			delete(q.waiting, a.id)
		}
	default:
		a.failed(now, q)
	}
	if q != nil && len(q.waiting) == 0 {
		s.inquired(now, e.Kind, q, out)
	}
}

// notFound takes in that there is no object of a name: none of that UID will be there again,
// whatever was shown of it since the question.
func (s *State) notFound(now time.Time, r Read, out *Effects) {
	id := object{r.Kind, r.Key}
	if r.UID != "" && !s.lost(r.Kind, r.Key.Namespace) {
		s.noteGone(now, id, r.UID)
		if l, held := s.heldAs(id); held && l.uid == r.UID && s.absent[id] == nil {
			s.lacks(now, l, true)
		}
	}
	if a := s.absent[id]; a != nil && a.uid == r.UID {
		s.settle(now, a, "asked", out)
	}
}

// thereIs takes in an object that was asked for, whatever its kind.
func (s *State) thereIs(now time.Time, a *absence, o any, q *inquiry, out *Effects) {
	switch v := o.(type) {
	case podVersion:
		isThereStill(s, now, &pods{}, a, v, q, out)
	case serviceVersion:
		isThereStill(s, now, services{}, a, v, q, out)
	case endpointsVersion:
		isThereStill(s, now, &manual[store.Endpoints]{}, a, v, q, out)
	case sliceVersion:
		isThereStill(s, now, &manual[store.Slice]{}, a, v, q, out)
	case Written:
		s.isWritten(now, a, v, q, out)
	}
}

// isWritten takes in what is written by hand for a Service, all of it: what stands
// beside that is gone.
func (s *State) isWritten(now time.Time, a *absence, w Written, q *inquiry, out *Effects) {
	if a == nil {
		return
	}
	stood := len(a.baseline)
	if w.Endpoints != nil {
		isWrittenIn(s, now, &manual[store.Endpoints]{}, *w.Endpoints, out)
	}
	for _, v := range w.Slices {
		isWrittenIn(s, now, &manual[store.Slice]{}, v, out)
	}
	if q != nil && len(a.baseline) < stood {
		q.there, s.contradicted[Manual] = true, now
	}
	s.settle(now, a, "asked", out)
}

// unwritten are the absent objects of a Service that were asked for and are not among what is
// written by hand for it. So is what was held when it was asked for.
func (s *State) unwritten(now time.Time, r Read, w Written) (gone []*absence) {
	missed := func(id object) bool { return slices.Contains(r.Objects, id.writtenIn()) && !w.has(id) }
	for o, rv := range s.store.ManualRevisions(r.Key) {
		if l := s.lostManual(o); rv <= r.Revision && missed(l.id) && s.absent[l.id] == nil && !s.lost(l.id.Kind, r.Key.Namespace) {
			s.lacks(now, l, true)
		}
	}
	for id, a := range s.absent {
		if id.Kind != Manual && a.service == r.Key && !a.past && missed(id) {
			gone = append(gone, a)
			if slices.Contains(w.NotFound, id.writtenIn()) {
				s.noteGone(now, id, a.uid)
			}
		}
	}
	return sortAbsences(gone)
}

// writtenIn is how an object of hand-written endpoints is on record.
func (o object) writtenIn() string {
	if o.Kind == Endpoints {
		return syncer.WrittenInEndpoints
	}
	return o.Key.Name
}

// has reports whether an object is among what is written by hand for a Service.
func (w *Written) has(id object) bool {
	if id.Kind == Endpoints {
		return w.Endpoints != nil
	}
	return slices.ContainsFunc(w.Slices, func(v sliceVersion) bool { return v.Object.Key == id.Key })
}

func isWrittenIn[T Object](s *State, now time.Time, t table[T], v store.Versioned[T], out *Effects) {
	if rv, held := t.revision(s, &v.Object); t.wanted(s, &v.Object) && (!held || v.RV > rv) {
		s.reappeared(t.id(&v.Object))
		heard(s, now, t, &v, "asked", out)
	}
}

// isThereStill takes in an object that is there although lists lack it, unless it has finished,
// or is another one of its name that came after them. What it says of itself is hard evidence,
// also where nobody waits for it any more (a is nil).
func isThereStill[T Object](s *State, now time.Time, t table[T], a *absence, v store.Versioned[T], q *inquiry, out *Effects) {
	rv, held := t.revision(s, &v.Object)
	if a != nil && a.rv > 0 {
		rv, held = a.rv, true
	}
	past := held && v.RV != 0 && v.RV < rv || // the store went back; its lists will tell
		s.quarantine.doubted(t.kind()) && !s.quarantine.news(t.kind(), v.RV, rv)
	another := a != nil && a.uid != "" && t.uid(&v.Object) != a.uid
	if another && !past {
		s.noteGone(now, a.id, a.uid)
	}
	switch {
	case a == nil:
		if !outdated(s, t, v) && v.RV > rv {
			heard(s, now, t, &v, "asked", out)
		}
		return
	case past:
	case t.finished(&v.Object) || another && !(t.wanted(s, &v.Object) && t.room(s, &v.Object)):
		q.isGone(a.id)
		s.noteRemoved(a.id, v.RV)
		s.settle(now, a, "asked", out)
		return
	case another && !t.listed(s, v): // it came after the list
		q.isGone(a.id)
		s.reappeared(a.id) // or what replaces it would take it
		heard(s, now, t, &v, "asked", out)
		return
	case another && (s.lists[a.id.Kind] != nil || s.listedAt[a.id.Kind].After(a.asked)):
		s.settle(now, a, "asked", out) // a list has come since that may know that the other is gone, too
		s.absent[a.id] = &absence{lost: lost{id: a.id, uid: t.uid(&v.Object)}, since: now, reported: true, state: askFailed, asked: now}
		if q != nil {
			q.waiting[a.id] = true
		}
		return
	default:
		dirty := t.hear(s, now, v, out)
		a.uid = t.uid(&v.Object)
		s.refile(a, t.lost(s, &v.Object)) // it may be another's by now
		t.met(s, now, &v.Object, out)
		t.claim(s, now, &v.Object, out)
		s.announce(out, Change{Cause: objectCause(kindName(a.id.Kind), a.id.Key, a.uid, 0, "asked"), Dirty: dirty})
	}
	if s.absent[a.id] == a {
		a.state = isThere
	}
	if q != nil {
		q.there = true
		delete(q.waiting, a.id)
		s.askBelieved(now, a.id.Kind, q, out)
	}
	if s.contradicted[a.id.Kind].IsZero() {
		s.contradicted[a.id.Kind] = now
	}
}

// heldAs is what would be lost with an object that the table has.
func (s *State) heldAs(id object) (l lost, held bool) {
	switch id.Kind {
	case Pods:
		if p := s.store.Pod(id.Key); p != nil {
			return (*pods)(nil).lost(s, p), true
		}
	case Services:
		if svc := s.store.Service(id.Key); svc != nil {
			return services{}.lost(s, svc), true
		}
	case Endpoints, Slices:
		o := store.ManualObject{Service: id.Key}
		if id.Kind == Slices {
			o = s.store.ManualSlice(id.Key)
		}
		l = s.lostManual(o)
		return l, l.uid != ""
	}
	return l, false
}

// has reports whether the table has an object, and at what revision.
func (s *State) has(a *absence) (rv uint64, has bool) {
	switch a.id.Kind {
	case Pods:
		return s.store.PodRevision(a.id.Key)
	case Services:
		return s.store.ServiceRevision(a.id.Key)
	case Endpoints, Slices:
		return s.store.ManualRevision(a.manual())
	}
	return 0, false
}
