// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"slices"
	"strings"
)

// Subsets renders endpoints as core/v1 Endpoints has them: exactly the subsets,
// in exactly the order, that upstream's endpoints controller writes for them. A
// terminating endpoint that is not ready is absent, a ready one is among the
// addresses, any other among the not-ready ones. Only addresses of the family
// count; an empty family means all of them. Truncate comes after it.
//
// Rule sources: syncService in pkg/controller/endpoint, RepackSubsets in
// pkg/api/v1/endpoints, both 1.36.
func Subsets(endpoints []Endpoint, family Family) []Subset {
	r := repacker{emptyNode: true}
	r.reserve(len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		if !e.In(KindEndpoints) || e.Terminating && !e.Ready || family != "" && familyOf(e.Addr) != family {
			continue
		}
		r.add(Address{Addr: e.Addr, Hostname: e.Hostname, NodeName: e.NodeName, Target: e.Target}, e.Ports, e.Ready)
	}
	return r.pack()
}

// Repack brings subsets into the canonical form: addresses are identified by IP
// and target UID, the first one seen supplies the other fields, not ready beats
// ready for each port, ports with the same addresses share a subset, and the
// order is upstream's. Rule source: RepackSubsets in pkg/api/v1/endpoints.
func Repack(subsets []Subset) []Subset {
	var r repacker
	for i := range subsets {
		s := &subsets[i]
		r.reserve(len(s.Ready) + len(s.NotReady))
		for _, a := range s.Ready {
			r.add(a, s.Ports, true)
		}
		for _, a := range s.NotReady {
			r.add(a, s.Ports, false)
		}
	}
	return r.pack()
}

// repacker regroups "these ports at this address" into subsets.
type repacker struct {
	// emptyNode renders an empty node name the way upstream does for pods, as a
	// pointer to nothing instead of no pointer; it matters to the order only.
	emptyNode bool
	entries   []entry
	sets      []portSet
	index     map[Port]int32
	byList    map[portListOf][]int32
	lastList  portListOf
	lastSets  []int32
}

type entry struct {
	rank addrRank
	seen int32
	// sets are the entry's ports as indexes into repacker.sets.
	sets    []int32
	ready   bool
	address Address
}

// portSet is a port with the addresses that serve it, in order.
type portSet struct {
	port    Port
	members []member
}

// member is the place of the first entry with an address, times two, plus one
// when it is not ready.
type member uint32

// portless stands for the absence of ports, as in upstream; a port that the API
// would refuse for its number is treated the same and vanishes.
var portless = Port{Number: -1}

func (r *repacker) reserve(n int) { r.entries = slices.Grow(r.entries, n) }

func (r *repacker) add(a Address, ports []Port, ready bool) {
	r.entries = append(r.entries, entry{
		rank: rankAddr(a.Addr), seen: int32(len(r.entries)), sets: r.setsOf(ports), ready: ready, address: a})
}

// setsOf maps ports to indexes, once for each list that endpoints share;
// neighbours nearly always share one.
func (r *repacker) setsOf(ports []Port) []int32 {
	list := listOf(ports)
	if r.lastSets != nil && list == r.lastList {
		return r.lastSets
	}
	sets, known := r.byList[list]
	if !known {
		if len(ports) == 0 {
			sets = append(sets, r.setOf(portless))
		}
		for _, port := range ports {
			sets = append(sets, r.setOf(port))
		}
		if r.byList == nil {
			r.byList = map[portListOf][]int32{}
		}
		r.byList[list] = sets
	}
	r.lastList, r.lastSets = list, sets
	return sets
}

func (r *repacker) setOf(port Port) int32 {
	i, known := r.index[port]
	if !known {
		if r.index == nil {
			r.index = map[Port]int32{}
		}
		i = int32(len(r.sets))
		r.index[port] = i
		r.sets = append(r.sets, portSet{port: port})
	}
	return i
}

func (r *repacker) pack() []Subset {
	r.sort()
	r.distribute()
	var subsets []Subset
	for _, class := range r.classes() {
		subsets = append(subsets, class.subset(r.entries))
	}
	sortSubsets(subsets, r.emptyNode)
	return subsets
}

// sort orders entries by address as upstream does (LessEndpointAddress), equal
// identities by arrival, so that the first seen one comes first.
func (r *repacker) sort() {
	compare := func(a, b entry) int {
		if c := compareRanked(a.rank, a.address.Addr, b.rank, b.address.Addr); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.address.Target.UID, b.address.Target.UID), cmp.Compare(a.seen, b.seen))
	}
	if !slices.IsSortedFunc(r.entries, compare) {
		slices.SortFunc(r.entries, compare)
	}
}

// distribute hands each port its addresses.
func (r *repacker) distribute() {
	first := 0
	for i := range r.entries {
		e := &r.entries[i]
		if !sameIdentity(&r.entries[first].address, &e.address) {
			first = i
		}
		m := member(first) * 2
		if !e.ready {
			m++
		}
		for _, set := range e.sets {
			r.sets[set].add(m, len(r.entries))
		}
	}
}

func sameIdentity(a, b *Address) bool { return a.Addr == b.Addr && a.Target.UID == b.Target.UID }

// add appends a member; members arrive in order, so a repeated address is the
// last one, and not ready wins. The first growth takes room for all, since most
// ports are served by every address.
func (s *portSet) add(m member, all int) {
	if n := len(s.members); n > 0 && s.members[n-1]/2 == m/2 {
		s.members[n-1] |= m
		return
	}
	if len(s.members) == 8 {
		s.members = slices.Grow(s.members, all-8)
	}
	s.members = append(s.members, m)
}

// class is a set of ports that the same addresses serve, in the same state.
type class struct {
	ports   []Port
	members []member
}

// classes groups the ports by their members.
func (r *repacker) classes() []*class {
	var classes []*class
	byHash := make(map[uint64][]*class, len(r.sets))
	for i := range r.sets {
		set := &r.sets[i]
		h := hashMembers(set.members)
		at := slices.IndexFunc(byHash[h], func(c *class) bool { return slices.Equal(c.members, set.members) })
		var c *class
		if at >= 0 {
			c = byHash[h][at]
		} else {
			c = &class{members: set.members}
			classes = append(classes, c)
			byHash[h] = append(byHash[h], c)
		}
		if set.port.Number > 0 {
			c.ports = append(c.ports, set.port)
		}
	}
	return classes
}

func hashMembers(members []member) uint64 {
	h := uint64(14695981039346656037)
	for _, m := range members {
		h = (h ^ uint64(m)) * 1099511628211
	}
	return h
}

func (c *class) subset(entries []entry) Subset {
	notReady := 0
	for _, m := range c.members {
		notReady += int(m & 1)
	}
	s := Subset{Ports: c.ports}
	if n := len(c.members) - notReady; n > 0 {
		s.Ready = make([]Address, 0, n)
	}
	if notReady > 0 {
		s.NotReady = make([]Address, 0, notReady)
	}
	for _, m := range c.members {
		if m&1 == 0 {
			s.Ready = append(s.Ready, entries[m/2].address)
		} else {
			s.NotReady = append(s.NotReady, entries[m/2].address)
		}
	}
	return s
}
