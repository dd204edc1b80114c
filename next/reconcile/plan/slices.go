// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/next/syncer"
)

// slices compares the slices of all members.
func (c *comparison) slices() {
	for i := range c.now.Slices {
		s := &c.now.Slices[i]
		if !s.Owned {
			c.foreign(KindEndpointSlice, s.Name, &s.Meta, "consumers take its endpoints for the replica's, and nobody here keeps them up; delete it unless it is meant")
			continue
		}
		c.slice(s, c.want.slice(s.Name))
	}
	for i := range c.want.slices {
		if w := &c.want.slices[i]; c.now.slice(w.Name) == nil {
			c.createSlice(w)
		}
	}
}

func (c *comparison) createSlice(w *sliceWish) {
	if !c.whole || c.lacks(w.Ports) {
		c.waiting.More = c.waiting.More || c.whole
		return
	}
	a := c.action(Create, KindEndpointSlice, w.Name, "new", nil)
	if a == nil {
		return
	}
	c.fillSlice(a, nil, w, w.Slice)
	a.rank(c.sheds(w))
	c.add(a)
}

// sheds reports whether a new slice is there for endpoints to lose a port: those of a member
// that is to have fewer.
func (c *comparison) sheds(w *sliceWish) bool {
	return slices.ContainsFunc(c.now.Slices, func(s Slice) bool {
		return s.Owned && s.Family == w.Family && len(s.Endpoints) > 0 && len(s.Ports) > len(w.Ports) &&
			c.want.slice(s.Name) == nil && memberOf(c.want.Key, &s, c.want.members) == w.member && within(w.Ports, s.Ports)
	})
}

// within reports whether all ports of one list are in another.
func within(some, all []syncer.Port) bool {
	return !slices.ContainsFunc(some, func(p syncer.Port) bool { return !slices.Contains(all, p) })
}

// fillSlice makes an action write a slice; s is nil for a new one.
func (c *comparison) fillSlice(a *Action, s *Slice, w *sliceWish, content syncer.Slice) {
	id := c.sliceMark(w.member)
	a.Member, a.Owner, a.Slice = w.member, c.now.Service.UID, &content
	none := syncer.Slice{}
	if s == nil {
		id.dress(a, nil, w.traits, w.trigger)
		a.Delta = inSlice(&none).to(inSlice(&content))
	} else {
		id.dress(a, &s.Meta, w.traits, w.trigger)
		a.Delta = inSlice(&s.Slice).to(inSlice(&content))
	}
	if reserve := reserveOf(content.Endpoints); reserve != "" {
		a.Annotations[syncer.AnnotationReserve] = reserve
	}
}

func (c *comparison) sliceMark(member string) mark {
	return mark{KindEndpointSlice, c.want.Key, c.want.settings.Instance, member}
}

// slice compares one that stands; w is nil where it is not wanted. An endpoint that is to be in
// another slice stays in it until it stands there.
func (c *comparison) slice(s *Slice, w *sliceWish) {
	content, left, takes, goes := c.contentOf(s, w)
	why := details
	switch {
	case goes || !equalEndpoints(s.Endpoints, content.Endpoints):
	case w == nil:
		return
	case s.Malformed:
		why = "has what Tributary does not write"
	case !c.sliceMark(w.member).stands(&s.Meta, w.traits):
		why = "labels or annotations differ"
	case c.whole && s.Owner != c.now.Service.UID:
		why = "belongs to another Service"
	default:
		return
	}
	blocked := !c.whole || s.Deleting || !goes && (c.lacks(s.Ports) || len(content.Endpoints) > maxSlice)
	if blocked {
		c.waiting.More = c.waiting.More || c.whole
		if !takes {
			return
		}
	}
	verb := Update
	if goes && !blocked {
		verb = Delete
	}
	a := c.action(verb, KindEndpointSlice, s.Name, why, &s.Meta)
	switch {
	case a == nil:
		return
	case blocked:
		a.fillReducedSlice(s, left)
	case goes:
		none := syncer.Slice{}
		a.Delta = inSlice(&s.Slice).to(inSlice(&none))
		a.Why = a.Delta.describe("not needed any more")
		a.rank(takes || c.want.losesPorts(s))
	case w == nil:
		a.fillReducedSlice(s, content.Endpoints)
		a.rank(takes)
	default:
		c.fillSlice(a, s, w, content)
		a.Why = a.Delta.describe(why)
		a.rank(takes || takesOver(s.Endpoints, content.Endpoints))
	}
	c.add(a)
}

// contentOf is what a standing slice should hold now, and what it keeps if that has to wait;
// goes is true where nothing of it is wanted.
func (c *comparison) contentOf(s *Slice, w *sliceWish) (content syncer.Slice, left []syncer.Endpoint, takes, goes bool) {
	if w != nil && equalEndpoints(s.Endpoints, w.Endpoints) {
		return w.Slice, s.Endpoints, false, false
	}
	left, takes = c.want.reduceSlice(s)
	content = syncer.Slice{Name: s.Name, Family: s.Family, Ports: s.Ports, Endpoints: wantedOf(w)}
	held := c.held(s, w, left)
	if len(held) == 0 {
		return content, left, takes, w == nil
	}
	c.waiting.More = true
	type identity struct {
		addr   netip.Addr
		target syncer.TargetRef
	}
	placed := make(map[identity]syncer.Endpoint, len(content.Endpoints)+len(held))
	for _, e := range slices.Concat(content.Endpoints, held) {
		placed[identity{e.Addr, e.Target}] = e
	}
	all := make([]syncer.Endpoint, 0, len(placed)) // in their places, for no more than order's sake
	for _, e := range slices.Concat(s.Endpoints, content.Endpoints) {
		at := identity{e.Addr, e.Target}
		if of, stays := placed[at]; stays {
			all = append(all, of)
			delete(placed, at)
		}
	}
	content.Endpoints = all
	return content, left, takes, false
}

// takesOver reports whether an endpoint serves that was in reserve.
func takesOver(standing, content []syncer.Endpoint) bool {
	for i := range standing {
		if s := &standing[i]; s.Grade == syncer.Reserve && !s.Ready && slices.ContainsFunc(content, func(e syncer.Endpoint) bool {
			return e.Ready && e.Addr == s.Addr && e.Target == s.Target
		}) {
			return true
		}
	}
	return false
}

func equalEndpoints(a, b []syncer.Endpoint) bool {
	return slices.EqualFunc(a, b, func(a, b syncer.Endpoint) bool { return a.Equal(&b) })
}

// held are the endpoints that go from a slice to another, and do not stand there yet, in the
// state that they may keep. left is what the slice keeps of its own.
func (c *comparison) held(s *Slice, w *sliceWish, left []syncer.Endpoint) (held []syncer.Endpoint) {
	var stays map[netip.Addr]bool
	for i := range left {
		e := &left[i]
		if stays == nil {
			stays = map[netip.Addr]bool{}
			for j := range wantedOf(w) {
				stays[w.Endpoints[j].Addr] = true
			}
		}
		if !stays[e.Addr] && c.onItsWay(s, e) {
			held = append(held, *e)
		}
	}
	return held
}

func wantedOf(w *sliceWish) []syncer.Endpoint {
	if w == nil {
		return nil
	}
	return w.Endpoints
}

// addrOf is an address of a member.
type addrOf struct {
	member string
	addr   netip.Addr
}

// onItsWay reports whether an endpoint of a slice is wanted in others, and stands in none of
// them as it should.
func (c *comparison) onItsWay(s *Slice, e *syncer.Endpoint) bool {
	member := memberOf(c.want.Key, s, c.want.members)
	if c.places == nil {
		c.places = map[addrOf][]*sliceWish{}
		for i := range c.want.slices {
			w := &c.want.slices[i]
			for j := range w.Endpoints {
				at := addrOf{w.member, w.Endpoints[j].Addr}
				c.places[at] = append(c.places[at], w)
			}
		}
	}
	onItsWay := false
	for _, w := range c.places[addrOf{member, e.Addr}] {
		if w.Name == s.Name || !slices.ContainsFunc(w.Endpoints, func(o syncer.Endpoint) bool { return follows(&o, w.Ports, e, s.Ports) }) {
			continue
		}
		serves := e.Ready && slices.ContainsFunc(w.Endpoints, func(o syncer.Endpoint) bool { return o.Addr == e.Addr && o.Ready })
		if t := c.now.slice(w.Name); t != nil && t.Owned && !t.Deleting && slices.ContainsFunc(t.Endpoints, func(o syncer.Endpoint) bool {
			return o.Addr == e.Addr && (o.Ready || !serves)
		}) {
			return false
		}
		onItsWay = true
	}
	return onItsWay
}

// follows reports whether an endpoint is another one, perhaps under other ports: of the same
// object, or of one that serves on the same port.
func follows(o *syncer.Endpoint, oPorts []syncer.Port, e *syncer.Endpoint, ePorts []syncer.Port) bool {
	return o.Addr == e.Addr && (o.Target == e.Target || e.Target == (syncer.TargetRef{}) || sharePort(oPorts, ePorts))
}

func sharePort(a, b []syncer.Port) bool {
	return len(a)+len(b) == 0 || slices.ContainsFunc(a, func(p syncer.Port) bool {
		return slices.ContainsFunc(b, func(o syncer.Port) bool { return p.Number == o.Number && p.Protocol == o.Protocol })
	})
}
