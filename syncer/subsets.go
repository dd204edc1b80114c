// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// Subsets renders endpoints as core/v1 Endpoints has them: exactly the subsets,
// in exactly the order, that upstream's endpoints controller writes for them. A
// terminating endpoint that is not ready is absent, a ready one is among the
// addresses, any other among the not-ready ones. Truncate comes after it.
//
// Rule sources: syncService in pkg/controller/endpoint, RepackSubsets in
// pkg/api/v1/endpoints, both 1.36.
func Subsets(endpoints []Endpoint) []Subset {
	r := newRepacker(len(endpoints))
	r.emptyNode = true
	for i := range endpoints {
		if e := &endpoints[i]; e.In(KindEndpoints) && (e.Ready || !e.Terminating) {
			r.add(e)
		}
	}
	return r.pack()
}

// Repack brings subsets into the canonical form: addresses are identified by IP
// and target UID, the first one seen supplies the other fields, not ready beats
// ready for each port, ports with the same addresses share a subset, and the
// order is upstream's. Rule source: RepackSubsets in pkg/api/v1/endpoints.
func Repack(subsets []Subset) []Subset {
	r := newRepacker(0)
	for i := range subsets {
		s := &subsets[i]
		for _, a := range s.Ready {
			r.add(mirrored(a, s.Ports, true))
		}
		for _, a := range s.NotReady {
			r.add(mirrored(a, s.Ports, false))
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
	byList    map[portList[Port]][]int32
}

// entry is one endpoint. It points to it, since entries are sorted and endpoints are large to move.
type entry struct {
	rank addrRank
	seen int32
	// sets are the entry's ports as indexes into repacker.sets.
	sets []int32
	*Endpoint
}

func (e *entry) address() Address {
	return Address{Addr: e.Addr, Hostname: e.Hostname, NodeName: e.NodeName, Target: e.Target}
}

// portSet is a port with the addresses that serve it, in order.
type portSet struct {
	port    Port
	members []member
}

// member is the place of the first entry with an address, times two, plus one
// when it is not ready.
type member uint32

// portless represents the absence of ports, as in upstream; a port that the API
// would refuse for its number is treated the same and vanishes.
var portless = Port{Number: -1}

func newRepacker(entries int) *repacker {
	return &repacker{entries: make([]entry, 0, entries), index: map[Port]int32{}, byList: map[portList[Port]][]int32{}}
}

func (r *repacker) add(e *Endpoint) {
	r.entries = append(r.entries, entry{rankAddr(e.Addr), int32(len(r.entries)), r.setsOf(e.Ports), e})
}

// setsOf maps ports to indexes, once for each list that endpoints share.
func (r *repacker) setsOf(ports []Port) []int32 {
	list := listOf(ports)
	sets, known := r.byList[list]
	if !known {
		if len(ports) == 0 {
			sets = append(sets, r.setOf(portless))
		}
		for _, port := range ports {
			sets = append(sets, r.setOf(port))
		}
		r.byList[list] = sets
	}
	return sets
}

func (r *repacker) setOf(port Port) int32 {
	at, known := r.index[port]
	if !known {
		at = int32(len(r.sets))
		r.index[port], r.sets = at, append(r.sets, portSet{port: port})
	}
	return at
}

func (r *repacker) pack() []Subset {
	r.sort()
	r.distribute()
	classes := r.classes()
	if len(classes) == 0 {
		return nil
	}
	subsets := make([]Subset, len(classes))
	for i := range classes {
		subsets[i] = classes[i].subset(r.entries)
	}
	sortSubsets(subsets, r.emptyNode)
	return subsets
}

// sort orders entries by address as upstream does (LessEndpointAddress), equal
// identities by arrival, so that the first seen one comes first.
func (r *repacker) sort() {
	compare := func(a, b entry) int {
		if c := compareRanked(a.rank, a.Addr, b.rank, b.Addr); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Target.UID, b.Target.UID), cmp.Compare(a.seen, b.seen))
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
		if f := &r.entries[first]; f.Addr != e.Addr || f.Target.UID != e.Target.UID {
			first = i
		}
		m := member(first) * 2
		if !e.Ready {
			m++
		}
		for _, set := range e.sets {
			r.sets[set].add(m, len(r.entries))
		}
	}
}

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
func (r *repacker) classes() []class {
	var classes []class
	var text []byte
	byMembers := make(map[string]int, len(r.sets))
	for i := range r.sets {
		set := &r.sets[i]
		text = text[:0]
		for _, m := range set.members {
			text = binary.NativeEndian.AppendUint32(text, uint32(m))
		}
		at, known := byMembers[string(text)]
		if !known {
			at = len(classes)
			byMembers[string(text)] = at
			classes = append(classes, class{members: set.members})
		}
		if set.port.Number > 0 {
			classes[at].ports = append(classes[at].ports, set.port)
		}
	}
	return classes
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
			s.Ready = append(s.Ready, entries[m/2].address())
		} else {
			s.NotReady = append(s.NotReady, entries[m/2].address())
		}
	}
	return s
}
