// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// pack packs the endpoints of each member into slices of its own.
func (m *merger) pack(d *Desired) {
	for _, one := range m.members {
		if one.feeds() {
			d.slices = append(d.slices, m.slicesOf(one, d)...)
		}
	}
	d.takeAway(m.now)
}

func (m *merger) slicesOf(one *member, d *Desired) (out []*wish) {
	source, families := one.service, one.families
	if one.SourceOpen {
		source = nil
	}
	if len(families) == 0 && source != nil { // a slice tells that the member has the Service
		families = []syncer.Family{syncer.IPv4}
	}
	w := wish{traits: m.settings.traits(KindEndpointSlice, m.key, one.Member, source)}
	if source != nil {
		w.trigger = one.Given.Trigger
	}
	o := syncer.PackOptions{Service: m.key, Cluster: one.Member, MaxEndpoints: m.settings.MaxEndpointsPerSlice}
	for _, s := range syncer.Pack(m.shelf(one), one.published, families, o) {
		packed := w
		packed.slice = &s
		out = append(out, &packed)
	}
	moves := moves{now: m.now, wishes: out}
	for _, s := range slices.Concat(one.slices, one.deleting) {
		at := slices.IndexFunc(out, func(w *wish) bool { return w.slice.Name == s.Name })
		if at < 0 {
			out, at = append(out, goes(s)), len(out)
		}
		d.moving = moves.from(s, out[at]) || d.moving
	}
	return out
}

// shelf are the slices of a member, and the mere names of all others.
func (m *merger) shelf(one *member) []syncer.Slice {
	out := make([]syncer.Slice, 0, len(m.now.Slices))
	for i := range m.now.Slices {
		s := &m.now.Slices[i]
		if slices.Contains(one.slices, s) {
			out = append(out, s.Slice)
		} else {
			out = append(out, syncer.Slice{Name: s.Name})
		}
	}
	return out
}

// moves has endpoints that go from one slice of a member to another stay until they stand there.
type moves struct {
	now    *Current
	wishes []*wish
	// to is where addresses are to be.
	to map[netip.Addr][]place
}

// place is an endpoint as it should be in a slice.
type place struct {
	*wish
	syncer.Endpoint
}

// from goes through the endpoints of a slice that it should not have any more, and reports
// whether some of them stay for now.
func (m *moves) from(s *Slice, w *wish) (stay bool) {
	if sameEndpoints(s.Endpoints, w.slice.Endpoints) {
		return false
	}
	w.moved = map[netip.Addr]bool{}
	var all []syncer.Endpoint
	of, next := w.slice.Endpoints, 0 // in the order in which they stand, new ones last
	for _, e := range s.Endpoints {
		at := slices.IndexFunc(of[next:], func(o syncer.Endpoint) bool { return o.Addr == e.Addr && o.Target == e.Target })
		switch {
		case at >= 0:
			all, next = append(all, of[next:next+at+1]...), next+at+1
		case slices.ContainsFunc(of, func(o syncer.Endpoint) bool { return o.Addr == e.Addr }):
		case m.stays(&e, s, w):
			all, stay = append(all, e), true
		}
	}
	if stay {
		content := *w.slice
		content.Endpoints, w.slice, w.absent = append(all, of[next:]...), &content, false
	}
	return stay
}

// stays reports whether an endpoint stays in its slice because it is to be in another, and does not
// stand there yet. It stays as it stands, less what is said against it.
func (m *moves) stays(e *syncer.Endpoint, s *Slice, w *wish) bool {
	if m.to == nil {
		m.to = map[netip.Addr][]place{}
		for _, w := range m.wishes {
			for e := range endpointsOf(w.slice) {
				m.to[e.Addr] = append(m.to[e.Addr], place{w, e})
			}
		}
	}
	stands := *e
	stands.Ports = s.Ports
	var c claim
	there := false
	for _, to := range m.to[e.Addr] {
		if to.wish != w && follows(&to.Endpoint, &stands) {
			c.add(&to.Endpoint)
			there = there || m.arrived(&to, e)
			to.sheds = to.sheds || loses(to.Ports, s.Ports)
		}
	}
	lowered := c.said && c.lower(e)
	w.moved[e.Addr] = there && !lowered && !loses(c.ports, s.Ports)
	return c.said && !there
}

// arrived reports whether an endpoint stands where it goes to, and serves there if it is to.
func (m *moves) arrived(to *place, e *syncer.Endpoint) bool {
	s := m.now.slice(to.slice.Name)
	return s != nil && s.Owned && !s.Deleting && slices.ContainsFunc(s.Endpoints, func(there syncer.Endpoint) bool {
		return there.Addr == e.Addr && (there.Ready || !to.Ready || !e.Ready)
	})
}
