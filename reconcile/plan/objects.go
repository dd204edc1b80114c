// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// maxSlice is how many endpoints the API lets a slice have.
const maxSlice = 1000

// Why objects are written.
const (
	differs  = "endpoints differ"
	dressed  = "labels or annotations differ"
	unwanted = "no member has the Service"
)

// slices compares the slices of all members.
func (c *comparison) slices() {
	// What stands in Endpoints alone would be taken for the share of a member that is not listed,
	// so that a slice stays, empty, until they are gone.
	e := c.now.Endpoints
	last := c.gone && e != nil && e.Owned && len(e.Subsets) > 0
	for i := range c.now.Slices {
		s := &c.now.Slices[i]
		switch {
		case s.Owned:
			c.slice(s, c.want.slice(s.Name), last && !s.Deleting)
			last = last && s.Deleting
		case !c.gone:
			c.foreign(KindEndpointSlice, s.Name, &s.Meta, "consumers take its endpoints for the replica's, and nobody here keeps them up; delete it unless it is meant")
		}
	}
	for i := range c.want.slices {
		if w := &c.want.slices[i]; c.now.slice(w.slice.Name) == nil {
			c.create(KindEndpointSlice, w.slice.Name, w, true)
		}
	}
}

// endpoints compares the Endpoints.
func (c *comparison) endpoints() {
	e, w := c.now.Endpoints, c.want.endpoints
	why := ""
	switch {
	case w == nil && (e == nil || !e.Owned):
	case e == nil:
		sliced := func(s Slice) bool { return s.Owned && !s.Deleting }
		c.create(KindEndpoints, c.want.Name, w, len(c.want.slices) == 0 || slices.ContainsFunc(c.now.Slices, sliced))
	case !e.Owned:
		c.foreign(KindEndpoints, c.want.Name, &e.Meta, "it is left alone, only slices are written")
	case c.gone:
		why = unwanted
	case w == nil:
		why = "not written any more"
	case !sameSubsets(e.Subsets, w.endpoints.Subsets):
		why = differs
	case w.endpoints.Truncated != (e.Annotations[syncer.AnnotationOverCapacity] == overCapacity) || !c.want.mark(KindEndpoints, "").stands(&e.Meta, w.traits):
		why = dressed
	}
	if why != "" {
		c.write(c.now.object(KindEndpoints, c.want.Name), w, why, false)
	}
}

// create makes an object, if it may be made now.
func (c *comparison) create(kind Kind, name string, w *wish, may bool) {
	if !c.whole || !may || c.lacks(w) {
		c.waiting.More = c.waiting.More || c.whole
		return
	}
	if a := c.action(Create, kind, name, "new", nil); a != nil {
		if a.fill(w, nil); kind == KindEndpointSlice {
			a.Owner = c.now.Service.UID
		}
		a.rank(kind == KindEndpointSlice && c.sheds(w))
		c.add(a)
	}
}

// sheds reports whether a new slice is there for endpoints to lose a port.
func (c *comparison) sheds(w *wish) bool {
	return slices.ContainsFunc(c.now.Slices, func(s Slice) bool {
		return s.Owned && s.Family == w.slice.Family && len(s.Endpoints) > 0 && len(s.Ports) > len(w.slice.Ports) && c.want.slice(s.Name) == nil &&
			within(w.slice.Ports, s.Ports) && c.want.memberOf(c.now.objectOf(&s)) == w.member
	})
}

// slice compares one that stands; w is nil where it is not wanted, and stays has it stay without
// endpoints. An endpoint that is to be in another slice is in this one until it stands there.
func (c *comparison) slice(s *Slice, w *wish, stays bool) {
	if w != nil && sameEndpoints(s.Endpoints, w.slice.Endpoints, true) {
		switch {
		case !sameNumbers(s.Ports, w.slice.Ports):
			c.write(c.now.objectOf(s), w, "somebody has changed its ports", false)
		case s.Malformed:
			c.write(c.now.objectOf(s), w, "has what Tributary does not write", false)
		case !c.want.mark(KindEndpointSlice, w.member).stands(&s.Meta, w.traits):
			c.write(c.now.objectOf(s), w, dressed, false)
		case c.whole && s.Owner != c.now.Service.UID:
			c.write(c.now.objectOf(s), w, "belongs to another Service", false)
		}
		return
	}
	o := c.now.objectOf(s)
	left, _ := c.want.reduce(o)
	if held := c.held(o, w, left); len(held) > 0 {
		c.waiting.More = true
		content := s.Slice
		if content.Endpoints = portless(held); w == nil {
			w = &wish{traits: traits{left: true}, member: o.member}
		} else {
			content.Endpoints = slices.Concat(w.slice.Endpoints, content.Endpoints)
		}
		with := *w
		w, with.slice = &with, &content
		if sameEndpoints(s.Endpoints, content.Endpoints, false) {
			return
		}
	}
	why := differs
	if c.gone {
		why = unwanted
	} else if w == nil {
		why = "not needed any more"
	}
	if !stays || len(s.Endpoints) > 0 {
		c.write(o, w, why, stays)
	}
}

// write makes an object what it should be now; nil: it goes. Where that has to wait, or with less,
// only what is taken away is written.
func (c *comparison) write(o *object, w *wish, why string, less bool) {
	left, takes := c.want.reduce(o)
	if o.Deleting {
		c.wait(cmp.Or(c.waiting.Reason, WaitObjectDeleting))
	}
	if less = less || !c.whole || o.Deleting || w != nil && (c.lacks(w) || w.slice != nil && len(w.slice.Endpoints) > maxSlice); less {
		if c.waiting.More = c.waiting.More || c.whole && !o.Deleting; !takes {
			return
		}
	}
	verb := Update
	if w == nil && !less {
		verb = Delete
	}
	a := c.action(verb, o.kind, o.name, why, o.Meta)
	switch {
	case a == nil:
		return
	case less:
		a.reduce(o, left)
	case w == nil:
		a.Delta = deltaOf(slices.Values(o.endpoints), slices.Values([]syncer.Endpoint(nil)))
		if o.kind == KindEndpoints && !c.gone {
			a.Delta = Delta{} // for what lives stays in slices
		}
		a.rank(takes || o.slice != nil && c.want.loses(o))
	default:
		if a.fill(w, o); o.slice != nil {
			a.Owner = c.now.Service.UID
		}
		a.rank(takes || c.takesOver(o, &a.Delta))
	}
	c.add(a)
}

// takesOver reports whether endpoints serve that were in reserve, because another class than
// the first does: those that turn ready, and that a slice names.
func (c *comparison) takesOver(o *object, delta *Delta) bool {
	named := func(e syncer.Endpoint) bool { return e.Grade == syncer.Reserve && !e.Ready }
	return len(delta.Readied) > 0 && c.want.best != class{syncer.Ready, 0} && (o.slice == nil || slices.ContainsFunc(o.endpoints, named))
}

// held are the endpoints that go from a slice to another, and do not stand there yet, in the
// state that they may keep. left is what the slice keeps of its own.
func (c *comparison) held(o *object, w *wish, left []syncer.Endpoint) (held []syncer.Endpoint) {
	stays := map[netip.Addr]bool{}
	if w != nil {
		for i := range w.slice.Endpoints {
			stays[w.slice.Endpoints[i].Addr] = true
		}
	}
	for i := range left {
		if e := &left[i]; !stays[e.Addr] && c.onItsWay(o, e) {
			held = append(held, *e)
		}
	}
	return held
}

// addrOf is an address of a member.
type addrOf struct {
	member string
	addr   netip.Addr
}

// onItsWay reports whether an endpoint of a slice is wanted in others, and stands in none of
// them as it should.
func (c *comparison) onItsWay(o *object, e *syncer.Endpoint) (onItsWay bool) {
	if c.places == nil {
		c.places = map[addrOf][]*wish{}
		for i := range c.want.slices {
			w := &c.want.slices[i]
			for j := range w.slice.Endpoints {
				at := addrOf{w.member, w.slice.Endpoints[j].Addr}
				c.places[at] = append(c.places[at], w)
			}
		}
	}
	for _, w := range c.places[addrOf{o.member, e.Addr}] {
		comes, serves := false, false
		for of := range endpointsOf(w.slice) {
			comes, serves = comes || follows(&of, e), serves || of.Addr == e.Addr && of.Ready
		}
		if w.slice.Name == o.name || !comes {
			continue
		}
		t := c.now.slice(w.slice.Name)
		if t != nil && t.Owned && !t.Deleting && slices.ContainsFunc(t.Endpoints, func(there syncer.Endpoint) bool {
			return there.Addr == e.Addr && (there.Ready || !serves || !e.Ready)
		}) {
			return false
		}
		onItsWay = true
	}
	return onItsWay
}
