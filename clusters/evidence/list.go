// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// table is how the objects of a kind are kept, and what comes of one that is shown:
// what lists, events and answers of all kinds need.
type table[T Object] interface {
	kind() Kind
	id(o *T) object
	uid(o *T) string
	finished(o *T) bool // it is there, and never again an endpoint
	cause(o *T, rv uint64, event string) Cause
	// since is when the member says that what an object shows began; 0: it does not say.
	since(s *State, is *T) int64
	// wanted is false for an object that says nothing of what is replicated.
	wanted(s *State, o *T) bool
	// room is false where the object is one more than is allowed.
	room(s *State, o *T) bool
	// revision is that at which the object is held, if it is; outdated is whether an
	// event of it is older than what is known; listed is whether the last list must show it.
	revision(s *State, o *T) (rv uint64, held bool)
	outdated(s *State, v store.Versioned[T]) bool
	listed(s *State, v store.Versioned[T]) bool

	// hear makes what an object says of itself the truth, put does so for one of a list
	// that is believed. met is called after that, whatever it said: it is about what stands
	// for it. claim is about what others have that is its own.
	hear(s *State, now time.Time, v store.Versioned[T], out *Effects) []store.Dirty
	put(s *State, now time.Time, v store.Versioned[T]) []store.Dirty
	met(s *State, now time.Time, o *T, out *Effects)
	claim(s *State, now time.Time, o *T, out *Effects)
	// remove takes out an object that was deleted; missed is about what stands for it.
	remove(s *State, now time.Time, v store.Versioned[T]) []store.Dirty
	missed(s *State, o *T, known bool, cause Cause, out *Effects)

	// lost is what is lost with an object that is held.
	lost(s *State, o *T) lost

	// Of a list: begin opens it, mark notes an object that it shows, compare looks at
	// one that is believed before any is put, and compared at all of them. lacking calls
	// yield for what it lacks in a place; of one from the past, revisions go back.
	// believed is called when all is put, ended when all is judged.
	begin(s *State, rv uint64, older bool)
	places(s *State) []string
	mark(s *State, o *T, rv uint64, older bool)
	// replaced is what is held in the place of an object that is another one.
	compare(s *State, now time.Time, v store.Versioned[T])
	replaced(s *State, o *T) (l lost, is bool)
	compared(s *State, now time.Time, shown []store.Versioned[T], out *Effects)
	lacking(s *State, place string, rv uint64, older bool, yield func(lost)) (looked int)
	believed(s *State) []store.Dirty
	ended(s *State, now time.Time, before map[syncer.Key]int, out *Effects)
}

// lost is an object that a list lacks.
type lost struct {
	id       object
	uid      string
	service  syncer.Key // of Endpoints and Slices
	replicas []syncer.Key
	addrs    []netip.Addr
	held     uint64 // the revision at which it was
}

// anyList is a list of whatever kind on its way.
type anyList interface {
	step(s *State, now time.Time, out *Effects) (more bool)
	recount(s *State)
}

// list is a complete list that is being taken in, in pieces: dating, comparing, looking
// for what it lacks, taking what it shows, judging. Dating comes first, because one
// object from the past puts all in doubt; comparing before taking, because a panic is to
// be noticed before a single pod is let go.
type list[T Object] struct {
	Listed[T]
	table[T]
	turn   int
	at     int      // how far the turn is
	where  []string // to look for what the list lacks
	empty  bool
	before map[syncer.Key]int // the ready endpoints by replica when the list came
	// doubted is true where the list is not believed: its member went back in time. Then
	// only what happened since is taken, as if events had shown it.
	doubted bool
	taken   int // the first Items are to be taken
	newer   []T // shown, and held as they were seen later
}

// usualPiece is the number of objects that are looked at in one step, so that a list of
// 50,000 delays an event or a computation by about a millisecond.
const usualPiece = 500

// beginList takes in a list, or its first piece.
func beginList[T Object](s *State, now time.Time, t table[T], l Listed[T], out *Effects) {
	s.reach.contact = now
	if l.Begun.IsZero() {
		l.Begun = now
	}
	s.lists[t.kind()] = &list[T]{Listed: l, table: t, empty: len(l.Items) == 0}
	s.short[t.kind()] = false
	s.continueList(now, t.kind(), out)
}

// continueList takes in another piece.
func (s *State) continueList(now time.Time, kind Kind, out *Effects) {
	if s.lists[kind] == nil {
		return
	}
	if s.lists[kind].step(s, now, out) {
		out.Next = Continue{kind}
	} else {
		s.lists[kind] = nil
	}
}

// step goes on for one piece; a list that is no longer than that is taken in at once.
func (r *list[T]) step(s *State, now time.Time, out *Effects) (more bool) {
	turns := []func(*State, time.Time, *Effects) bool{r.date, r.compareAll, r.lack, r.take, r.claimAll, r.end}
	for turns[r.turn](s, now, out) {
		r.at = 0
		if r.turn++; r.turn == len(turns) {
			return false
		}
		if len(r.Items) > s.piece {
			return true
		}
	}
	return true
}

// next is the next piece of the items, and whether it is the last.
func (r *list[T]) next(piece int) (items []store.Versioned[T], last bool) {
	from := r.at
	r.at = min(r.at+piece, len(r.Items))
	return r.Items[from:r.at], r.at == len(r.Items)
}

// date finds out whether the list is from the past. It is, whatever its own revision,
// when it shows an object at an older one than that list must have: the store was
// restored, and has caught up since.
func (r *list[T]) date(s *State, now time.Time, _ *Effects) bool {
	items, last := r.next(s.piece)
	for i := 0; i < len(items) && !r.Older; i++ {
		held, ok := r.revision(s, &items[i].Object)
		r.Older = ok && items[i].RV != 0 && items[i].RV < held && held <= r.Revision
	}
	if last {
		if r.Older && (s.quarantine.err == nil || s.quarantine.isFurther(r.kind(), r.Revision)) {
			s.wentBack(now, r.kind())
		}
		s.leaveOut(now, r.kind(), r.LeftOut)
		r.before, r.where = s.takeCounts(r.kind()), r.places(s)
		r.begin(s, r.Revision, r.Older)
		if r.doubted = s.quarantine.doubts(now, s.cfg.Limits, r.kind(), r.Older, r.Revision); !r.doubted {
			s.crowds[r.kind()] = crowd{} // all of it is shown, if there is room
		}
	}
	return last
}

// compareAll marks what the list shows, and chooses what is to be taken: what is not
// older than what is held by now.
func (r *list[T]) compareAll(s *State, now time.Time, out *Effects) bool {
	items, last := r.next(s.piece)
	for _, v := range items {
		if m := s.removed[r.id(&v.Object)]; !r.Older && r.Begun.Before(m.at) && m.uid == r.uid(&v.Object) {
			continue // it has gone since
		}
		held, ok := r.revision(s, &v.Object)
		s.short[r.kind()] = s.short[r.kind()] || v.Kept.Since < s.cfg.keptSince(r.kind())
		r.mark(s, &v.Object, v.RV, r.Older)
		switch {
		case r.doubted && !s.quarantine.news(r.kind(), v.RV, held):
			if l, is := r.replaced(s, &v.Object); is {
				l.held = held
				s.lacks(now, l, true)
			}
			continue
		case !r.wanted(s, &v.Object):
			continue
		case !r.doubted && !r.Older && ok && r.Revision != 0 && held > r.Revision:
			r.newer = append(r.newer, v.Object)
			continue
		}
		r.Items[r.taken] = v
		if r.taken++; !r.doubted {
			r.compare(s, now, v)
		}
	}
	if !last {
		return false
	}
	if r.Items = r.Items[:r.taken]; !r.doubted {
		r.compared(s, now, r.Items, out)
	}
	return true
}

// lack notes what the list lacks.
func (r *list[T]) lack(s *State, now time.Time, _ *Effects) bool {
	note := func(l lost) {
		if !s.isLeftOut(l.id.Kind, l.id.Key.Namespace) {
			s.lacks(now, l, r.doubted)
		}
	}
	for looked := 0; looked < s.piece && r.at < len(r.where); r.at++ {
		looked += r.lacking(s, r.where[r.at], r.Revision, r.Older, note)
	}
	return r.at == len(r.where)
}

// take takes in what the list shows.
func (r *list[T]) take(s *State, now time.Time, out *Effects) bool {
	items, last := r.next(s.piece)
	var dirty []store.Dirty
	for _, v := range items {
		if r.doubted {
			dirty = append(dirty, r.hear(s, now, v, out)...)
		} else {
			dirty = append(dirty, r.put(s, now, v)...)
		}
		s.reappeared(r.id(&v.Object))
		r.met(s, now, &v.Object, out)
	}
	if last && !r.doubted {
		dirty = append(dirty, r.believed(s)...)
	}
	s.announceList(out, Cause{Kind: kindName(r.kind()), Event: "relist"}, merged(dirty))
	return last
}

// claimAll looks what others have that is theirs whom the list shows, all of them.
func (r *list[T]) claimAll(s *State, now time.Time, out *Effects) bool {
	items, last := r.next(s.piece)
	for i := range items {
		r.claim(s, now, &items[i].Object, out)
	}
	if last {
		for i := range r.newer {
			r.claim(s, now, &r.newer[i], out)
		}
	}
	return last
}

// end judges what the list lacks.
func (r *list[T]) end(s *State, now time.Time, out *Effects) bool {
	kind := r.kind()
	s.due[kind], s.listedAt[kind] = time.Time{}, now
	if r.doubted {
		s.dueBy(kind, s.quarantine.since[kind].Add(s.cfg.ConfirmAfter))
	} else {
		s.judgeLacking(now, kind, r.before, r.empty, out)
	}
	s.quarantine.anew[kind] = !r.doubted
	maps.DeleteFunc(s.removed, func(id object, m removed) bool {
		return id.Kind == kind && !s.isLeftOut(kind, id.Key.Namespace) && (r.Older || (r.Revision == 0 || m.rv <= r.Revision) && !r.Begun.Before(m.at))
	})
	r.ended(s, now, r.before, out)
	if !r.doubted {
		s.announceListed(kind, out)
	}
	s.followed(now, kind, out)
	s.rulesListed(now, kind, r.doubted, out)
	s.judgeIdle(now, out)
	return true
}

// recount counts anew what replicas had: Services were moved to others.
func (r *list[T]) recount(s *State) { r.before = s.takeCounts(r.kind()) }

// takeCounts remembers the ready endpoints that all replicas had. Until the member was read
// whole, these are what stands.
func (s *State) takeCounts(kind Kind) map[syncer.Key]int {
	before := map[syncer.Key]int{}
	for replica, r := range s.baseline.replicas {
		if before[replica] = s.baseline.left(replica); !s.synced {
			before[replica] = r.stood
		}
	}
	if !s.synced {
		return before
	}
	for _, replica := range s.store.Replicas() {
		waits, _ := s.waitingIn(replica)
		before[replica] = s.had(replica, kind, before[replica]+s.store.ReadyEndpoints(replica)-waits)
	}
	for source := range s.unread { // nothing of it was given yet
		if replica, placed := s.store.Placed(source); placed && s.isUnread(source) {
			before[replica] -= s.store.ReadyFrom(source)
		}
	}
	return before
}

// announceList tells what a list changed: removals at once, for they may be
// addresses that nobody answers at any more; the rest when there is time.
func (s *State) announceList(out *Effects, c Cause, dirty []store.Dirty) {
	isRemoval := func(d store.Dirty) bool { return d.Effect == syncer.Removal }
	removals := slices.DeleteFunc(slices.Clone(dirty), func(d store.Dirty) bool { return !isRemoval(d) })
	s.announce(out, Change{Cause: c, Dirty: removals})
	s.announce(out, Change{Cause: c, Dirty: slices.DeleteFunc(dirty, isRemoval), Bulk: true})
}

// merged joins what several changes touched: each pair once, with its strongest effect.
func merged(dirty []store.Dirty) []store.Dirty {
	type pair struct{ replica, source syncer.Key }
	at := make(map[pair]int, len(dirty))
	out := dirty[:0]
	for _, d := range dirty {
		p := pair{d.Replica, d.Source}
		if i, known := at[p]; known {
			out[i].Effect = max(out[i].Effect, d.Effect)
			continue
		}
		at[p] = len(out)
		out = append(out, d)
	}
	return out
}
