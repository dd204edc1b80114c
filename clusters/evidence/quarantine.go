// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// quarantine is what is known of a member whose store went back in time, as after an
// etcd was restored from a backup. Its lists are doubted until one that was read
// ConfirmAfter later or more shows the same.
type quarantine struct {
	err error // why; nil when there is none
	// since is when a list of the kind was seen to be from the past; zero once another
	// one confirmed it.
	since [kinds]time.Time
	// past are the revisions of those lists: what is above happened since.
	past [kinds]uint64
	// anew are the kinds that have been listed and believed since.
	anew [kinds]bool
	// unsure are Services that had lost their selector, and wait for what is written by hand:
	// that may be of the time that was lost, until they are heard of again.
	unsure map[syncer.Key]bool
	// epochs count, by kind, how often the member went back in time: see Read.
	epochs [kinds + 1]uint64
}

// wentBack takes in that objects of some kinds are seen to be of another past than what is
// known: nothing that was asked about them is of any worth, nor would be what is asked now.
func (s *State) wentBack(now time.Time, of ...Kind) {
	s.departures = departures{} // in a time that was lost
	s.doubtSelectors(now)
	maps.DeleteFunc(s.removed, func(id object, _ removed) bool { return slices.Contains(of, id.Kind) })
	for _, kind := range of {
		s.quarantine.epochs[kind]++
		s.inquiries[kind], s.believed[kind] = nil, nil
	}
	for id, a := range s.absent {
		if slices.Contains(of, id.Kind) {
			if a.past = true; a.state != isThere {
				a.state = mayNotAsk
			}
		}
	}
}

// isFurther reports whether a list of a kind is older yet than that which put it in doubt: the
// store was restored once more.
func (q *quarantine) isFurther(kind Kind, revision uint64) bool {
	return q.doubted(kind) && revision < q.past[kind]
}

// doubtSelectors notes which Services are unsure when the member is seen to have gone back
// in time, and lists them anew.
func (s *State) doubtSelectors(now time.Time) {
	for key := range s.store.ManualSources() {
		if _, effective := s.store.Selected(key); effective != nil {
			if s.quarantine.unsure == nil {
				s.quarantine.unsure = map[syncer.Key]bool{}
			}
			s.quarantine.unsure[key] = true
			s.dueBy(Services, now)
		}
	}
}

// sure notes that a Service was heard of. If it has no selector indeed, what is written by
// hand for it is read again.
func (s *State) sure(now time.Time, service syncer.Key) {
	if s.quarantine.unsure[service] {
		delete(s.quarantine.unsure, service)
		s.dueBy(Manual, now)
	}
}

// doubts reports whether a list read at a revision is not to be believed; older says
// that it is from the past.
func (q *quarantine) doubts(now time.Time, l Limits, kind Kind, older bool, revision uint64) bool {
	if !l.Lists || !older && (q.since[kind].IsZero() || now.Sub(q.since[kind]) >= l.ConfirmAfter) {
		q.since[kind] = time.Time{}
		return false
	}
	if older {
		q.since[kind], q.past[kind] = now, revision
		if q.anew[kind] = false; q.err == nil {
			q.err = fmt.Errorf("%w: a list of %s shows an older revision than was seen before", ErrWentBack, kind)
		}
	}
	return true
}

// news reports whether a list in doubt shows an object at a revision that is later than
// the past: than what is held of it, or where nothing is, than the list that was doubted
// first. That happened since, and counts like an event.
func (q *quarantine) news(kind Kind, rv, held uint64) bool {
	if held == 0 {
		held = q.past[kind]
	}
	return rv > held
}

// doubted reports whether lists of a kind are doubted.
func (q *quarantine) doubted(kind Kind) bool { return !q.since[kind].IsZero() }

// endQuarantine ends the quarantine once Services and Pods have been listed anew, and
// nothing is doubted: what the lists do not show was for others to judge. What is written
// by hand may be doubted for as long as it may not be listed; nobody waits for that.
func (s *State) endQuarantine() {
	q := &s.quarantine
	for kind := range q.since {
		if kind := Kind(kind); kind <= Pods && !q.anew[kind] || q.doubted(kind) && s.reach.watches[kind].phase != Denied {
			return
		}
	}
	q.err = nil
}

// lost reports whether none of the lists of a kind was believed since the member went back.
func (q *quarantine) lost(kind Kind) bool { return q.err != nil && !q.anew[kind] }

// end ends the quarantine by hand. It returns the kinds of which nothing was taken in.
func (q *quarantine) end() (doubted []Kind) {
	for kind := range q.since {
		if q.doubted(Kind(kind)) {
			doubted = append(doubted, Kind(kind))
		}
	}
	q.since = [kinds]time.Time{}
	return doubted
}

// from is since when a kind is doubted; zero when none is.
func (q *quarantine) from() (since time.Time) {
	for _, at := range q.since {
		if !at.IsZero() && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return since
}
