// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// Change is what a receiver is told of one Service.
type Change struct {
	Key syncer.Key
	// Generation is greater than all that the receiver was told of the Service before, but
	// for what is told again: that has the one it had.
	Generation int64
	// Service is what it is; nil: it does not exist any more.
	Service *Service
	// Delta is what differs from what the receiver acknowledged last.
	Delta Delta
}

// Take returns what is to be told now: what takes something away first, then the longest due,
// and what was refused at the end. It returns nothing while a former batch is in flight. One
// of Acknowledged, Failed and Refused must follow.
func (l *Ledger) Take(at time.Time) []Change {
	if !l.telling || len(l.batch) > 0 {
		return nil
	}
	type candidate struct {
		key  syncer.Key
		lane int
		due  time.Time
	}
	var candidates []candidate
	l.next = time.Time{}
	for key, e := range l.pending {
		switch due := l.due(e); {
		case due.IsZero():
		case due.After(at):
			l.next = earlier(l.next, due)
		default:
			candidates = append(candidates, candidate{key, e.lane(l.opts.Windows, at), due})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.lane, b.lane), a.due.Compare(b.due), a.key.Compare(b.key))
	})
	var changes []Change
	bytes := 0
	for _, c := range candidates {
		e := l.entries[c.key]
		shown := e.shown(e.base(), e.now, l.opts.Windows, at, false)
		if !e.doubt && shown.Equal(e.acked) {
			continue
		}
		bytes += size(shown) + size(e.acked)
		alone := e.refusals > 0 // it may be what the receiver refuses all others for
		if n := len(changes); n > 0 && (alone || c.lane != candidates[0].lane && c.lane == laneRefused || n == l.limit || bytes > l.opts.MaxBytes) {
			l.next = earlier(l.next, c.due)
			if alone {
				continue
			}
			break
		}
		changes = append(changes, l.begin(c.key, e, shown, at))
		if alone {
			if len(candidates) > 1 {
				l.next = c.due
			}
			break
		}
	}
	return changes
}

// What is due is told in lanes.
const (
	laneRemoval = iota
	laneOther
	laneRefused
)

// refused reports whether the receiver found fault with the Service by itself, and took
// nothing of it since.
func (e *entry) refused() bool { return e.refusals > 0 || e.suspect }

func (e *entry) lane(w Windows, at time.Time) int {
	if e.refused() {
		return laneRefused
	}
	gone := e.gone
	if e.blind {
		gone, w = e.takenAway(e.acked, e.now, at), Windows{}
	}
	for _, began := range gone {
		if !at.Before(began.Add(w.Removals)) {
			return laneRemoval
		}
	}
	return laneOther
}

// begin puts an entry in flight.
func (l *Ledger) begin(key syncer.Key, e *entry, shown *Service, at time.Time) Change {
	if e.tried == nil || e.tried.generation == 0 || !e.tried.service.Equal(shown) {
		l.generation = max(l.generation+1, at.UnixMicro())
		e.tried = &attempt{shown, l.generation}
	}
	delta := DeltaOf(e.acked, shown)
	e.flying, e.blind = true, false
	l.batch = append(l.batch, key)
	l.settle(key, e, at)
	return Change{Key: key, Generation: e.tried.generation, Service: shown, Delta: delta}
}

// size is about how many bytes it takes to tell of a Service, half of what changed with it.
func size(s *Service) int {
	const head, each, port = 400, 160, 80
	bytes := head
	if s != nil {
		for i := range s.Endpoints {
			bytes += each + port*len(s.Endpoints[i].Ports)
		}
	}
	return bytes
}

// land ends the flight of a batch.
func (l *Ledger) land(at time.Time, each func(*entry)) {
	for _, key := range l.batch {
		e := l.entries[key]
		e.flying = false
		each(e)
		l.settle(key, e, at)
	}
	l.batch = nil
}

// Acknowledged says that the receiver took the batch.
func (l *Ledger) Acknowledged(at time.Time) {
	widespread := l.refusedAlone >= widespreadRefusals
	l.refusedAlone, l.limit = 0, min(2*l.limit, l.opts.MaxServices)
	l.land(at, func(e *entry) {
		e.acked, e.generation = e.tried.service, e.tried.generation
		e.tried, e.doubt, e.doubted, e.anew = nil, e.anew, at, false
		e.refusals, e.suspect, e.parked, e.overdue = 0, false, time.Time{}, time.Time{}
	})
	if !widespread {
		return
	}
	for key, e := range l.pending { // they were refused as all others were, or not
		e.parked, e.refusals, e.suspect = time.Time{}, 0, e.refused()
		l.settle(key, e, at)
	}
}

// Failed says that it is not known what became of the batch.
func (l *Ledger) Failed(at time.Time) {
	l.land(at, func(e *entry) { l.untaken(e, at) })
}

// untaken notes that the receiver may have what was tried, or not.
func (l *Ledger) untaken(e *entry, at time.Time) {
	e.doubted, e.doubt = at, true
	e.told(e.acked, e.tried.service, at.Add(-l.opts.Windows.Removals))
	if e.anew {
		e.anew = false
		e.again(at)
	}
}

const (
	// widespreadRefusals is after how many Services in a row that were never refused before it
	// is the receiver that is at fault.
	widespreadRefusals = 3
	// The first and the longest time for which a Service that is refused is left alone.
	parkFirst = 5 * time.Second
	parkMax   = 2 * time.Minute
)

// Refused says that the receiver finds fault with the batch. Half as many Services are told
// next, until it is known which it does not take: that is left alone for a while, or until
// it changes, and tried by itself. It reports whether that was found out now, and whether the
// receiver refuses all.
func (l *Ledger) Refused(at time.Time) (found, widespread bool) {
	if n := len(l.batch); n > 1 {
		l.limit = max(1, n/2)
		l.land(at, func(e *entry) { l.untaken(e, at) })
		return false, false
	}
	l.land(at, func(e *entry) {
		found = e.refusals == 0
		if e.refusals == 0 && !e.suspect {
			l.refusedAlone++
			widespread = l.refusedAlone >= widespreadRefusals
		}
		l.untaken(e, at)
		e.parked = at.Add(min(parkMax, parkFirst<<min(e.refusals, 10)))
		e.refusals++
	})
	return found, widespread
}
