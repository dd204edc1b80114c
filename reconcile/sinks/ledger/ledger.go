// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// Options bound what is told, and when.
type Options struct {
	Windows Windows
	// MaxServices and MaxBytes bound one batch; the latter is estimated, and one Service
	// is told in any case.
	MaxServices, MaxBytes int
}

// Ledger is what one receiver knows of each Service, beside what is now. Between Begin and
// End there is a receiver to tell; out of that the Ledger only keeps what is now. It is for
// one goroutine at a time, and times must not go back.
type Ledger struct {
	opts    Options
	entries map[syncer.Key]*entry
	// pending are the entries that differ from what the receiver has, or may.
	pending map[syncer.Key]*entry
	telling bool
	// batch is what is in flight.
	batch []syncer.Key
	// limit is how many Services the next batch may tell of.
	limit int
	// buried are Services that went out of telling, the oldest first: they are remembered for
	// a while, for Suspect.
	buried []syncer.Key
	// next is the earliest time at which something may be due; zero: nothing is.
	next time.Time
	// generation is the last that was given, refusedAlone how many Services were refused by
	// themselves since the last acknowledgement, and never before.
	generation   int64
	refusedAlone int
}

// entry is one Service.
type entry struct {
	// now is what it is, nil if it does not exist; known is false until that was told.
	now   *Service
	known bool
	// acked is what the receiver acknowledged last, nil: nothing; with its generation.
	acked      *Service
	generation int64
	// doubt is set when the receiver may have something else than acked; blind, when nobody
	// knows what: then it is told what is, and nothing waits for a window.
	doubt, blind bool
	// tried is what was told last, if that was not acknowledged.
	tried *attempt
	// flying is set while tried is in flight; anew, when it is to be told once more after.
	flying, anew bool
	difference
	// doubted is since when there is doubt, overdue since when something that was due is not
	// acknowledged.
	doubted, overdue time.Time
	// refusals counts how often it was refused by itself; until parked it is left alone.
	// suspect is set when that is forgotten because others were refused, too, or counted by
	// another leader: it is told after all that is not, and with nothing that is not.
	refusals int
	parked   time.Time
	suspect  bool
	// less is when it was last heard, out of telling, that there is less of it.
	less time.Time
}

// attempt is what was told; without a generation it is to be told by a new one.
type attempt struct {
	service    *Service
	generation int64
}

// New returns a Ledger without a receiver.
func New(o Options) *Ledger {
	return &Ledger{opts: o, entries: map[syncer.Key]*entry{}, pending: map[syncer.Key]*entry{}}
}

// Record is what a receiver acknowledged of one Service.
type Record struct {
	Key        syncer.Key
	Generation int64
	// Service is nil where nothing was acknowledged.
	Service *Service
	// Doubt is set when something else may have reached it, Refused when that was found fault
	// with by itself.
	Doubt, Refused bool
}

// Begin takes what a receiver acknowledged. Generations will be greater than the one given,
// and than any in the records.
func (l *Ledger) Begin(records []Record, generation int64, at time.Time) {
	l.End()
	l.telling, l.limit, l.generation, l.refusedAlone = true, l.opts.MaxServices, 0, 0
	l.Learn(records, generation, at)
	for key, e := range l.entries {
		l.settle(key, e, at)
	}
}

// Learn takes what else there is to know of what a receiver acknowledged, at any time: the
// greater generation of a Service counts, and what is in doubt or refused by either stays so.
func (l *Ledger) Learn(records []Record, generation int64, at time.Time) {
	l.generation = max(l.generation, generation)
	for _, r := range records {
		l.generation = max(l.generation, r.Generation)
		e := l.entry(r.Key)
		if r.Generation >= e.generation {
			e.acked, e.generation = r.Service, r.Generation
		}
		switch {
		case e.tried != nil:
			e.again(at) // it may be of a lesser generation
		case r.Doubt:
			e.again(at)
			e.blind = true
		}
		e.suspect = e.suspect || r.Refused
		l.settle(r.Key, e, at)
	}
}

// remembered is for how long it is known, out of telling, that there was a Service.
const remembered = 10 * time.Minute

// Suspect puts in doubt what was heard, since a time and out of telling, to be less: another
// who told the receiver then may have been unable to leave a record.
func (l *Ledger) Suspect(since, at time.Time) {
	for key, e := range l.entries {
		if e.less.IsZero() {
			continue
		}
		if e.less.After(since) {
			e.again(at)
			e.blind = true
		}
		e.less = time.Time{}
		l.settle(key, e, at)
	}
	l.buried = nil
}

// bury remembers for a while that there was a Service.
func (l *Ledger) bury(key syncer.Key, at time.Time) {
	l.buried = append(l.buried, key)
	for n, key := range l.buried {
		e := l.entries[key]
		gone := e != nil && e.now == nil
		if gone && at.Sub(e.less) < remembered {
			l.buried = l.buried[n:]
			return
		}
		if gone {
			delete(l.entries, key)
		}
	}
	l.buried = nil
}

// again makes an entry be told anew.
func (e *entry) again(at time.Time) {
	if e.flying {
		e.anew = true
		return
	}
	if e.tried != nil {
		e.tried = &attempt{service: e.tried.service}
	}
	if !e.doubt {
		e.doubt, e.doubted = true, at
	}
}

// End forgets what the receiver knows.
func (l *Ledger) End() {
	l.telling, l.batch, l.next = false, nil, time.Time{}
	clear(l.pending)
	for key, e := range l.entries {
		if e.now == nil && e.less.IsZero() {
			delete(l.entries, key)
			continue
		}
		*e = entry{now: e.now, known: true, less: e.less}
	}
}

func (l *Ledger) entry(key syncer.Key) *entry {
	e := l.entries[key]
	if e == nil {
		e = &entry{}
		l.entries[key] = e
	}
	return e
}

// Tell takes what a Service is now; nil: it does not exist. It reports whether that is news.
func (l *Ledger) Tell(key syncer.Key, now *Service, at time.Time) (news bool) {
	e := l.entries[key]
	switch {
	case e == nil && now == nil:
		return false
	case e != nil && e.known && e.now.Equal(now):
		return false
	case e == nil:
		e = l.entry(key)
	}
	if !l.telling && e.known && len((&difference{}).takenAway(e.now, now, at)) > 0 {
		e.less = at
	}
	e.now, e.known, e.parked = now, true, time.Time{}
	l.settle(key, e, at)
	return true
}

// Keys are the Services that are, or that the receiver knows.
func (l *Ledger) Keys() []syncer.Key {
	return slices.SortedFunc(maps.Keys(l.entries), syncer.Key.Compare)
}

// Unknown are the Services that the receiver knows and of which was not told yet what they are.
func (l *Ledger) Unknown() []syncer.Key {
	return slices.DeleteFunc(l.Keys(), func(key syncer.Key) bool { return l.entries[key].known })
}

// base is what the receiver has, as far as windows go: if it takes what is in flight; in
// doubt, the better of what it may have.
func (e *entry) base() *Service {
	switch {
	case e.flying:
		return e.tried.service
	case e.blind:
		return e.now
	case e.tried != nil:
		return better(e.acked, e.tried.service)
	}
	return e.acked
}

// settle brings an entry up to date with what is now, and with what the receiver has.
func (l *Ledger) settle(key syncer.Key, e *entry, at time.Time) {
	if !l.telling {
		if e.now == nil {
			l.bury(key, at)
		}
		return
	}
	if e.known {
		e.differ(e.base(), e.now, at)
	}
	if e.flying || e.doubt || e.differs() {
		l.pending[key] = e
		if !e.flying && !e.doubt {
			e.overdue = e.difference.due(l.opts.Windows)
		} else if e.overdue.IsZero() {
			e.overdue = at
		}
		l.next = earlier(l.next, l.due(e))
		return
	}
	delete(l.pending, key)
	e.overdue = time.Time{}
	switch {
	case !e.known:
	case e.now == nil && e.less.IsZero():
		delete(l.entries, key)
	default:
		e.acked = e.now // they are equal: one is enough
	}
}

// due is when an entry is to be told; zero: not before something happens.
func (l *Ledger) due(e *entry) (due time.Time) {
	switch {
	case e.flying || !e.known:
		return time.Time{}
	case e.doubt:
		due = e.doubted
	default:
		due = e.difference.due(l.opts.Windows)
	}
	if !due.IsZero() && due.Before(e.parked) {
		return e.parked
	}
	return due
}

// Next is when Take is worth a try; zero: not before something is told.
func (l *Ledger) Next() time.Time {
	if len(l.batch) > 0 {
		return time.Time{}
	}
	return l.next
}

// Resync makes everything be told anew.
func (l *Ledger) Resync(at time.Time) (services int) {
	for key, e := range l.entries {
		if !l.telling || e.now == nil && e.acked == nil {
			continue
		}
		services++
		if e.acked != nil || e.tried != nil { // else it was never told
			e.again(at)
		}
		l.settle(key, e, at)
	}
	return services
}

// Records are what the receiver acknowledged, sorted; in doubt is what something else may
// have reached, or may before the next Records are taken.
func (l *Ledger) Records() []Record {
	records := make([]Record, 0, len(l.entries))
	for _, key := range l.Keys() {
		e := l.entries[key]
		doubt := l.pending[key] != nil
		if e.acked != nil || doubt {
			records = append(records, Record{Key: key, Generation: e.generation, Service: e.acked, Doubt: doubt, Refused: doubt && e.refused()})
		}
	}
	return records
}

// Pending are the Services that differ, or may, from what the receiver has; sorted.
func (l *Ledger) Pending() []syncer.Key {
	return slices.SortedFunc(maps.Keys(l.pending), syncer.Key.Compare)
}

// State is what there is to say about a Ledger.
type State struct {
	// Services exist; Pending are not acknowledged as they are, Refused are among those.
	Services, Pending, Refused int
	// Oldest is when the first of these that is not refused was to be told, or is; zero: there
	// is none.
	Oldest     time.Time
	Generation int64
}

// State says how far the receiver is behind.
func (l *Ledger) State() State {
	s := State{Pending: len(l.pending), Generation: l.generation}
	for _, e := range l.entries {
		if e.now != nil {
			s.Services++
		}
	}
	for _, e := range l.pending {
		if e.refused() {
			s.Refused++
		} else {
			s.Oldest = earlier(s.Oldest, e.overdue)
		}
	}
	return s
}
