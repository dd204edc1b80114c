// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// member is a share on its way through the merge.
type member struct {
	*Share
	// orphan marks one that is not configured: its share was made of what stands.
	orphan bool
	// service is the source; nil where there is none, or nobody knows it.
	service *syncer.Service
	// ports are the acceptable ones of the source, and portChanges what those become, by their
	// names, that have another name in the replica, or are lost: nil.
	ports       []syncer.ServicePort
	portChanges map[string]*unitedPort
	// slices are those of ours that stand of it, without those that are being deleted.
	slices, deleting []*Slice
	// endpoints are all that count, in canonical order, as they are when their class is
	// published.
	endpoints []syncer.Endpoint
	// published are they as consumers see them, ready what stands ready in slices by address.
	published []syncer.Endpoint
	ready     map[netip.Addr][]standing
	// families are those that have a slice in any case.
	families []syncer.Family
}

// stands reports whether what stands is the member's share, or may be: its slices tell that it had
// one, and nobody knows yet whether it still has.
func (m *member) stands() bool {
	return len(m.slices) > 0 && m.SourceOpen
}

// byHand reports whether the member's endpoints are written by hand.
func (m *member) byHand() bool { return m.service != nil && m.service.Selector == nil }

// feeds reports whether the member has a share in the replica.
func (m *member) feeds() bool { return m.service != nil || len(m.endpoints) > 0 || m.stands() }

// read fills the member's share from what it gives and what stands of it. inEndpoints is what
// stands in Endpoints; nil where there are none. Where that and slices differ, each stays as it is.
func (m *member) read(inEndpoints map[netip.Addr][]syncer.Endpoint) {
	if m.Listed {
		m.service, m.endpoints, m.families = m.Given.Service, slices.Clip(m.Given.Endpoints), slices.Clip(m.Given.Families)
	}
	for _, s := range m.slices {
		if m.service == nil && m.SourceOpen && !slices.Contains(m.families, s.Family) {
			m.families = append(m.families, s.Family)
		}
		for e := range endpointsOf(&s.Slice) {
			there := inEndpoints[e.Addr]
			if inEndpoints != nil && len(there) == 0 {
				e.Only = syncer.KindEndpointSlices
			}
			for _, other := range there {
				if e.Grade == syncer.Reserve { // who serves of those is decided anew
					other.Grade, other.Ready, other.Serving = e.Grade, e.Ready, e.Serving
				}
				if other.Target == e.Target && (other.Ready != e.Ready || !sameNumbers(other.Ports, e.Ports)) {
					e.Only = syncer.KindEndpointSlices
					m.keep(other)
				}
			}
			m.keep(e)
		}
	}
}

// keep adds an endpoint that stands of the member, if it still counts and is not given.
func (m *member) keep(e syncer.Endpoint) bool {
	if !e.Addr.IsValid() || m.Listed && (m.Keep == nil || m.gives(&e)) {
		return false
	}
	// A later place is reason enough to be named as reserve: what serves in it is no doubt.
	if m.Place > 0 && e.Grade == syncer.Reserve && e.Ready {
		e.Grade = syncer.Ready
	}
	if e.Grade >= syncer.Reserve && !e.Ready {
		e.Ready, e.Serving = true, true
	}
	if m.Keep != nil {
		var kept bool
		if e, kept = m.Keep(e); !kept {
			return false
		}
	}
	m.endpoints = append(m.endpoints, e)
	return true
}

// gives reports whether the member itself says something about a standing endpoint.
func (m *member) gives(e *syncer.Endpoint) bool {
	for g := range on(m.Given.Endpoints, e.Addr) {
		if g.Target == e.Target {
			return true
		}
	}
	return false
}

// on are the endpoints of an address; they are in canonical order.
func on(endpoints []syncer.Endpoint, addr netip.Addr) func(yield func(*syncer.Endpoint) bool) {
	return func(yield func(*syncer.Endpoint) bool) {
		at, _ := slices.BinarySearchFunc(endpoints, addr, func(e syncer.Endpoint, addr netip.Addr) int { return syncer.CompareAddr(e.Addr, addr) })
		for ; at < len(endpoints) && endpoints[at].Addr == addr; at++ {
			if !yield(&endpoints[at]) {
				return
			}
		}
	}
}

// settle brings the endpoints into order, and grades down what its member's state, or that nobody
// follows it, makes doubtful.
func (m *member) settle() {
	compare := func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) }
	if m.Reserve == "" && slices.IsSortedFunc(m.endpoints, compare) {
		return
	}
	m.endpoints = slices.SortedStableFunc(slices.Values(m.endpoints), compare)
	for i := range m.endpoints {
		if e := &m.endpoints[i]; m.Reserve != "" {
			e.Grade = min(e.Grade, syncer.Reserve)
		}
	}
}

// memberOf is the member that a slice of ours is of: its label says so, unless somebody has
// changed that; then its name tells.
func memberOf(replica syncer.Key, s *Slice, members []*member) string {
	named := func(name string) bool { return strings.HasPrefix(s.Name, replica.Name+"-"+name+"-") }
	label, best := s.Labels.Get(syncer.LabelSourceCluster), ""
	if label != "" && named(label) {
		return label
	}
	for _, m := range members {
		if named(m.Member) && len(m.Member) > len(best) {
			best = m.Member
		}
	}
	return cmp.Or(best, label)
}

// gather reads the shares and what stands of them, and makes members of what stands of nobody
// who has a share.
func (m *merger) gather(shares []Share) {
	for i := range shares {
		m.members = append(m.members, &member{Share: &shares[i]})
	}
	of, last := map[string]*member{}, 0
	for _, one := range m.members {
		of[one.Member], last = one, max(last, one.Place)
	}
	if last > 0 {
		last++
	}
	configured := m.members
	for i := range m.now.Slices {
		s := &m.now.Slices[i]
		if !s.Owned {
			continue
		}
		name := memberOf(m.key, s, configured)
		if of[name] == nil && !m.settings.DropOrphans && !s.Deleting {
			of[name] = &member{orphan: true, Share: &Share{Member: name, Place: last, SourceOpen: true, Reserve: "not configured any more"}}
			m.members = append(m.members, of[name])
		}
		switch one := of[name]; {
		case one == nil:
		case s.Deleting:
			one.deleting = append(one.deleting, s)
		default:
			one.slices = append(one.slices, s)
		}
	}
	slices.SortFunc(m.members, func(a, b *member) int { return strings.Compare(a.Member, b.Member) })
	var also map[netip.Addr][]syncer.Endpoint
	open := slices.ContainsFunc(m.members, func(one *member) bool { return !one.Listed || one.Keep != nil })
	if open {
		also = m.standing()
	}
	for _, one := range m.members {
		one.read(also)
	}
	if also != nil {
		m.strays()
	}
	for _, one := range m.members {
		one.settle()
	}
}

// standing is what Endpoints of ours have, each once with all its ports; nil where none stand, or
// where some were left out for want of room.
func (m *merger) standing() map[netip.Addr][]syncer.Endpoint {
	e := m.now.Endpoints
	if !m.settings.WriteEndpoints || e == nil || !e.Owned || e.Annotations[syncer.AnnotationOverCapacity] != "" {
		return nil
	}
	all := map[netip.Addr][]syncer.Endpoint{}
	for e := range endpointsIn(e.Subsets) {
		of := all[e.Addr]
		if at := slices.IndexFunc(of, func(o syncer.Endpoint) bool { return o.Target == e.Target }); at >= 0 {
			of[at].Ports = slices.Concat(of[at].Ports, e.Ports)
		} else {
			all[e.Addr] = append(of, e)
		}
	}
	return all
}

// strays gives the addresses that stand in Endpoints alone to the first member that keeps them. One
// of a pod is to stand in slices as well: a process that was killed has left it. Until somebody
// is listed it stays, and after that it is no share of one that is not: it may be what another
// took away, whose Endpoints are yet to be written.
func (m *merger) strays() {
	sliced := map[netip.Addr]bool{}
	for i := range m.now.Slices {
		if s := &m.now.Slices[i]; s.Owned {
			for e := range endpointsOf(&s.Slice) {
				sliced[e.Addr] = true
			}
		}
	}
	starts := !slices.ContainsFunc(m.members, func(one *member) bool { return one.Listed })
	for stray := range endpointsIn(m.now.Endpoints.Subsets) {
		given := func(one *member) bool { return one.Listed && one.gives(&stray) }
		if sliced[stray.Addr] || slices.ContainsFunc(m.members, given) {
			continue
		}
		for _, one := range m.members {
			if (starts || one.Listed || len(one.slices) > 0 && stray.Target.UID == "") && one.keep(stray) {
				break
			}
		}
	}
}
