// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// class is what endpoints share that serve together: how far they are trusted, and their
// member's place in the failover order. Endpoints that are not ready, or terminate, are in none.
type class struct {
	grade syncer.Grade
	place int
}

func (c class) better(than class) bool {
	return c.grade > than.grade || c.grade == than.grade && c.place < than.place
}

// classOf is the class of an endpoint; its grade is NotReady where it is in none.
func (m *member) classOf(e *syncer.Endpoint) class {
	if e.Terminating {
		return class{}
	}
	return class{e.Grade, m.Place}
}

// classes decide who serves: the best class that is not empty.
type classes struct {
	now  *Current
	best class
	// lower is true when there are others.
	lower bool
	// acknowledged says, by kind, whether one of the best class stands ready: until then those that
	// stand ready of lower ones go on.
	acknowledged map[syncer.Kinds]bool
	// inEndpoints is what stands ready in Endpoints.
	inEndpoints serving
}

func classesOf(now *Current, members []*member) *classes {
	c := &classes{now: now}
	for _, m := range members {
		for i := range m.endpoints {
			of := m.classOf(&m.endpoints[i])
			switch {
			case of.grade < syncer.Reserve || of == c.best:
			case of.better(c.best):
				c.lower, c.best = c.lower || c.best.grade > syncer.NotReady, of
			default:
				c.lower = true
			}
		}
	}
	if c.lower {
		c.look(members)
	}
	return c
}

// look finds out whether one of the best class stands ready.
func (c *classes) look(members []*member) {
	c.inEndpoints = serving{}
	if e := c.now.Endpoints; e != nil && e.Owned {
		for e := range endpointsIn(e.Subsets) {
			c.inEndpoints.add(e)
		}
	}
	sliced, either := false, false
	for _, m := range members {
		var stands serving
		for i := range m.endpoints {
			e := &m.endpoints[i]
			if m.classOf(e) != c.best {
				continue
			}
			if stands == nil {
				stands = m.standReady()
			}
			inSlices := stands.has(e)
			sliced = sliced || inSlices && e.In(syncer.KindEndpointSlices)
			either = either || (inSlices || c.inEndpoints.has(e)) && e.In(syncer.KindEndpoints)
		}
	}
	c.acknowledged = map[syncer.Kinds]bool{syncer.KindEndpointSlices: sliced, syncer.KindEndpoints: either}
}

// serving is what stands ready, by address.
type serving map[netip.Addr][]syncer.Endpoint

func (s serving) add(e syncer.Endpoint) {
	if e.Ready {
		s[e.Addr] = append(s[e.Addr], e)
	}
}

// has reports whether an endpoint, or the one in whose place it comes, stands ready.
func (s serving) has(e *syncer.Endpoint) bool {
	return slices.ContainsFunc(s[e.Addr], func(o syncer.Endpoint) bool { return follows(e, &o) })
}

// standReady is what stands ready in the member's slices.
func (m *member) standReady() serving {
	stands := serving{}
	for _, s := range m.slices {
		for e := range endpointsOf(&s.Slice) {
			stands.add(e)
		}
	}
	return stands
}

// published are the endpoints of a member in the state that consumers of a kind see, the
// member's own list if none differs. Slices name their reserve, those of a later place with
// it: their grades are as they will be read again.
func (c *classes) published(m *member, kind syncer.Kinds) []syncer.Endpoint {
	out, named := m.endpoints, kind == syncer.KindEndpointSlices && m.Place > 0
	if !c.lower && !named && (kind == syncer.KindEndpoints || c.best.grade != syncer.Reserve) {
		return out
	}
	stands := c.inEndpoints
	if c.lower && kind == syncer.KindEndpointSlices {
		stands = m.standReady()
	}
	out = slices.Clone(out)
	for i := range out {
		e := &out[i]
		of := m.classOf(e)
		if of.grade < syncer.Reserve {
			continue
		}
		if named {
			e.Grade = syncer.Reserve
		}
		if of != c.best && (c.acknowledged[kind] || !stands.has(e)) {
			e.Ready, e.Serving = false, false
		}
	}
	if kind == syncer.KindEndpointSlices {
		nameable(out)
	}
	return out
}

// nameable leaves an address unnamed that is of the reserve for one endpoint and not for
// another: slices name addresses.
func nameable(endpoints []syncer.Endpoint) {
	for first := 0; first < len(endpoints); {
		end, mixed := first+1, false
		for ; end < len(endpoints) && endpoints[end].Addr == endpoints[first].Addr; end++ {
			mixed = mixed || endpoints[end].Grade != endpoints[first].Grade
		}
		for ; first < end; first++ {
			if mixed {
				endpoints[first].Grade = endpoints[first].StandingGrade(false)
			}
		}
	}
}

// demotes reports whether any endpoint of the member is published otherwise than it says.
func (c *classes) demotes(m *member) bool {
	return c.lower && slices.ContainsFunc(m.endpoints, func(e syncer.Endpoint) bool {
		of := m.classOf(&e)
		return of.grade >= syncer.Reserve && of != c.best
	})
}
