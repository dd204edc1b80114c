// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Try has the server check a write that is not made. An error says nothing about what is
// in the write; ErrUncheckable, that no such write tells.
type Try func(*Action) (accepted bool, err error)

// ErrUncheckable is of a server that does not check what is not made.
var ErrUncheckable = errors.New("the server checks no write that is not made")

// maxTried bounds the writes that the server checks before one is made again: long enough
// to find one address of any number.
const maxTried = 128

// maxBlind bounds the addresses that one search leaves out of one object by writes that are
// made. The next one takes others.
const maxBlind = 48

// evicted finds the standing addresses for which the server refuses even to take others
// away from their object. Halves, and halves of halves, are put back to those that are known
// to be accepted, and nothing is written meanwhile. There are none where the server refuses
// the object whatever is in it, and where the last ready address that lives would go. Where
// the search is not at its end, they are those that it has found, and it goes on when the
// object is refused without them.
func (s *Isolation) evicted(w *RefusedWrite, contributions []Contribution, current Current) []Refusal {
	a := w.Action
	if s.try == nil || s.tried[a.Object()] || !a.blocks(contributions, current) {
		return nil
	}
	t := tryout{try: s.try, action: a, kept: map[netip.Addr]bool{}}
	culprits := t.culprits()
	if s.tried[a.Object()] = true; t.err != nil {
		if errors.Is(t.err, ErrUncheckable) {
			s.blind(w, contributions, current)
		}
		return nil
	}
	evicted := make([]Refusal, len(culprits))
	for i, addr := range culprits {
		evicted[i] = Refusal{Address: addr, Evict: a.kinds(), Message: w.Message}
	}
	if lives(a.kinds(), s.found, contributions, current) && !lives(a.kinds(), slices.Concat(s.found, evicted), contributions, current) {
		return nil
	}
	s.tried[a.Object()] = len(evicted) == 0
	return evicted
}

// blind lines up the standing addresses of an object to be left out one at a time, with
// writes that are made: what is refused changes nothing.
func (s *Isolation) blind(w *RefusedWrite, contributions []Contribution, current Current) {
	a := w.Action
	all := inOrder(a.states())
	if s.Shuffle != nil {
		s.Shuffle(all)
	}
	for _, addr := range all[:min(len(all), maxBlind)] {
		r := Refusal{Address: addr, Evict: a.kinds(), Message: w.Message}
		if lives(a.kinds(), append(slices.Clip(s.found), r), contributions, current) {
			s.singles = append(s.singles, r)
		}
	}
}

// tryout is the search in one object; kept is what the server is known to accept of it.
type tryout struct {
	try    Try
	action *Action
	kept   map[netip.Addr]bool
	asked  int
	err    error
}

func (t *tryout) culprits() (culprits []netip.Addr) {
	groups := halves(inOrder(t.action.states()))
	if !t.accepts(nil) && !slices.ContainsFunc(groups, t.accepts) { // it is not the addresses
		return nil
	}
	for len(groups) > 0 && t.err == nil && t.asked < maxTried {
		group := groups[0]
		groups = groups[1:]
		switch {
		case t.accepts(group):
			for _, addr := range group {
				t.kept[addr] = true
			}
		case len(group) == 1:
			culprits = append(culprits, group[0])
		default:
			groups = slices.Concat(halves(group), groups)
		}
	}
	return culprits
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

// having is an update with some of its addresses alone.
func (a *Action) having(has func(netip.Addr) bool) *Action {
	some := *a
	if a.Slice != nil {
		spec := *a.Slice
		spec.Endpoints = slices.DeleteFunc(slices.Clone(spec.Endpoints), func(e syncer.Endpoint) bool { return !has(e.Addr) })
		some.Slice = &spec
		return &some
	}
	spec := *a.Endpoints
	spec.Subsets = remaining(spec.Subsets, func(addr netip.Addr, state traffic) traffic {
		if has(addr) {
			return state
		}
		return absent
	})
	some.Endpoints = &spec
	return &some
}

// blocks reports whether an action takes away something that no member has, or has
// ready, and brings nothing: what stands in its way stands already.
func (a *Action) blocks(contributions []Contribution, current Current) bool {
	if a.Verb != Update || a.Otherwise != nil || a.Endpoints == nil && a.Slice == nil {
		return false
	}
	stands, writes, wanted := current.states(a), a.states(), states{}
	for i := range contributions {
		for _, e := range contributions[i].Endpoints {
			if contributions[i].Service != nil && e.In(a.kinds()) {
				wanted[e.Addr] = max(wanted[e.Addr], stateOf(e.Ready))
			}
		}
	}
	takes := false
	for addr, state := range stands {
		takes = takes || writes[addr] < state && wanted[addr] < state
	}
	for addr := range writes {
		takes = takes && stands[addr] != absent
	}
	return takes
}

// lives reports whether a kind has an address that stands, that a member has ready and that
// is not evicted from it.
func lives(kind syncer.Kinds, refusals []Refusal, contributions []Contribution, current Current) bool {
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
			return e.Ready && e.In(kind) && stands[e.Addr] != absent && !gone[e.Addr]
		})
	})
}
