// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Who serves is decided for each kind by itself: where the server takes one kind of a member
// and not the other, others have to go on in that one.

// inKinds are those of the kinds in which something is true.
func inKinds(kinds syncer.Kinds, is func(kind syncer.Kinds) bool) (in syncer.Kinds) {
	for _, kind := range []syncer.Kinds{syncer.KindEndpoints, syncer.KindEndpointSlices} {
		if kinds&kind != 0 && is(kind) {
			in |= kind
		}
	}
	return in
}

// drain takes out the endpoints of members that are to serve no more. The last
// ready endpoints of a replica stay, unless the drain is forced; then it says so.
func drain(shares []*share, kinds syncer.Kinds, current Current) (held []Held) {
	for _, s := range shares {
		if !s.Drain || len(s.endpoints) == 0 {
			continue
		}
		gone := inKinds(kinds, func(kind syncer.Kinds) bool {
			serving := func(o *share) bool { return o.undrained(kind) && o.seen() }
			return s.DrainForce || !s.ready(kind) || slices.ContainsFunc(shares, serving) || s.replaced(shares, kind, (*share).undrained, current)
		})
		if s.withdraw(gone, kinds); gone != kinds {
			held = append(held, Held{s.Cluster, HeldDrain})
		}
	}
	return held
}

// undrained reports whether a share counts, and is not to be drained.
func (s *share) undrained(kind syncer.Kinds) bool { return !s.Drain && s.counts(kind) }

// seen reports whether what a share says is known to be so at this moment.
func (s *share) seen() bool { return !s.Expected && !s.Away }

// replaced reports whether nothing ready of a share's cluster stands while another share, of a
// member that is not seen, does what it would. Nobody knows whether that one is alive,
// so it makes no share go; but neither does one come back for it.
func (s *share) replaced(shares []*share, kind syncer.Kinds, does func(*share, syncer.Kinds) bool, current Current) bool {
	return slices.ContainsFunc(shares, func(o *share) bool { return does(o, kind) }) &&
		!slices.ContainsFunc(current.shares().stands[s.Cluster], func(e syncer.Endpoint) bool { return e.Ready && e.In(kind) })
}

// withdraw takes a share out of some of the kinds that are written.
func (s *share) withdraw(gone, kinds syncer.Kinds) {
	switch gone {
	case 0:
	case kinds:
		s.limit(nil)
	default:
		s.limit(slices.DeleteFunc(slices.Clone(s.endpoints), func(e syncer.Endpoint) bool { return !e.In(kinds &^ gone) }))
		for i := range s.endpoints {
			narrow(&s.endpoints[i], kinds&^gone)
		}
	}
}

// demoteStale takes the endpoints of members that have been silent for too long for not
// ready, where another member has a ready one. Whatever Services of theirs they are of:
// what stands does not tell.
func demoteStale(shares []*share, kinds syncer.Kinds, current Current) (held []Held) {
	ready := map[string]bool{}
	for _, s := range shares {
		ready[s.Cluster] = ready[s.Cluster] || s.Stale && s.ready(kinds)
	}
	for _, s := range shares {
		if !s.Stale || !ready[s.Cluster] {
			continue
		}
		aged := inKinds(kinds, func(kind syncer.Kinds) bool {
			fresh := func(o *share) bool { return o.counts(kind) && o.seen() }
			return slices.ContainsFunc(shares, fresh) || s.replaced(shares, kind, (*share).counts, current)
		})
		if aged != kinds && s.ready(kinds&^aged) {
			held = append(held, Held{s.Cluster, HeldStale})
		}
		s.demote(aged, kinds)
	}
	return held
}

// demote takes a share for not ready in some of the kinds that are written.
func (s *share) demote(aged, kinds syncer.Kinds) {
	switch aged {
	case 0:
		return
	case kinds:
		s.agedReady = readyOnes(s.endpoints)
		s.limit(unreadied(s.endpoints))
		return
	}
	var old, out []syncer.Endpoint
	for _, e := range s.endpoints {
		one := e
		if narrow(&one, aged) {
			old = append(old, one)
			out = append(out, unreadied([]syncer.Endpoint{one})...)
		}
		if narrow(&e, everyKind&^aged) {
			out = append(out, e)
		}
	}
	s.agedReady = readyOnes(old)
	s.limit(out)
}

// failOver leaves one of the members that serve one at a time: the first in
// their order that has a ready endpoint, else the first that has any. What a member
// said that has been silent for too long counts only if no other is ready, what stands
// of a cluster that is not configured after that, and one in panic gives way to the next
// that is live and ready. Members in the same place serve together.
func failOver(shares []*share, kinds syncer.Kinds) {
	place := map[syncer.Kinds]int{} // that serves; 0: all do
	for _, kind := range []syncer.Kinds{syncer.KindEndpoints, syncer.KindEndpointSlices} {
		place[kind] = servingPlace(shares, kind)
	}
	for _, s := range shares {
		s.withdraw(inKinds(kinds, func(kind syncer.Kinds) bool {
			return place[kind] > 0 && s.Failover > 0 && s.Failover != place[kind]
		}), kinds)
	}
}

// servingPlace is the place in the order that serves in a kind; 0 where there is none.
func servingPlace(shares []*share, kind syncer.Kinds) int {
	first := func(fits func(*share) bool) (best *share) {
		for _, s := range shares {
			if s.Failover > 0 && fits(s) && (best == nil || s.Failover < best.Failover) {
				best = s
			}
		}
		return best
	}
	counts := func(s *share) bool { return s.counts(kind) }
	active := cmp.Or(first(counts),
		first(func(s *share) bool { return s.ready(kind) && !s.Orphan }),
		first(func(s *share) bool { return s.ready(kind) }),
		first(func(s *share) bool {
			return slices.ContainsFunc(s.endpoints, func(e syncer.Endpoint) bool { return e.In(kind) })
		}))
	switch {
	case active == nil:
		return 0
	case active.Panicking:
		active = cmp.Or(first(func(s *share) bool { return counts(s) && !s.Panicking && !s.Away }), active)
	}
	return active.Failover
}

func readyOnes(endpoints []syncer.Endpoint) []netip.Addr {
	var ready []netip.Addr
	for i := range endpoints {
		if endpoints[i].Ready {
			ready = append(ready, endpoints[i].Addr)
		}
	}
	slices.SortFunc(ready, netip.Addr.Compare)
	return slices.Compact(ready)
}

// unreadied returns the endpoints in a state in which no consumer uses them:
// some go by ready, some by serving.
func unreadied(endpoints []syncer.Endpoint) []syncer.Endpoint {
	out := slices.Clone(endpoints)
	for i := range out {
		out[i].Ready, out[i].Serving = false, false
	}
	return out
}

// separate keeps an address that several shares name with one of them: the
// oldest for which it is ready, else the oldest for which it is not terminating,
// else the oldest; what a member said that went silent since comes after that, and
// what stands of a cluster that is not configured any more comes last. Pod
// ranges of members that overlap are somebody's mistake, so it is a conflict; an
// address that moves is not, nor is a cluster that has a new name.
func separate(key syncer.Key, shares []*share) (conflicts []Conflict) {
	if len(shares) < 2 {
		return nil
	}
	holders := make(map[netip.Addr]owner, len(shares[0].endpoints))
	for _, s := range shares {
		for i := range s.endpoints {
			e := &s.endpoints[i]
			claim := claimOf(s, e)
			if h, held := holders[e.Addr]; !held || claim < h.claim {
				holders[e.Addr] = owner{s, claim}
			}
		}
	}
	for _, s := range shares {
		lost := func(e syncer.Endpoint) bool { return holders[e.Addr].share != s }
		if !slices.ContainsFunc(s.endpoints, lost) {
			continue
		}
		if c, disputed := duplicates(key, s, holders); disputed && !s.Orphan {
			conflicts = append(conflicts, c)
		}
		s.limit(slices.DeleteFunc(slices.Clone(s.endpoints), lost))
	}
	return conflicts
}

// owner is the share that keeps an address, and how good its claim is.
type owner struct {
	share *share
	claim int
}

// claimOf ranks what a share knows about an address, the best first.
func claimOf(s *share, e *syncer.Endpoint) int {
	switch {
	case s.Orphan:
		return 4
	case e.Ready && !s.Stale:
		return 0
	case !e.Terminating && !s.Stale:
		return 1
	case e.Ready:
		return 2
	default:
		return 3
	}
}

// duplicates reports the live addresses that a share loses.
func duplicates(key syncer.Key, s *share, holders map[netip.Addr]owner) (c Conflict, disputed bool) {
	const named = 3
	seen, winners := map[netip.Addr]bool{}, map[string]bool{}
	for i := range s.endpoints {
		e := &s.endpoints[i]
		if h := holders[e.Addr].share; h != s && !e.Terminating {
			_, winner := places(s, h)
			seen[e.Addr], winners[winner] = true, true
		}
	}
	lost := slices.SortedFunc(maps.Keys(seen), netip.Addr.Compare)
	if len(lost) == 0 {
		return c, false
	}
	names := make([]string, 0, named)
	for _, addr := range lost[:min(named, len(lost))] {
		names = append(names, addr.String())
	}
	list := strings.Join(names, ", ")
	if more := len(lost) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return Conflict{Replica: key, Reason: ConflictDuplicate, Cluster: s.Cluster, Message: fmt.Sprintf(
		"%s also named by %s, which keeps it: do the pod ranges overlap?", list, joined(winners))}, true
}
