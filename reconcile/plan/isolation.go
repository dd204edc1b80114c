// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// maxRefused bounds the writes that one search may have refused. What has not been
// tried by then is left for the next.
const maxRefused = 16

// mostAlone is how many addresses are refused by themselves before it is taken that any
// other is, too. They are drawn by lot: those that a server takes must not be hidden behind
// the same few in each search.
const mostAlone = 5

// RefusedWrite is a write that a server would not take for what is in it.
type RefusedWrite struct {
	Action *Action
	// Causes and Message are what the server said. Large: the object is too much as a
	// whole, whichever address it is without.
	Causes  []Cause
	Message string
	Large   bool
}

// Isolation searches for what a server refuses, the smallest part that explains it: an
// address, or a member's share of the replica. Addresses that the server names are
// left out; where it names none, those that a refused write would have added are tried
// in halves, and halves of halves, so that k of n cost in the order of k·log(n/k)
// writes. Where that is not the cause, shares are tried one by one. A write that only takes
// addresses away is refused for one that stands: eviction.go.
//
// After each attempt to write, tell it what was refused; plan the next one without
// what LeftOut says, as long as it returns true.
type Isolation struct {
	// Shuffle, unless nil, orders addresses of which one search may not come to all.
	Shuffle func([]netip.Addr)
	// Make, unless nil, makes a write where the server checks none that is not made.
	Make Try
	// found is left out, former what an earlier search had left out.
	found, former []Refusal
	// trial are the addresses that are let through at the moment, waiting those that
	// are to be tried after them, why what the server said of them.
	trial   []netip.Addr
	waiting [][]netip.Addr
	why     string
	// accepted is true once a trial was, in this search or in the last; alone counts addresses
	// that were refused by themselves before.
	accepted bool
	alone    int
	// shares are the clusters still to be tried, nil before the first; trying is the one
	// that is left out now.
	shares []string
	trying []Refusal
	// refused counts attempts in which something was, of which there may be most.
	refused, most int
	// try has the server check a write; tried are the objects for which that has led
	// nowhere.
	try   Try
	tried map[Object]bool
	// tryouts are those that were overtaken.
	tryouts map[Object]*tryout
	// whole: an object was refused whatever is in it.
	whole bool
}

// NewIsolation begins with what is known to be refused. former is what was left out
// before, if it is to be tried again. Without try no address that stands is looked for.
func NewIsolation(known, former []Refusal, try Try) *Isolation {
	address := func(r Refusal) bool { return r.Address.IsValid() && !r.Untried }
	return &Isolation{found: slices.Clone(known), former: former, try: try, most: maxRefused, tried: map[Object]bool{}, tryouts: map[Object]*tryout{},
		accepted: slices.ContainsFunc(known, address) || slices.ContainsFunc(former, address)}
}

// LeftOut is what the next plan has to do without.
func (s *Isolation) LeftOut() []Refusal {
	out := slices.Concat(s.found, s.trying)
	for _, group := range s.waiting {
		for _, addr := range group {
			out = append(out, Refusal{Address: addr, Untried: true, Message: s.why})
		}
	}
	return out
}

// Met reports whether a write was refused.
func (s *Isolation) Met() bool { return s.refused > 0 }

// Whole reports whether an object was refused whatever is in it.
func (s *Isolation) Whole() bool { return s.whole }

// Knows reports whether something is left out that was not tried in this search.
func (s *Isolation) Knows() bool { return s.refused == 0 && len(s.found) > 0 }

// Again tries everything again.
func (s *Isolation) Again() { s.former, s.found = s.found, nil }

// Accepted takes that nothing was refused. It returns true when there is more to try.
func (s *Isolation) Accepted() (again bool) {
	s.found, s.trying = append(s.found, s.trying...), nil // it was the one
	if s.trial == nil {
		return false
	}
	s.accepted = true
	return s.next()
}

// next lets the next group through.
func (s *Isolation) next() bool {
	if len(s.waiting) == 0 {
		s.trial = nil
		return false
	}
	s.trial, s.waiting = s.waiting[0], s.waiting[1:]
	return true
}

// Refused takes the refused writes of an attempt that contributions and current had
// led to. It returns true when there is something new to leave out or to try.
func (s *Isolation) Refused(writes []RefusedWrite, contributions []Contribution, current Current) (again bool) {
	s.refused++
	fresh, evicts, overtaken, gained := false, false, false, map[netip.Addr]bool{}
	var entire []RefusedWrite
	for _, w := range writes {
		stood := current.states(w.Action)
		blamed := Blame(w.Action, w.Causes)
		for _, r := range blamed {
			if stood[r.Address] != absent {
				r.Evict = w.Action.kinds()
			}
			fresh = s.add(r) || fresh
		}
		if len(blamed) > 0 {
			continue
		}
		if evicted, later := s.evicted(&w, original(writes, w.Action), contributions, current); len(evicted) > 0 || later {
			for _, r := range evicted {
				fresh = s.add(r) || fresh
			}
			overtaken = overtaken || later
			evicts = true
			continue
		}
		added := added(w.Action, stood)
		if w.Large || named(w.Causes) || len(added) == 0 {
			entire = append(entire, w)
			continue
		}
		s.why = w.Message
		for _, addr := range added {
			gained[addr] = true
		}
	}
	if s.refused >= s.most && !evicts {
		s.waiting, s.trial = append(s.waiting, inOrder(gained)), nil // for the next search
		return false
	}
	if overtaken { // it goes on with what is refused next
		s.refused--
		return true
	}
	switch {
	case fresh: // several writes may have been refused for one cause
		s.shares, s.trying = nil, nil
		return true
	case len(entire) > 0:
		return s.share(entire, contributions, current)
	case len(gained) > 0:
		return s.halve(gained, contributions)
	}
	return false
}

// original is the action in whose place another was written; that itself where it was the first.
func original(writes []RefusedWrite, a *Action) *Action {
	for i := range writes {
		if o := writes[i].Action.Otherwise; o != nil && o.Object() == a.Object() {
			return writes[i].Action
		}
	}
	return a
}

// add notes a refusal, and reports whether it was new; a stricter one adds to the other.
func (s *Isolation) add(r Refusal) (fresh bool) {
	at := slices.IndexFunc(s.found, r.Is)
	if at >= 0 && r.Evict&^s.found[at].Evict == 0 {
		return false
	}
	if at >= 0 {
		r.Evict |= s.found[at].Evict
		s.found[at] = r
	} else {
		s.found = append(s.found, r)
	}
	return true
}

// named reports whether a server has named a field.
func named(causes []Cause) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { return c.Field != "" })
}

// added are the addresses that an action brings to its object.
func added(a *Action, stood states) (added []netip.Addr) {
	for addr := range a.states() {
		if stood[addr] == absent {
			added = append(added, addr)
		}
	}
	return added
}

// halve goes on with halves of what was refused.
func (s *Isolation) halve(gained map[netip.Addr]bool, contributions []Contribution) bool {
	var fresh, known []netip.Addr
	for _, addr := range inOrder(gained) {
		if s.trial == nil && slices.ContainsFunc(s.former, Refusal{Address: addr}.Is) {
			known = append(known, addr)
		} else {
			fresh = append(fresh, addr)
		}
	}
	if len(fresh) == 0 {
		fresh, known = known, nil
	}
	if s.Shuffle != nil {
		s.Shuffle(fresh)
	}
	groups := [][]netip.Addr{fresh, known}
	switch {
	case s.trial == nil && s.sharesLeftOut(gained, contributions):
		s.alone = mostAlone - 2 // two are enough to see whether that has changed
		few := min(2, len(fresh))
		groups = append(slices.Collect(slices.Chunk(fresh[:few], 1)), fresh[few:], known)
	case len(known) == 0:
		groups = [][]netip.Addr{fresh[:len(fresh)/2], fresh[len(fresh)/2:]}
	}
	if len(gained) == 1 {
		s.add(Refusal{Address: fresh[0], Message: s.why})
		if s.alone++; s.alone >= mostAlone && !s.accepted {
			return s.wholesale(contributions)
		}
		s.next()
		return true
	}
	groups = slices.DeleteFunc(groups, func(group []netip.Addr) bool { return len(group) == 0 })
	s.waiting = slices.Concat(groups, s.waiting)
	return s.next()
}

// sharesLeftOut reports whether the last search has ended with the share of one of them.
func (s *Isolation) sharesLeftOut(addrs map[netip.Addr]bool, contributions []Contribution) bool {
	return slices.ContainsFunc(contributions, func(c Contribution) bool {
		return slices.ContainsFunc(s.former, Refusal{Cluster: c.Cluster}.Is) && c.hasAny(addrs)
	})
}

// hasAny reports whether one of its endpoints has one of the addresses.
func (c *Contribution) hasAny(addrs map[netip.Addr]bool) bool {
	return slices.ContainsFunc(c.Endpoints, func(e syncer.Endpoint) bool { return addrs[e.Addr] })
}

// wholesale gives up on addresses: whichever it is, each is refused. So it is the
// shares that they belong to.
func (s *Isolation) wholesale(contributions []Contribution) bool {
	suspects := map[netip.Addr]bool{}
	for _, r := range s.LeftOut() {
		if r.Address.IsValid() {
			suspects[r.Address] = true
		}
	}
	s.forget()
	for i := range contributions {
		if c := &contributions[i]; c.hasAny(suspects) {
			s.add(Refusal{Cluster: c.Cluster, Message: s.why})
		}
	}
	return true
}

// forget ends a search by addresses that has led nowhere.
func (s *Isolation) forget() {
	s.trial, s.waiting = nil, nil
	s.found = slices.DeleteFunc(s.found, func(r Refusal) bool {
		return r.Address.IsValid() && r.Message == s.why && r.Evict == 0
	})
}

// share leaves out the share of a slice that was refused; for what several members
// have a part in, the shares one after the other, the likeliest first, and at last all.
func (s *Isolation) share(entire []RefusedWrite, contributions []Contribution, current Current) bool {
	if !s.accepted {
		s.forget()
	}
	before := len(s.found)
	for _, w := range entire {
		if w.Action.Slice != nil {
			s.add(Refusal{Cluster: w.Action.Slice.Cluster, Message: w.Message})
		}
	}
	if len(s.found) > before {
		return true
	}
	s.trying = nil // it was refused without that share, too
	if s.shares == nil {
		s.shares = s.trials(Suspects(contributions, current))
	}
	for len(s.shares) > 0 {
		r := Refusal{Cluster: s.shares[0], Message: entire[0].Message}
		s.shares = s.shares[1:]
		if !slices.ContainsFunc(s.found, r.Is) {
			s.trying = []Refusal{r}
			return true
		}
	}
	return false
}

// trials orders the shares to leave out: what had to be before, then by likelihood,
// then all of them.
func (s *Isolation) trials(suspects []string) []string {
	first := []string{}
	for _, f := range s.former {
		if !f.Address.IsValid() && (f.Cluster == "" || slices.Contains(suspects, f.Cluster)) {
			first = append(first, f.Cluster)
		}
	}
	for _, cluster := range suspects {
		if !slices.Contains(first, cluster) {
			first = append(first, cluster)
		}
	}
	if len(suspects) > 1 && !slices.Contains(first, "") {
		first = append(first, "")
	}
	return first
}

func inOrder[V any](of map[netip.Addr]V) []netip.Addr {
	return slices.SortedFunc(maps.Keys(of), netip.Addr.Compare)
}
