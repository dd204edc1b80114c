// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// inquiry is a round of questions about the objects of a kind.
type inquiry struct {
	waiting map[object]bool
	// sampled is true where the answers stand for those that were not asked; spoiled since
	// one of them was shown, or went, before it was answered.
	sampled, spoiled bool
	// there is true once an object was there, mayNot where one may not be asked for, failed
	// where the question has failed too often.
	there, mayNot, failed bool
	// asked counts the objects that are asked for, gone and refused the answers that one is
	// gone, or may not be asked for.
	asked, gone, refused int
	heard                time.Time // when the last answer came
}

// isGone takes in an answer that an object is gone: there is none, or it has finished, or
// another has its name.
func (q *inquiry) isGone(id object) {
	if q != nil {
		delete(q.waiting, id)
		q.gone++
	}
}

// speaks reports whether a sample stands for what was not asked for: most of it is gone. A few
// answers of a member in trouble, which fails the others, say nothing of thousands.
func (q *inquiry) speaks() bool { return q.sampled && !q.spoiled && 2*q.gone >= q.asked }

const (
	// usualSample is how many objects are asked for one by one; of more, a sample of that
	// many, and of each replica that would be emptied at least one.
	usualSample = 200
	// askLimit is how long a question may be under way while no answer comes, askFailures
	// how many in a row may fail before a round goes on without the object.
	askLimit    = 30 * time.Second
	askFailures = 3
)

// inquire asks for the objects of a kind that its lists lack: for all of them if they
// are few or the lists are known to be wrong, else for a sample.
func (s *State) inquire(now time.Time, kind Kind, out *Effects) {
	var open []*absence
	q := &inquiry{waiting: map[object]bool{}}
	for _, a := range s.lacking(kind) {
		switch {
		case a.state == asking, a.state == askFailed && a.failures < askFailures: // in the round before
			q.waiting[a.id] = true
		case a.state == isThere:
		case a.past, a.id.Kind == Manual && s.baseline.writtenIn(a.id.Key) == nil: // the answer would be worth nothing
			a.state, q.mayNot = mayNotAsk, true
		default:
			a.state, open = notAsked, append(open, a)
		}
	}
	if len(open) == 0 && !q.mayNot {
		switch {
		case len(s.lacking(kind)) == 0:
			s.contradicted[kind], s.tries[kind] = time.Time{}, 0
		case len(q.waiting) == 0: // all of it is there
			s.dueBy(kind, now.Add(s.backoff(kind)))
		}
		return
	}
	if len(open) > s.sampled && s.contradicted[kind].IsZero() {
		open, q.sampled = s.sample(open), true
	}
	s.inquiries[kind], q.asked = q, len(q.waiting)+len(open)
	for _, a := range open {
		s.ask(now, a, q, out)
	}
	if len(q.waiting) == 0 {
		s.inquired(now, kind, q, out)
	}
}

func (s *State) ask(now time.Time, a *absence, q *inquiry, out *Effects) {
	a.state, a.asked = asking, now
	q.waiting[a.id] = true
	r := Read{Kind: a.id.Kind, Key: a.id.Key, UID: a.uid, Epoch: s.quarantine.epochs[a.id.Kind]}
	if r.Kind == Manual {
		r.Objects = s.baseline.writtenIn(r.Key)
		for _, rv := range s.store.ManualRevisions(r.Key) {
			r.Revision = max(r.Revision, rv)
		}
	}
	out.Read = append(out.Read, r)
}

// sample chooses from absent objects, of each replica that would be emptied one.
func (s *State) sample(all []*absence) []*absence {
	s.dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	emptied := map[syncer.Key]bool{}
	var chosen, rest []*absence
	for _, a := range all {
		needed := false
		for _, replica := range a.replicas {
			if seen := s.store.SeenEndpoints(replica, a.id.Kind == Services); seen == 0 && !emptied[replica] {
				emptied[replica], needed = true, true
			}
		}
		if needed {
			chosen = append(chosen, a)
		} else {
			rest = append(rest, a)
		}
	}
	if room := s.sampled - len(chosen); room > 0 {
		chosen = append(chosen, rest[:min(room, len(rest))]...)
	}
	return sortAbsences(chosen)
}

// failed has a question asked again. That it fails says nothing of the object, however often
// it does: without the right alone lists have to do.
func (a *absence) failed(now time.Time, q *inquiry) {
	a.state, a.asked = askFailed, now.Add(time.Second<<min(a.failures, 4))
	if a.failures++; a.failures >= askFailures && q != nil {
		q.failed = true
		delete(q.waiting, a.id) // the next list asks for it
	}
}

// askAgain asks again where questions have failed, or were lost.
func (s *State) askAgain(now time.Time, out *Effects) {
	for kind := range s.inquiries {
		q := s.inquiries[kind]
		if q == nil {
			continue
		}
		for _, a := range s.lacking(Kind(kind)) {
			switch {
			case a.state == asking && now.Sub(a.asked) >= askLimit && now.Sub(q.heard) >= askLimit:
				a.failed(now, q)
			case a.state == askFailed && q.waiting[a.id] && !now.Before(a.asked):
				s.ask(now, a, q, out)
			}
		}
		if len(q.waiting) == 0 {
			s.inquired(now, Kind(kind), q, out)
		}
	}
}

// inquired ends a round of questions.
func (s *State) inquired(now time.Time, kind Kind, q *inquiry, out *Effects) {
	s.inquiries[kind], s.believed[kind] = nil, nil
	var open []*absence
	for _, a := range s.lacking(kind) {
		if a.state == notAsked {
			open = append(open, a)
		}
	}
	switch {
	case q.there:
		s.dueBy(kind, now.Add(s.backoff(kind)))
		if len(open) > 0 { // what was not asked for is, one by one
			s.inquire(now, kind, out)
		}
	case q.mayNot:
		s.settleAll(now, s.askable(kind, open, q), "asked", out)
		s.dueBy(kind, now.Add(s.backoff(kind)))
	case q.sampled && q.spoiled: // others are asked instead
		s.inquire(now, kind, out)
	case q.speaks():
		s.settleAll(now, s.withoutFailed(kind, open), "asked", out)
	}
	there := slices.ContainsFunc(s.lacking(kind), func(a *absence) bool { return a.state == isThere })
	if q.failed || there && !q.there {
		s.dueBy(kind, now.Add(s.backoff(kind)))
	}
	if !q.there && !there {
		s.contradicted[kind] = time.Time{}
	}
	if len(s.lacking(kind)) == 0 {
		s.tries[kind] = 0
	}
}

// withoutFailed are those objects that a sample speaks for though some of it gave no answer:
// of replicas of which nothing failed.
func (s *State) withoutFailed(kind Kind, open []*absence) []*absence {
	failed := map[syncer.Key]bool{}
	for _, a := range s.lacking(kind) {
		for _, replica := range a.replicas {
			failed[replica] = failed[replica] || a.state == askFailed
		}
	}
	return slices.DeleteFunc(open, func(a *absence) bool {
		return slices.ContainsFunc(a.replicas, func(replica syncer.Key) bool { return failed[replica] })
	})
}

// askable are those objects that a sample speaks for of which some were refused: rights may
// be missing in a namespace alone. There nothing may be asked for, nor anywhere where most
// was refused; what the sample says nothing of is asked for by the next list.
func (s *State) askable(kind Kind, open []*absence, q *inquiry) (spokenFor []*absence) {
	refused := map[string]bool{}
	for _, a := range s.lacking(kind) {
		refused[a.id.Key.Namespace] = refused[a.id.Key.Namespace] || a.state == mayNotAsk
	}
	for _, a := range open {
		switch {
		case refused[a.id.Key.Namespace]:
			a.state = mayNotAsk
		case q.speaks():
			spokenFor = append(spokenFor, a)
		case 2*q.refused >= q.asked:
			a.state = mayNotAsk
		}
	}
	return s.withoutFailed(kind, spokenFor)
}

// lookTwice is for objects that may not be asked for: what two lists lack, ConfirmAfter
// apart, goes, unless it is too much of the member. After the store went back the first that is
// believed begins that anew.
func (s *State) lookTwice(now time.Time, kind Kind, losses []loss, before map[syncer.Key]int, empty bool, out *Effects) {
	var confirmed []*absence
	waits := false
	for _, a := range s.lacking(kind) {
		if a.state == mayNotAsk && s.lost(kind, a.id.Key.Namespace) {
			a.since, a.state = now, notAsked
		}
		if a.state == mayNotAsk {
			waits = true
			if !s.lackedAgain(a, now).Before(a.since.Add(s.cfg.ConfirmAfter)) {
				confirmed = append(confirmed, a)
			}
		}
	}
	if !waits {
		return
	}
	lost, total := 0, 0
	for i := range losses {
		lost += losses[i].lost()
	}
	for _, n := range before {
		total += n
	}
	if kind == Manual {
		empty = lost > s.cfg.MinEndpoints && !slices.ContainsFunc(losses, func(l loss) bool { return l.after > 0 })
	}
	if s.cfg.confirms(lost, max(total, lost), empty) {
		s.settleAll(now, confirmed, "relist", out)
	}
	if len(s.lacking(kind)) > 0 {
		s.dueBy(kind, now.Add(s.backoff(kind)))
	}
}

// lackedAgain is when lists last lacked an object: now, or where two kinds of list
// speak of it, when the older of them was read.
func (s *State) lackedAgain(a *absence, now time.Time) time.Time {
	if a.id.Kind != Manual {
		return now
	}
	if s.listedAt[Endpoints].Before(s.listedAt[Slices]) {
		return s.listedAt[Endpoints]
	}
	return s.listedAt[Slices]
}
