// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Reduced is the write of the same object with only what it takes away, as the object stands
// now; false if that is nothing, or all that the action is. It is sent where the server
// refused the full write: nothing is added and nothing else put right, so that there is as
// little as can be to refuse. What is merely moved, replaced or demoted stays.
func (a Action) Reduced(now Current) (Action, bool) {
	o := now.object(a.Kind, a.Name)
	if a.Verb == Create || o == nil {
		return Action{}, false
	}
	left, takes := a.wish.reduce(o)
	r := Action{Kind: a.Kind, Replica: a.Replica, Name: a.Name, wish: a.wish}
	r.take(o, left)
	same := a.Verb == Update && r.ResourceVersion == a.ResourceVersion && r.Owner == a.Owner &&
		maps.Equal(a.Labels, r.Labels) && maps.Equal(a.Annotations, r.Annotations) &&
		(a.Slice == nil || sameEndpoints(r.Slice.Endpoints, a.Slice.Endpoints)) &&
		(a.Endpoints == nil || equalSubsets(r.Endpoints.Subsets, a.Endpoints.Subsets))
	return r, takes && !same
}

// take makes an action write an object with less, and all else as it stands.
func (a *Action) take(o *object, left []syncer.Endpoint) {
	w := &wish{traits: traits{left: true}, trigger: a.wish.trigger}
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
	full := a.wish
	a.write(w, o)
	a.UID, a.ResourceVersion, a.Rest = o.UID, o.ResourceVersion, o.Rest
	a.Verb, a.Why, a.wish, a.lane = Update, cmp.Or(a.Why, differs), full, Removal
}

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

// claim is the best that is said of an endpoint that stands, whether its class serves or not.
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

// reduce is what a standing object keeps of its endpoints, and whether it loses anything by
// that: those of which nobody says anything leave, those that are not ready turn so, and in
// Endpoints a port leaves whose address gets no other in its place.
func (w *wish) reduce(o *object) (left []syncer.Endpoint, takes bool) {
	said, under := map[netip.Addr][]syncer.Endpoint{}, map[netip.Addr][]syncer.Port{}
	for e := range w.all() {
		said[e.Addr] = append(said[e.Addr], e)
	}
	for _, e := range o.endpoints { // Endpoints may have an address in several subsets
		under[e.Addr] = append(under[e.Addr], e.Ports...)
	}
	for _, e := range o.endpoints {
		var c claim
		stands := e
		stands.Ports = under[e.Addr]
		for i := range said[e.Addr] {
			if is := &said[e.Addr][i]; follows(is, &stands) {
				c.add(is)
			}
		}
		if !c.said || !e.Addr.IsValid() {
			takes = takes || !w.moved[e.Addr]
			continue
		}
		c.serving = c.serving || o.slice == nil // which Endpoints do not tell
		takes = c.lower(&e) || takes
		if o.slice == nil && loses(c.ports, stands.Ports) {
			kept := slices.DeleteFunc(slices.Clone(e.Ports), func(p syncer.Port) bool { return !slices.Contains(c.ports, p) })
			takes = takes || len(kept) < len(e.Ports)
			if e.Ports = kept; len(kept) == 0 {
				continue
			}
		}
		left = append(left, e)
	}
	return left, takes
}
