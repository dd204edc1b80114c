// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/reconcile/ports"
	"tributary.dev/tributary/syncer"
)

// member is a share on its way through the merge.
type member struct {
	*syncer.Share
	// orphan marks one that is not configured: its share is what is published of it.
	orphan bool
	// service is the source; nil where there is none, or nobody knows it.
	service *syncer.Service
	// slices are its published slices, without those that are being deleted.
	slices []*Slice
	// endpoints are all that count, in canonical order, as they are when their class is
	// published, and published as consumers see them.
	endpoints, published []syncer.Endpoint
	sliced               map[netip.Addr][]syncer.Endpoint // see inSlices
	// families are those that have a slice in any case.
	families []syncer.Family
}

// sourceUnknown reports whether what is published of the member may be its share: its slices tell
// that it had one, and whether it still has is not known yet.
func (m *member) sourceUnknown() bool {
	return len(m.slices) > 0 && m.SourceOpen
}

// byHand reports whether the member's endpoints are written by hand.
func (m *member) byHand() bool { return m.service != nil && m.service.Selector == nil }

// ports are those of the source.
func (m *member) ports() *ports.Source {
	return &ports.Source{Member: m.Member, Ports: m.service.Ports, ByHand: m.byHand(), Serves: func(name string) bool {
		return slices.ContainsFunc(m.slices, func(s *Slice) bool {
			return len(s.Endpoints) > 0 && slices.ContainsFunc(s.Ports, func(p syncer.Port) bool { return p.Name == name })
		})
	}}
}

// feeds reports whether the member has a share in the replica.
func (m *member) feeds() bool { return m.service != nil || len(m.endpoints) > 0 || m.sourceUnknown() }

// gather reads the shares and what is published of them, and adds a member for published slices of
// each member without a share.
func (m *merger) gather(shares []syncer.Share) {
	of, last := map[string]*member{}, 0
	for i := range shares {
		one := &member{Share: &shares[i]}
		m.members = append(m.members, one)
		of[one.Member], last = one, max(last, one.Place)
	}
	if last > 0 {
		last++
	}
	for i := range m.now.Slices {
		s := &m.now.Slices[i]
		name := MemberOf(m.key, s)
		if !s.Owned || s.Deleting || of[name] == nil && m.settings.DropOrphans {
			continue
		}
		if of[name] == nil {
			of[name] = &member{orphan: true, Share: &syncer.Share{Member: name, Place: last, SourceOpen: true, Reserve: "not configured any more"}}
			m.members = append(m.members, of[name])
		}
		of[name].slices = append(of[name].slices, s)
	}
	slices.SortFunc(m.members, func(a, b *member) int { return strings.Compare(a.Member, b.Member) })
	e := m.now.Endpoints
	m.apart = m.settings.WriteEndpoints && e != nil && e.Owned && e.Annotations[syncer.AnnotationOverCapacity] == "" &&
		slices.ContainsFunc(m.members, func(one *member) bool { return !one.Listed || one.Keep != nil })
	for _, one := range m.members {
		one.read(m.apart)
	}
	if m.apart {
		m.readEndpoints()
	}
	for _, one := range m.members {
		one.settle()
	}
}

// MemberOf is the member of a slice of ours, read from its name, for anybody may change the label; a copy
// under another name may be anything.
func MemberOf(replica syncer.Key, s *Slice) string {
	return cmp.Or(syncer.ClusterOf(replica.Name, s.Name), s.Labels.Get(syncer.LabelSourceCluster))
}

// read fills the member's share from what it contributes and what its slices have; apart: Endpoints
// are read separately.
func (m *member) read(apart bool) {
	if m.Listed {
		m.service, m.endpoints, m.families = m.Given.Service, slices.Clip(m.Given.Endpoints), slices.Clip(m.Given.Families)
	}
	for _, s := range m.slices {
		if m.service == nil && m.SourceOpen && !slices.Contains(m.families, s.Family) {
			m.families = append(m.families, s.Family)
		}
		for _, e := range endpointsOf(&s.Slice) {
			if apart {
				e.Only = syncer.KindEndpointSlices
			}
			m.retain(e)
		}
	}
}

// readEndpoints assigns each address in Endpoints to the members in whose slices it is: each kind stays
// as it is, whatever was not written of the other. An address that no slice has belongs to the first member
// that retains it. If it has a pod it should be in slices as well: a process was killed between the writes.
// It stays until one member is listed, and then belongs to none that is not: it may be what another
// member removed, whose Endpoints are yet to be written.
func (m *merger) readEndpoints() {
	starts := !slices.ContainsFunc(m.members, func(one *member) bool { return one.Listed })
	for _, e := range endpointsIn(m.now.Endpoints.Subsets) {
		having := slices.DeleteFunc(slices.Clone(m.members), func(one *member) bool { return len(one.inSlices()[e.Addr]) == 0 })
		for _, one := range having {
			here := e
			for _, s := range one.inSlices()[e.Addr] {
				// Which reserves serve is decided anew; of ready ones a slice alone tells whether they serve or terminate.
				// Where others have the address, or may have removed it, one whose slice says not ready is not the one that serves.
				if s.Target == e.Target && (s.Grade == syncer.Reserve || s.Ready && e.Ready || !s.Ready && (!starts || len(having) > 1)) {
					here.Grade, here.Ready, here.Serving, here.Terminating = s.Grade, s.Ready, s.Serving, s.Terminating
				}
			}
			one.retain(here)
		}
		for _, one := range m.members {
			if len(having) == 0 && (starts || one.Listed || len(one.slices) > 0 && e.Target.UID == "") && one.retain(e) {
				break
			}
		}
	}
}

// inSlices are the endpoints in the member's published slices, by address.
func (m *member) inSlices() map[netip.Addr][]syncer.Endpoint {
	if m.sliced == nil {
		m.sliced = map[netip.Addr][]syncer.Endpoint{}
		for _, s := range m.slices {
			for _, e := range s.Endpoints {
				m.sliced[e.Addr] = append(m.sliced[e.Addr], e)
			}
		}
	}
	return m.sliced
}

// retain adds a published endpoint of the member, if it still counts and Given lacks it.
func (m *member) retain(e syncer.Endpoint) bool {
	same := func(g syncer.Endpoint) bool { return g.Target == e.Target }
	if !e.Addr.IsValid() || m.Listed && (m.Keep == nil || slices.ContainsFunc(on(m.Given.Endpoints, e.Addr), same)) {
		return false
	}
	e.Grade = GradeAt(m.Place, &e)
	if e.Grade >= syncer.Reserve && !e.Ready {
		e.Ready, e.Serving = true, true
	}
	if m.Keep != nil {
		var ok bool
		if e, ok = m.Keep(e); !ok {
			return false
		}
	}
	m.endpoints = append(m.endpoints, e)
	return true
}

// GradeAt is the grade of a published endpoint whose member has a place in the failover order. A later
// place alone names it as reserve: where it serves there is no doubt about it.
func GradeAt(place int, e *syncer.Endpoint) syncer.Grade {
	if place > 0 && e.Grade == syncer.Reserve && e.Ready {
		return syncer.Ready
	}
	return e.Grade
}

// on are the endpoints of an address; they are in canonical order.
func on(endpoints []syncer.Endpoint, addr netip.Addr) []syncer.Endpoint {
	at, _ := slices.BinarySearchFunc(endpoints, addr, func(e syncer.Endpoint, addr netip.Addr) int { return syncer.CompareAddr(e.Addr, addr) })
	end := at
	for end < len(endpoints) && endpoints[end].Addr == addr {
		end++
	}
	return endpoints[at:end]
}

// settle sorts the endpoints, and lowers their grade where the member's state, or that nobody follows
// it, makes them doubtful.
func (m *member) settle() {
	compare := func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) }
	if m.Reserve == "" && slices.IsSortedFunc(m.endpoints, compare) {
		return
	}
	m.endpoints = slices.SortedStableFunc(slices.Values(m.endpoints), compare)
	for i := range m.endpoints {
		if m.Reserve != "" {
			m.endpoints[i].Grade = min(m.endpoints[i].Grade, syncer.Reserve)
		}
	}
}

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

// publish decides who serves: the best class that is not empty, which it returns. Until one of it is
// ready in a current slice that is not busy, the ready endpoints of lower classes go on.
func (m *merger) publish() (best class) {
	classes := map[class]bool{}
	for _, one := range m.members {
		for i := range one.endpoints {
			if of := one.classOf(&one.endpoints[i]); of.grade > syncer.NotReady {
				classes[of] = true
				if of.better(best) {
					best = of
				}
			}
		}
	}
	takenOver := len(classes) < 2 || slices.ContainsFunc(m.members, func(one *member) bool {
		return slices.ContainsFunc(one.slices, func(s *Slice) bool {
			return !m.now.busySlice(s.Name) && slices.ContainsFunc(s.Endpoints, func(current syncer.Endpoint) bool {
				return current.Ready && slices.ContainsFunc(on(one.endpoints, current.Addr), func(e syncer.Endpoint) bool { return one.classOf(&e) == best })
			})
		})
	})
	for _, one := range m.members {
		one.published = one.endpoints
		if len(classes) == 1 && best == (class{syncer.Ready, 0}) {
			continue
		}
		one.published = slices.Clone(one.endpoints)
		for i := range one.published {
			e := &one.published[i]
			if of := one.classOf(e); of.grade > syncer.NotReady && of != best && (takenOver || !slices.ContainsFunc(one.inSlices()[e.Addr], func(current syncer.Endpoint) bool { return current.Ready })) {
				e.Ready, e.Serving = false, false
			}
			e.Grade = one.named(e)
		}
	}
	return best
}

// named is the grade that a slice names for an endpoint: one of a later place is of the reserve,
// too. Slices name addresses, so an address that several endpoints share is named for all or none.
func (m *member) named(e *syncer.Endpoint) syncer.Grade {
	grade := func(o *syncer.Endpoint) syncer.Grade {
		if m.Place > 0 && m.classOf(o).grade > syncer.NotReady {
			return syncer.Reserve
		}
		return o.Grade
	}
	for _, o := range on(m.endpoints, e.Addr) {
		if o.In(syncer.KindEndpointSlices) && grade(&o) != grade(e) {
			return e.PublishedGrade(false)
		}
	}
	return grade(e)
}
