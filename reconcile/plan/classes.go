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

// publish decides who serves: the best class that is not empty, which it returns. Until one of
// it stands ready, in slices, those that stand ready of lower classes go on.
func publish(members []*member) (best class) {
	all := map[class]bool{}
	for _, m := range members {
		for i := range m.endpoints {
			if of := m.classOf(&m.endpoints[i]); of.grade > syncer.NotReady {
				all[of] = true
				if of.better(best) {
					best = of
				}
			}
		}
	}
	stands := len(all) < 2 || slices.ContainsFunc(members, func(m *member) bool {
		return slices.ContainsFunc(m.endpoints, func(e syncer.Endpoint) bool { return m.classOf(&e) == best && m.serves(&e) })
	})
	for _, m := range members {
		if m.published = m.endpoints; len(all) == 1 && best == (class{syncer.Ready, 0}) {
			continue
		}
		m.published = slices.Clone(m.endpoints)
		for i := range m.published {
			e := &m.published[i]
			of := m.classOf(e)
			if m.Place > 0 && of.grade > syncer.NotReady {
				e.Grade = syncer.Reserve // slices name those of a later place, too
			}
			if of.grade > syncer.NotReady && of != best && (stands || !m.serves(&m.endpoints[i])) {
				e.Ready, e.Serving, m.verbatim = false, false, nil
			}
		}
		nameable(m.published)
	}
	return best
}

// serves reports whether an endpoint, or one in whose place it comes, stands ready in a slice.
func (m *member) serves(e *syncer.Endpoint) bool {
	if m.ready == nil {
		m.ready = map[netip.Addr][]syncer.Endpoint{}
		for _, s := range m.slices {
			for o := range endpointsOf(&s.Slice) {
				if o.Ready {
					m.ready[o.Addr] = append(m.ready[o.Addr], o)
				}
			}
		}
	}
	return slices.ContainsFunc(m.ready[e.Addr], func(o syncer.Endpoint) bool { return follows(e, &o) })
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
