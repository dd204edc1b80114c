// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// claim is the best that anybody says of an address, before it is decided who
// serves: one that a drain, a failover or another's silence takes out is alive, and
// goes only together with what takes its place.
type claim struct {
	// endpoints is the state in Endpoints.
	endpoints traffic
	// sliced is true when slices may have the address, in this state.
	sliced                      bool
	ready, serving, terminating bool
}

// removals plans the first half: each object of ours that stands, without what must
// go, under whoever's Service it stands. Nothing is added and nothing else is put
// right, so that nothing can be refused with it. With mayDelete a slice of which
// nothing is left and that nobody wants goes at once.
func (d *differ) removals(mayDelete bool) {
	e, sliced := d.current.ours(), d.current.slicesOf(every)
	suspects := addrPorts{}
	if e.Owned {
		suspects.subsets(e.Subsets, d.desired.Endpoints.Subsets)
	}
	for _, s := range sliced {
		suspects.slice(&s.Slice, cmp.Or(sliceNamed(d.desired.Slices, s.Meta.Name), &syncer.Slice{}))
	}
	if len(suspects) == 0 {
		return // as it nearly always is
	}
	claims := d.claims(suspects)
	if e.Owned {
		d.reduceEndpoints(e, claims)
	}
	for _, s := range sliced {
		d.reduceSlice(s, claims, mayDelete)
	}
}

// claims are what is said of the addresses of suspects, by address.
type claims map[netip.Addr][]syncer.Endpoint

// claims gathers what is said of the addresses of the suspects; addresses that are
// none are not in question.
func (d *differ) claims(suspects addrPorts) claims {
	claims := make(claims, len(suspects))
	for at := range suspects {
		claims[at.Addr()] = nil
	}
	for i := range d.desired.given {
		if c := &d.desired.given[i]; c.Service != nil {
			claims.add(slices.Values(c.Endpoints))
		}
	}
	claims.add(endpointsIn(d.desired.Endpoints.Subsets)) // what nobody has claimed yet stays (unclaimed.go)
	return claims
}

func (c claims) add(endpoints iter.Seq[syncer.Endpoint]) {
	for e := range endpoints {
		if said, suspect := c[e.Addr]; suspect {
			c[e.Addr] = append(said, e)
		}
	}
}

// of is the claim on an endpoint that stands; nil: it is not in question. Pods may share an
// address, on the network of their node: one of another pod counts where it has one of
// its ports.
func (c claims) of(stands *syncer.Endpoint) *claim {
	said, suspect := c[stands.Addr]
	if !suspect {
		return nil
	}
	out := &claim{}
	for i := range said {
		if e := &said[i]; stands.Target == (syncer.TargetRef{}) || e.Target == stands.Target || sharePort(e.Ports, stands.Ports) {
			out.add(e)
		}
	}
	return out
}

func sharePort(a, b []syncer.Port) bool {
	return len(a)+len(b) == 0 || slices.ContainsFunc(a, func(p syncer.Port) bool {
		return slices.ContainsFunc(b, func(o syncer.Port) bool { return p.Number == o.Number && p.Protocol == o.Protocol })
	})
}

func (c *claim) add(e *syncer.Endpoint) {
	if e.In(syncer.KindEndpoints) {
		switch {
		case e.Ready:
			c.endpoints = ready
		case !e.Terminating:
			c.endpoints = max(c.endpoints, notReady)
		}
	}
	if e.In(syncer.KindEndpointSlices) {
		c.terminating = e.Terminating && (c.terminating || !c.sliced)
		c.sliced, c.ready, c.serving = true, c.ready || e.Ready, c.serving || e.Serving
	}
}

func (d *differ) reduceEndpoints(e *CurrentEndpoints, claims claims) {
	left := remaining(e.Subsets, func(e *syncer.Endpoint, stands traffic) traffic {
		if c := claims.of(e); c != nil {
			return min(stands, c.endpoints)
		}
		return stands
	})
	if equalSubsets(e.Subsets, left) {
		return
	}
	d.leftSubsets = left
	d.reduced[Object{KindEndpoints, e.Name}] = len(d.plan.Removals)
	a := e.Unchanged()
	a.Why, a.Endpoints.Subsets, a.Endpoints.Trigger = describeSubsets(e.Subsets, left), left, d.desired.Endpoints.Trigger
	d.plan.Removals = append(d.plan.Removals, *a)
}

// remaining returns standing addresses in the state that they may keep, under the
// ports that stand.
func remaining(standing []syncer.Subset, keeps func(e *syncer.Endpoint, stands traffic) traffic) []syncer.Subset {
	var out []syncer.Subset
	changed := false
	for _, s := range standing {
		left := syncer.Subset{Ports: s.Ports}
		keep := func(addresses []syncer.Address, stands traffic) {
			for _, a := range addresses {
				state := keeps(&syncer.Endpoint{Addr: a.Addr, Ports: s.Ports, Target: a.Target}, stands)
				changed = changed || state != stands
				switch state {
				case ready:
					left.Ready = append(left.Ready, a)
				case notReady:
					left.NotReady = append(left.NotReady, a)
				}
			}
		}
		keep(s.Ready, ready)
		keep(s.NotReady, notReady)
		if len(left.Ready)+len(left.NotReady) > 0 {
			out = append(out, left)
		}
	}
	if !changed {
		return standing
	}
	return syncer.Repack(out)
}

func (d *differ) reduceSlice(s *CurrentSlice, claims claims, mayDelete bool) {
	left := s.Slice
	left.Endpoints = make([]syncer.Endpoint, 0, len(s.Endpoints))
	changed := false
	for i := range s.Endpoints {
		e := s.Endpoints[i]
		if c := claims.of(&syncer.Endpoint{Addr: e.Addr, Ports: s.Ports, Target: e.Target}); c != nil && !c.sliced || !e.Addr.IsValid() {
			changed = true
			continue
		} else if c != nil && (e.Ready && !c.ready || e.Serving && !c.serving) {
			e.Ready, e.Serving, e.Terminating = e.Ready && c.ready, e.Serving && c.serving, e.Terminating || c.terminating
			changed = true
		}
		left.Endpoints = append(left.Endpoints, e)
	}
	if !changed {
		return
	}
	a := s.Unchanged()
	a.Why, a.Slice.Slice, a.Slice.Trigger = describeSlice(&s.Slice, &left), left, d.desired.Endpoints.Trigger
	if mayDelete && len(left.Endpoints) == 0 && !s.Deleting && !d.wants(s.Meta.Name) {
		a = &Action{Verb: Delete, Kind: a.Kind, Name: a.Name, Standing: a.Standing, Why: a.Why, Otherwise: a}
	}
	d.left[s.Meta.Name] = &left
	d.reduced[a.Object()] = len(d.plan.Removals)
	d.plan.Removals = append(d.plan.Removals, *a)
}

// removed reports whether the first half deletes a slice.
func (d *differ) removed(name string) bool {
	at, reduced := d.reduced[Object{KindEndpointSlice, name}]
	return reduced && d.plan.Removals[at].Verb == Delete
}

// sameEndpoints compares the endpoints of two slices in any order.
func sameEndpoints(a, b []syncer.Endpoint) bool {
	if len(a) != len(b) || equalEndpoints(a, b) {
		return len(a) == len(b)
	}
	sorted := func(in []syncer.Endpoint) []syncer.Endpoint {
		return slices.SortedStableFunc(slices.Values(in), func(a, b syncer.Endpoint) int { return a.Addr.Compare(b.Addr) })
	}
	return equalEndpoints(sorted(a), sorted(b))
}
