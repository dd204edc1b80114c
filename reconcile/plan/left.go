// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"net/netip"
	"slices"
	"sync"

	"tributary.dev/tributary/syncer"
)

// object is a current Endpoints or slice of ours.
type object struct {
	Object
	*Meta
	slice *Slice // nil: Endpoints
	// endpoints have their ports.
	endpoints []syncer.Endpoint
}

func (c *Current) objectOf(s *Slice) *object {
	return &object{Object{KindEndpointSlice, c.Key.Namespace, s.Name}, &s.Meta, s, endpointsOf(&s.Slice)}
}

func (c *Current) objectOfEndpoints() *object {
	return &object{Object{KindEndpoints, c.Key.Namespace, c.Key.Name}, &c.Endpoints.Meta, nil, endpointsIn(c.Endpoints.Subsets)}
}

// objects are all that are ours.
func (c *Current) objects() (all []*object) {
	for i := range c.Slices {
		if c.Slices[i].Owned {
			all = append(all, c.objectOf(&c.Slices[i]))
		}
	}
	if c.Endpoints != nil && c.Endpoints.Owned {
		all = append(all, c.objectOfEndpoints())
	}
	return all
}

// claims are all endpoints that are desired beside each other, by address: in the slices of a member,
// or in Endpoints. It is a function because most comparisons do not need them.
type claims func() map[netip.Addr][]claimed

// claimed is an endpoint as it is desired in a slice; in Endpoints that has no name.
type claimed struct {
	slice string
	syncer.Endpoint
}

func claimsOf(desired iter.Seq2[string, syncer.Endpoint]) claims {
	return sync.OnceValue(func() map[netip.Addr][]claimed {
		byAddr := map[netip.Addr][]claimed{}
		for slice, e := range desired {
			byAddr[e.Addr] = append(byAddr[e.Addr], claimed{slice, e})
		}
		return byAddr
	})
}

// rest is what an object retains of its current endpoints, each with no more than it has.
type rest struct {
	// moving are those of endpoints that are to be in another slice and are not there yet.
	endpoints, moving []syncer.Endpoint
	// takes: an endpoint leaves, becomes not ready or loses a port that no other object has; sheds: one that is moving loses a port.
	takes, sheds bool
}

// rest decides about each endpoint by all that is desired of it, whether its class serves or not:
// one that nobody desires leaves, one that is not ready becomes so, one that is to be in another
// slice stays until it is there, and in Endpoints a port leaves whose address gets no other in its
// place.
func (o *object) rest(desired claims, now *Current) (r rest) {
	if desired == nil {
		return rest{takes: len(o.endpoints) > 0}
	}
	under := make(map[netip.Addr][]syncer.Port, len(o.endpoints)) // Endpoints may have an address in several subsets
	for _, e := range o.endpoints {
		under[e.Addr] = slices.Concat(under[e.Addr], e.Ports)
	}
	r.endpoints = make([]syncer.Endpoint, 0, len(o.endpoints))
	for _, e := range o.endpoints {
		// Endpoints do not say whether it is serving.
		best := syncer.Endpoint{Serving: o.slice == nil, Terminating: true}
		var here, there bool
		for _, is := range desired()[e.Addr] {
			demoted := is.Grade == syncer.Reserve
			best.Ready, best.Serving = best.Ready || is.Ready || demoted, best.Serving || is.Serving || demoted
			best.Terminating, best.Ports = best.Terminating && is.Terminating, append(best.Ports, is.Ports...)
			here = here || o.slice == nil || is.slice == o.Name
			if !here {
				there = there || is.arrived(now, &e)
			}
			best.Addr = e.Addr
		}
		if !best.Addr.IsValid() { // nobody desires it
			r.takes = true
			continue
		}
		lowered, less := lower(&e, &best), loses(best.Ports, under[e.Addr])
		r.takes = r.takes || lowered
		if !here && there {
			r.takes = r.takes || less
			continue
		}
		if o.slice == nil && less {
			retained := slices.DeleteFunc(slices.Clone(e.Ports), func(p syncer.Port) bool { return !slices.Contains(best.Ports, p) })
			r.takes = r.takes || len(retained) < len(e.Ports)
			if e.Ports = retained; len(retained) == 0 {
				continue
			}
		}
		r.endpoints = append(r.endpoints, e)
		if !here {
			r.moving, r.sheds = append(r.moving, e), r.sheds || less
		}
	}
	return r
}

// lower makes an endpoint not ready or not serving where the best that is desired of it is not, and
// reports whether it was.
func lower(e, best *syncer.Endpoint) bool {
	if (!e.Ready || best.Ready) && (!e.Serving || best.Serving) {
		return false
	}
	e.Ready, e.Serving, e.Terminating = e.Ready && best.Ready, e.Serving && best.Serving, e.Terminating || best.Terminating
	if !best.Ready {
		e.Grade = syncer.NotReady
	}
	return true
}

// arrived reports whether an endpoint of another slice is in this one already, and serves if it is to.
func (c claimed) arrived(now *Current, e *syncer.Endpoint) bool {
	s := now.slice(c.slice)
	return s != nil && s.Owned && !s.Deleting && !now.busySlice(s.Name) && slices.ContainsFunc(s.Endpoints, func(there syncer.Endpoint) bool {
		return there.Addr == e.Addr && (there.Ready || !c.Ready || !e.Ready)
	})
}

// less is the wish for an object with the rest of its endpoints, and all else as it is now, so that the
// server has as little as possible to refuse. What is merely moved, replaced or demoted stays. w is
// what the object is to be in the end; nil: nothing.
func (o *object) less(rest []syncer.Endpoint, w *wish) *wish {
	less := &wish{traits: traits{left: true}}
	if w != nil {
		less.trigger = w.trigger
	}
	if o.slice != nil {
		less.slice = &syncer.Slice{Name: o.Name, Family: o.slice.Family, Ports: o.slice.Ports, Endpoints: rest}
	} else {
		less.endpoints = &EndpointsSpec{syncer.Subsets(rest), o.Annotations[syncer.AnnotationOverCapacity] != ""}
	}
	return less
}
