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
// it stands ready, in a slice that is not busy, those that stand ready of lower classes go on.
func publish(now *Current, members []*member) (best class) {
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
		return slices.ContainsFunc(m.endpoints, func(e syncer.Endpoint) bool { return m.classOf(&e) == best && m.serves(&e, now.busySlice) })
	})
	for _, m := range members {
		if m.published = m.endpoints; len(all) == 1 && best == (class{syncer.Ready, 0}) {
			continue
		}
		m.published = slices.Clone(m.endpoints)
		for i := range m.published {
			e := &m.published[i]
			if of := m.classOf(e); of.grade > syncer.NotReady && of != best && (stands || !m.serves(e, nil)) {
				e.Ready, e.Serving = false, false
			}
			e.Grade = m.named(e)
		}
	}
	return best
}

// named is the grade that a slice tells of an endpoint: one of a later place is of the reserve,
// too. Slices name addresses, so that one that several endpoints share is named for all or none.
func (m *member) named(e *syncer.Endpoint) syncer.Grade {
	grade := func(o *syncer.Endpoint) syncer.Grade {
		if m.Place > 0 && m.classOf(o).grade > syncer.NotReady {
			return syncer.Reserve
		}
		return o.Grade
	}
	for o := range on(m.endpoints, e.Addr) {
		if grade(o) != grade(e) {
			return e.StandingGrade(false)
		}
	}
	return grade(e)
}

// serves reports whether an endpoint, or one in whose place it comes, stands ready in a slice that is
// none of not.
func (m *member) serves(e *syncer.Endpoint, not func(slice string) bool) bool {
	if m.ready == nil {
		m.ready = map[netip.Addr][]standing{}
		for _, s := range m.slices {
			for o := range endpointsOf(&s.Slice) {
				if o.Ready {
					m.ready[o.Addr] = append(m.ready[o.Addr], standing{s.Name, o})
				}
			}
		}
	}
	return slices.ContainsFunc(m.ready[e.Addr], func(o standing) bool {
		return follows(e, &o.Endpoint) && (not == nil || !not(o.slice))
	})
}

// standing is an endpoint with the name of its slice.
type standing struct {
	slice string
	syncer.Endpoint
}
