// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// object is Endpoints or a slice of ours that stands.
type object struct {
	*Meta
	kind  Kind
	name  string
	slice *Slice // nil: Endpoints
	// endpoints have their ports.
	endpoints []syncer.Endpoint
}

// object finds one; nil where there is none of ours.
func (c *Current) object(kind Kind, name string) *object {
	switch e := c.Endpoints; {
	case kind == KindEndpointSlice:
		if s := c.slice(name); s != nil && s.Owned {
			return &object{&s.Meta, kind, name, s, slices.Collect(endpointsOf(&s.Slice))}
		}
	case kind == KindEndpoints && e != nil && e.Owned:
		return &object{&e.Meta, kind, name, nil, slices.Collect(endpointsIn(e.Subsets))}
	}
	return nil
}

// claims are all endpoints that are desired beside each other: in the slices of a member, or in
// Endpoints.
type claims struct {
	wishes []*wish
	byAddr map[netip.Addr][]claimed
}

// claimed is an endpoint as it is desired in an object.
type claimed struct {
	in *wish
	syncer.Endpoint
}

// on are those of an address.
func (c *claims) on(addr netip.Addr) []claimed {
	if c == nil {
		return nil
	}
	if c.byAddr == nil {
		c.byAddr = map[netip.Addr][]claimed{}
		for _, w := range c.wishes {
			for e := range w.all() {
				c.byAddr[e.Addr] = append(c.byAddr[e.Addr], claimed{w, e})
			}
		}
	}
	return c.byAddr[addr]
}

// rest is what an object keeps of the endpoints that stand in it, with no more than they have.
type rest struct {
	endpoints []syncer.Endpoint
	// takes is true if an endpoint leaves, turns not ready or loses a port by that, but for one that
	// has come to stand elsewhere. waits is true if one is to be in another slice and does not stand
	// there yet, sheds if that loses a port by it.
	takes, waits, sheds bool
}

// rest decides about each endpoint by all that is desired of it, whether its class serves or not:
// one that nobody desires leaves, one that is not ready turns so, one that is to be in another
// slice stays until it stands there, and in Endpoints a port leaves whose address gets no other in
// its place.
func (w *wish) rest(o *object, now *Current) (r rest) {
	under := map[netip.Addr][]syncer.Port{} // Endpoints may have an address in several subsets
	for _, e := range o.endpoints {
		under[e.Addr] = append(under[e.Addr], e.Ports...)
	}
	for _, e := range o.endpoints {
		stands := e
		stands.Ports = under[e.Addr]
		var best claim
		var here, there bool
		for _, is := range w.claims.on(e.Addr) {
			if follows(&is.Endpoint, &stands) {
				best.add(&is.Endpoint)
				if o.slice == nil || is.in.slice.Name == o.name {
					here = true
				} else {
					there = there || is.arrived(now, &e)
				}
			}
		}
		if !best.said || !e.Addr.IsValid() {
			r.takes = true
			continue
		}
		best.serving = best.serving || o.slice == nil // which Endpoints do not tell
		lowered, less := best.lower(&e), loses(best.ports, stands.Ports)
		if r.takes = r.takes || lowered; !here && there {
			r.takes = r.takes || less
			continue
		}
		if o.slice == nil && less {
			kept := slices.DeleteFunc(slices.Clone(e.Ports), func(p syncer.Port) bool { return !slices.Contains(best.ports, p) })
			r.takes = r.takes || len(kept) < len(e.Ports)
			if e.Ports = kept; len(kept) == 0 {
				continue
			}
		}
		r.waits, r.sheds = r.waits || !here, r.sheds || !here && less
		r.endpoints = append(r.endpoints, e)
	}
	return r
}

// arrived reports whether an endpoint that stands in another slice stands in this one, and serves if
// it is to.
func (c *claimed) arrived(now *Current, e *syncer.Endpoint) bool {
	s := now.slice(c.in.slice.Name)
	return s != nil && s.Owned && !s.Deleting && !now.busySlice(s.Name) && slices.ContainsFunc(s.Endpoints, func(there syncer.Endpoint) bool {
		return there.Addr == e.Addr && (there.Ready || !c.Ready || !e.Ready)
	})
}

// claim is the best that is desired of an endpoint that stands.
type claim struct {
	said                        bool
	ready, serving, terminating bool
	ports                       []syncer.Port
}

func (c *claim) add(e *syncer.Endpoint) {
	demoted := e.Grade == syncer.Reserve
	c.terminating = e.Terminating && (c.terminating || !c.said)
	c.said, c.ready, c.serving = true, c.ready || e.Ready || demoted, c.serving || e.Serving || demoted
	c.ports = append(c.ports, e.Ports...)
}

// lower makes an endpoint not ready or not serving if nobody says that it is, and reports whether
// it was.
func (c *claim) lower(e *syncer.Endpoint) bool {
	if (!e.Ready || c.ready) && (!e.Serving || c.serving) {
		return false
	}
	e.Ready, e.Serving, e.Terminating = e.Ready && c.ready, e.Serving && c.serving, e.Terminating || c.terminating
	if !c.ready {
		e.Grade = syncer.NotReady
	}
	return true
}

// take makes an action write an object with less, and all else as it stands, so that there is as little
// as can be to refuse. What is merely moved, replaced or demoted stays.
func (a *Action) take(o *object, left []syncer.Endpoint, trigger time.Time) {
	w := &wish{traits: traits{left: true}, trigger: trigger}
	if o.slice != nil {
		content := o.slice.Slice
		content.Endpoints = slices.Clone(left)
		for i := range content.Endpoints {
			content.Endpoints[i].Ports = nil
		}
		w.slice, a.Owner = &content, o.slice.Owner
	} else {
		w.endpoints = &EndpointsSpec{syncer.Subsets(left), o.Annotations[syncer.AnnotationOverCapacity] != ""}
	}
	a.write(w, o)
	a.Less, a.lane = true, Removal
}
