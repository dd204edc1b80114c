// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"time"

	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// writtenKey names what is kept of the hand-written endpoints of a Service: an
// object that a list lacks, or all of them.
type writtenKey struct {
	store.WrittenObject
	// first is true when the first lists of the Service are not believed.
	first bool
}

// writtenList takes in a complete list of hand-written endpoints: plan compares it
// with what is held. Each watch has its own looks; that a list went back in time is
// a matter of the member. missing are the objects that the list lacks and that are
// kept from now on.
func (p *protection) writtenList(looks *guard.Looks, older bool, plan func() *store.WrittenReplacement) (dirty []store.Dirty, missing []store.AbsentWritten) {
	p.recall()
	p.mu.Lock()
	defer p.mu.Unlock()
	now, l := time.Now(), &p.lists[guardedWritten]
	r := plan()
	if again, doubted := l.looks.Doubt(now, p.limits, older); doubted {
		l.sooner(now, again)
		r.Refuse()
		return nil, nil
	}
	d := looks.Look(now, p.limits, loss(r.Impact, false))
	keep := map[store.WrittenObject]bool{}
	for _, a := range r.Absent {
		_, before := p.written[writtenKey{a.WrittenObject, false}]
		if d.Verdict == guard.Pass || d.Confirmed && before || !contains(r.Impact.Losing, a.Replica) {
			continue
		}
		keep[a.WrittenObject] = true
		if !before {
			missing = append(missing, a)
		}
	}
	p.keepWritten(now, r, keep)
	if len(keep) == 0 {
		looks.Clear()
	} else {
		l.sooner(now, d.Again)
	}
	withheld := p.judgeWritten(now, r)
	return r.Apply(
		func(a store.AbsentWritten) bool { return keep[a.WrittenObject] },
		func(f store.FirstWritten) bool { return withheld[f.Service] },
	), missing
}

// keepWritten notes which objects of a list are kept. The caller holds mu.
func (p *protection) keepWritten(now time.Time, r *store.WrittenReplacement, keep map[store.WrittenObject]bool) {
	for key := range p.written {
		if !key.first && !keep[key.WrittenObject] && r.About(key.WrittenObject) {
			delete(p.written, key)
		}
	}
	for o := range keep {
		if key := (writtenKey{o, false}); p.written[key].IsZero() {
			p.written[key] = now
		}
	}
}

// sooner notes that something is kept, and that another list is due then or earlier.
func (l *listGuard) sooner(now, again time.Time) {
	if !l.again.IsZero() && l.again.Before(again) {
		again = l.again
	}
	l.keep(now, again)
}

// sawWritten notes that an object has been seen again, or deleted. Where first
// lists are not believed, what is there by now may be worth another look.
func (p *protection) sawWritten(o store.WrittenObject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, writtenKey{o, false})
	if _, withheld := p.written[firstOf(o.Service)]; withheld {
		now := time.Now()
		p.lists[guardedWritten].sooner(now, now.Add(p.limits.ConfirmAfter))
	}
}

// forgetWritten notes that a Service is not followed any more.
func (p *protection) forgetWritten(service syncer.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.starting.accepted {
		p.starting.standing = p.unread()
	}
	for key := range p.written {
		if key.Service == service {
			delete(p.written, key)
		}
	}
}

// releaseWritten lets go of what a key names. The caller holds mu.
func (p *protection) releaseWritten(key writtenKey) []store.Dirty {
	delete(p.written, key)
	s := p.m.store
	switch {
	case key.first:
		return s.BelieveWritten(key.Service)
	case key.Slice == "":
		return s.ReplaceEndpoints(key.Service, nil, 0)
	default:
		slice := store.Slice{Key: syncer.Key{Namespace: key.Service.Namespace, Name: key.Slice}, Service: key.Service.Name}
		return s.DeleteSlice(store.Versioned[store.Slice]{Object: slice})
	}
}
