// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Try has the server check a write that is not made. An error says nothing about what is
// in the write; ErrUncheckable, that no such write tells; ErrOvertaken ends the search until
// the next write is refused.
type Try func(*Action) (accepted bool, err error)

// ErrOvertaken says that something more urgent is to be written before.
var ErrOvertaken = errors.New("a removal comes first")

// ErrUncheckable is of a server that does not check what is not made.
var ErrUncheckable = errors.New("the server checks no write that is not made")

// maxTried bounds the writes that the server checks before one is made again: long enough
// to find one address of any number.
const maxTried = 128

// maxParts is about how many parts of an object are tried before it is taken that the server
// takes none, whatever is in it.
const maxParts = 6

// maxParted is how many parts of an object one search leaves in it, by writes that are made,
// before it gives up. The next one takes others.
const maxParted = 48

// evicted finds the standing addresses for which the server refuses even to take others
// away from their object, or to bring others. Halves, and halves of halves, are put back to those that are known
// to be accepted, and nothing is written meanwhile. There are none where the server refuses
// the object whatever is in it. The last ready address that lives goes where the server
// takes another: one that is to leave, or one of original, which is what was to be written
// before w. Where the search is not at its end, they are those that it has found, and it goes
// on when the object is refused without them. again is true where it was overtaken, or has
// taken the object apart.
func (s *Isolation) evicted(w *RefusedWrite, original *Action, contributions []Contribution, current Current) (evicted []Refusal, again bool) {
	a := w.Action
	if s.try == nil || s.tried[a.Object()] || a.Verb != Update || a.Otherwise != nil || a.Endpoints == nil && a.Slice == nil {
		return nil, false
	}
	stood := current.states(a)
	if len(added(a, stood)) > 0 && s.tryouts[a.Object()] == nil {
		a = a.having(func(addr netip.Addr) bool { return stood[addr] != absent })
		if refused, again := s.refuses(a); !refused {
			return nil, again
		}
	}
	t := cmp.Or(s.tryouts[a.Object()], &tryout{try: s.try, shuffle: s.Shuffle, kept: map[netip.Addr]bool{}})
	t.action, t.err = a, nil
	stays := a.states()
	for _, addr := range t.culprits() {
		if stays[addr] != absent {
			evicted = append(evicted, Refusal{Address: addr, Evict: a.kinds(), Message: w.Message})
		}
	}
	empties := lives(a.kinds(), s.found, contributions, current, nil) && !lives(a.kinds(), slices.Concat(s.found, evicted), contributions, current, nil)
	if empties && !t.takesOther(current.unchanged(a.Object()), original) {
		evicted = nil
	}
	if errors.Is(t.err, ErrOvertaken) {
		s.tryouts[a.Object()] = t
		return nil, true
	}
	delete(s.tryouts, a.Object())
	s.whole = s.whole || t.whole
	if s.tried[a.Object()] = len(evicted) == 0 || t.err != nil; t.err != nil {
		return nil, errors.Is(t.err, ErrUncheckable) && s.Make != nil &&
			(s.takeApart(a, contributions, current) || len(added(original, stood)) > 0 && s.takeApart(original, contributions, current))
	}
	return evicted, false
}

// refuses asks whether the server refuses an object without what an update would add to it:
// what it would refuse stands then. again is true where that was overtaken.
func (s *Isolation) refuses(a *Action) (refused, again bool) {
	accepted, err := s.try(a)
	if errors.Is(err, ErrUncheckable) && s.Make != nil {
		accepted, err = s.Make(a)
	}
	s.tried[a.Object()] = err == nil && accepted
	return err == nil && !accepted, errors.Is(err, ErrOvertaken)
}

// takeApart leaves halves of an object in it, quarters, and so on, until one is taken: what is
// refused changes nothing, and the dead address has left by then. All others are additions
// after that, and the search for those gives back what is not refused. again is true where
// one was taken, or where it was overtaken.
func (s *Isolation) takeApart(a *Action, contributions []Contribution, current Current) (again bool) {
	all := inOrder(a.states())
	if s.Shuffle != nil {
		s.Shuffle(all)
	}
	for _, part := range append(parts(all, maxParted), nil) { // something may live elsewhere
		gone := slices.Clone(s.found)
		for _, addr := range all {
			if !slices.Contains(part, addr) {
				gone = append(gone, Refusal{Address: addr, Evict: a.kinds()})
			}
		}
		some := a.having(func(addr netip.Addr) bool { return slices.Contains(part, addr) })
		if len(part) == len(all) || !lives(a.kinds(), gone, contributions, current, some.states()) {
			continue
		}
		accepted, err := s.Make(some)
		if errors.Is(err, ErrOvertaken) {
			s.tried[a.Object()] = false
		} else if accepted { // the search for the others is not put off
			s.accepted, s.most = true, s.refused+maxTried
		}
		if accepted || err != nil {
			return accepted || errors.Is(err, ErrOvertaken)
		}
	}
	return false
}

// tryout is the search in one object; kept is what the server is known to accept of it.
type tryout struct {
	try     Try
	shuffle func([]netip.Addr)
	action  *Action
	kept    map[netip.Addr]bool
	// opening are what is tried to learn whether it is the addresses, groups those that are
	// still to be tried after that.
	begun           bool
	opening, groups [][]netip.Addr
	found           []netip.Addr
	asked           int
	// whole: it is not the addresses.
	whole bool
	err   error
}

// culprits goes on with the search, until it is at its end or t.err is set.
func (t *tryout) culprits() []netip.Addr {
	if !t.begun {
		all := inOrder(t.action.states())
		if t.shuffle != nil {
			t.shuffle(all)
		}
		t.begun, t.groups = true, halves(all)
		t.opening = [][]netip.Addr{nil} // which a server may refuse for being empty
		if len(all) > 1 {
			t.opening = append(t.opening, parts(all, maxParts)...)
		}
	}
	for len(t.opening) > 0 {
		accepted := t.accepts(t.opening[0])
		if t.whole = t.err == nil && !accepted && len(t.opening) == 1; t.whole || t.err != nil { // it is not the addresses
			return nil
		}
		if t.opening = t.opening[1:]; accepted {
			t.opening = nil
		}
	}
	for len(t.groups) > 0 && t.asked < maxTried {
		group := t.groups[0]
		accepted := t.accepts(group)
		if t.err != nil {
			return nil
		}
		switch t.groups = t.groups[1:]; {
		case accepted:
			for _, addr := range group {
				t.kept[addr] = true
			}
		case len(group) == 1:
			t.found = append(t.found, group[0])
		default:
			t.groups = slices.Concat(halves(group), t.groups)
		}
	}
	return t.found
}

// takesOther reports whether the server takes a ready address that is none of those found,
// in one of two states of the object. Who takes none would leave nothing.
func (t *tryout) takesOther(standing, original *Action) bool {
	for _, a := range []*Action{standing, original} {
		t.action = a
		others := maps.Clone(a.states())
		maps.DeleteFunc(others, func(addr netip.Addr, is traffic) bool { return is != ready || slices.Contains(t.found, addr) })
		for _, group := range slices.Concat([][]netip.Addr{inOrder(others)}, parts(inOrder(others), maxParts)) {
			if len(group) > 0 && t.accepts(group) {
				return true
			}
		}
	}
	return false
}

// parts are halves, then quarters, and so on, until there are enough.
func parts(all []netip.Addr, enough int) (parts [][]netip.Addr) {
	for level := halves(all); len(level) > 0 && len(parts) < enough; {
		parts = append(parts, level...)
		var smaller [][]netip.Addr
		for _, part := range level {
			if len(part) > 1 {
				smaller = append(smaller, halves(part)...)
			}
		}
		level = smaller
	}
	return parts
}

func halves(all []netip.Addr) (groups [][]netip.Addr) {
	for _, half := range [][]netip.Addr{all[:len(all)/2], all[len(all)/2:]} {
		if len(half) > 0 {
			groups = append(groups, half)
		}
	}
	return groups
}

// accepts asks whether the server takes the object with a group beside what it keeps.
func (t *tryout) accepts(group []netip.Addr) bool {
	if t.asked++; t.err != nil {
		return false
	}
	var accepted bool
	accepted, t.err = t.try(t.action.having(func(addr netip.Addr) bool { return t.kept[addr] || slices.Contains(group, addr) }))
	return accepted && t.err == nil
}

// kinds is the kind that an action of endpoints writes.
func (a *Action) kinds() syncer.Kinds {
	if a.Slice != nil {
		return syncer.KindEndpointSlices
	}
	return syncer.KindEndpoints
}

// Emptied is a write of endpoints without any.
func (a *Action) Emptied() *Action { return a.having(func(netip.Addr) bool { return false }) }

// having is an update with some of its addresses alone.
func (a *Action) having(has func(netip.Addr) bool) *Action {
	some := *a
	some.Otherwise = nil
	if a.Slice != nil {
		spec := *a.Slice
		spec.Endpoints = slices.DeleteFunc(slices.Clone(spec.Endpoints), func(e syncer.Endpoint) bool { return !has(e.Addr) })
		some.Slice = &spec
		return &some
	}
	spec := *a.Endpoints
	spec.Subsets = remaining(spec.Subsets, func(e *syncer.Endpoint, state traffic) traffic {
		if has(e.Addr) {
			return state
		}
		return absent
	})
	some.Endpoints = &spec
	return &some
}

// lives reports whether a kind has an address that stands or comes, that a member has ready
// and that is not evicted from it.
func lives(kind syncer.Kinds, refusals []Refusal, contributions []Contribution, current Current, comes states) bool {
	gone := map[netip.Addr]bool{}
	for _, r := range refusals {
		gone[r.Address] = gone[r.Address] || r.Evict&kind != 0
	}
	stands := states{}
	if kind == syncer.KindEndpoints {
		stands.add(current.ours().all())
	} else {
		for _, s := range current.slicesOf(every) {
			stands.add(s.all())
		}
	}
	return slices.ContainsFunc(contributions, func(c Contribution) bool {
		return c.Service != nil && slices.ContainsFunc(c.Endpoints, func(e syncer.Endpoint) bool {
			return e.Ready && e.In(kind) && (stands[e.Addr] != absent || comes[e.Addr] != absent) && !gone[e.Addr]
		})
	})
}
