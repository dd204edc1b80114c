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
	if a.reduced || a.Verb == Create || a.Replica != now.Key || o == nil {
		return Action{}, false
	}
	r := Action{Kind: a.Kind, Replica: a.Replica, Name: a.Name, want: a.want}
	left, takes := a.want.reduce(o)
	r.reduce(o, left)
	same := a.Verb == Update && r.ResourceVersion == a.ResourceVersion && r.Owner == a.Owner &&
		maps.Equal(a.Labels, r.Labels) && maps.Equal(a.Annotations, r.Annotations) &&
		(a.Slice == nil || sameEndpoints(r.Slice.Endpoints, a.Slice.Endpoints, true)) &&
		(a.Endpoints == nil || equalSubsets(r.Endpoints.Subsets, a.Endpoints.Subsets))
	return r, takes && !same
}

// reduce makes an action write an object with less, and all else as it stands.
func (a *Action) reduce(o *object, left []syncer.Endpoint) {
	w := wish{traits: traits{left: true}, member: o.Labels.Get(syncer.LabelSourceCluster)}
	if of := a.want.wish(o); of != nil {
		w.trigger = of.trigger
	}
	if o.slice != nil {
		content := o.slice.Slice
		content.Endpoints = portless(left)
		w.slice = &content
	} else {
		w.endpoints = &EndpointsSpec{syncer.Subsets(left, ""), o.Annotations[syncer.AnnotationOverCapacity] != ""}
	}
	a.fill(&w, o)
	if a.Labels = o.Labels.Map(); o.slice != nil {
		a.Owner = o.slice.Owner
	}
	a.Verb, a.lane, a.reduced = Update, Removal, true
	a.Why = cmp.Or(a.Why, differs)
}

// claim is the best that members say of an endpoint that stands, whether its class serves or
// not.
type claim struct {
	said                        bool
	ready, serving, terminating bool
	ports                       []syncer.Port
}

// claim gathers what is said of an endpoint of an object: by the member of a slice, by all of
// Endpoints. Where no Endpoints are wanted what lives in slices stays in them until they go.
func (d *Desired) claim(o *object, e *syncer.Endpoint) (c claim) {
	for _, m := range d.members {
		if o.slice != nil && m.Member != o.member {
			continue
		}
		for said := range on(m.endpoints, e.Addr) {
			in := said.In(syncer.KindEndpointSlices)
			if o.slice == nil {
				in = inSubsets(said) || d.endpoints == nil
			}
			if !in || !follows(said, e) {
				continue
			}
			c.terminating = said.Terminating && (c.terminating || !c.said)
			c.said, c.ready, c.serving = true, c.ready || said.Ready, c.serving || said.Serving
			c.ports = append(c.ports, said.Ports...)
		}
	}
	return c
}

// reduce is what a standing object keeps of its endpoints, and whether it loses anything by
// that: those of which nobody says anything leave, those that are not ready turn so, and in
// Endpoints a port leaves whose address gets no other in its place.
func (d *Desired) reduce(o *object) (left []syncer.Endpoint, takes bool) {
	o.member = d.memberOf(o)
	all := map[netip.Addr][]syncer.Port{} // under which Endpoints have an address
	for _, e := range o.endpoints {
		if len(o.subsets) > 1 {
			all[e.Addr] = append(all[e.Addr], e.Ports...)
		}
	}
	for _, e := range o.endpoints {
		stands := e
		if len(o.subsets) > 1 {
			stands.Ports = all[e.Addr]
		}
		c := d.claim(o, &stands)
		if !c.said || !e.Addr.IsValid() {
			takes = true
			continue
		}
		if e.Ready && !c.ready || e.Serving && !c.serving {
			e.Ready, e.Serving, e.Terminating, takes = e.Ready && c.ready, e.Serving && c.serving, e.Terminating || c.terminating, true
			if !c.ready {
				e.Grade = syncer.NotReady
			}
		}
		if o.slice == nil && len(c.ports) > 0 && within(c.ports, stands.Ports) && !within(e.Ports, c.ports) {
			takes = true
			if e.Ports = slices.DeleteFunc(slices.Clone(e.Ports), func(p syncer.Port) bool { return !slices.Contains(c.ports, p) }); len(e.Ports) == 0 {
				continue
			}
		}
		left = append(left, e)
	}
	return left, takes
}

// loses reports whether endpoints of a slice that goes are to have fewer ports, and no other.
func (d *Desired) loses(o *object) bool {
	return slices.ContainsFunc(o.endpoints, func(e syncer.Endpoint) bool {
		c := d.claim(o, &e)
		return c.said && within(c.ports, e.Ports) && !within(e.Ports, c.ports)
	})
}
