// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"slices"
	"strings"
)

// DefaultMaxEndpoints is the customary size of a slice.
const DefaultMaxEndpoints = 100

// PackOptions say for whom Pack packs.
type PackOptions struct {
	// Service is the replica, Cluster the member whose endpoints are packed.
	Service Key
	Cluster string
	// MaxEndpoints is the limit of one slice; DefaultMaxEndpoints when zero.
	MaxEndpoints int
}

// Pack spreads the endpoints of one member over EndpointSlices and returns all
// the slices that should exist, sorted by name. Slices of current that need no
// write are returned as they are; one that is missing from the result should be
// deleted. current holds the slices of this member for this replica only.
//
// It needs the fewest writes that leave each endpoint in its slice: endpoints
// stay in their slice and place; a new one goes into a slice that is rewritten anyway,
// then into a partly filled one that takes all that are left, then into a new
// one. Slices are not merged for their size alone. Ports belong to a slice's
// identity and never change; endpoints with other ports live in other slices.
// A family in families always has a slice, an empty one if need be: the last
// one that existed, or a placeholder without ports.
//
// Two endpoints with one address and one target are one endpoint; the first
// counts. Rule source: Reconciler in k8s.io/endpointslice.
func Pack(current []Slice, desired []Endpoint, families []Family, o PackOptions) []Slice {
	p := packer{PackOptions: o, taken: make(map[string]bool, len(current))}
	p.MaxEndpoints = cmp.Or(o.MaxEndpoints, DefaultMaxEndpoints)
	for i := range current {
		p.taken[current[i].Name] = true
	}
	groups := groupEndpoints(desired)
	p.shelve(current, groups)
	out := make([]Slice, 0, len(current)+len(groups))
	for _, g := range groups {
		out = p.packGroup(out, g)
	}
	for _, family := range families {
		if !slices.ContainsFunc(out, func(s Slice) bool { return s.Family == family }) {
			out = append(out, p.empty(family, current))
		}
	}
	slices.SortFunc(out, func(a, b Slice) int { return strings.Compare(a.Name, b.Name) })
	return out
}

type packer struct {
	PackOptions
	// taken are the names of all current and new slices: a new one never gets
	// the name of one that is about to be deleted.
	taken map[string]bool
}

// draft is a slice in the making.
type draft struct {
	Slice
	// touched means that the slice needs a write and that Endpoints is a copy.
	touched bool
}

// packGroup appends the slices of one group to out.
func (p *packer) packGroup(out []Slice, g *sliceGroup) []Slice {
	drafts := make([]draft, len(g.shelf))
	for i := range g.shelf {
		drafts[i] = p.update(g, g.shelf[i])
	}
	var left []*Endpoint
	for i, placed := range g.placed {
		if !placed {
			left = append(left, g.wanted[i])
		}
	}
	left = p.fillTouched(drafts, left)
	left = p.fillOther(drafts, left)
	for len(left) > 0 {
		d := draft{Slice: Slice{Name: p.newName(g.family, g.ports), Family: g.family, Ports: g.ports}}
		left = p.put(&d, left)
		drafts = append(drafts, d)
	}
	for i := range drafts {
		if len(drafts[i].Endpoints) > 0 {
			out = append(out, drafts[i].Slice)
		}
	}
	return out
}

// update drops from a current slice what is no longer wanted, updates the rest
// in its place, and touches it only if that made a difference.
func (p *packer) update(g *sliceGroup, current Slice) draft {
	d := draft{Slice: current}
	retained := 0
	for i := range current.Endpoints {
		e := &current.Endpoints[i]
		var wanted *Endpoint
		if retained < p.MaxEndpoints {
			wanted = g.claim(e)
		}
		if !d.touched && wanted != nil && wanted.Equal(e) {
			retained++
			continue
		}
		if !d.touched {
			d.touched = true
			d.Endpoints = append(make([]Endpoint, 0, len(current.Endpoints)), current.Endpoints[:retained]...)
		}
		if wanted != nil {
			d.Endpoints = append(d.Endpoints, inSlice(wanted))
			retained++
		}
	}
	return d
}

// inSlice is an endpoint in the form that it has in a slice.
func inSlice(e *Endpoint) Endpoint {
	in := *e
	in.Ports, in.Only = nil, 0
	return in
}

// put moves as many endpoints as fit into a draft and returns the others.
func (p *packer) put(d *draft, left []*Endpoint) []*Endpoint {
	n := min(len(left), p.MaxEndpoints-len(d.Endpoints))
	if !d.touched {
		d.touched = true
		d.Endpoints = append(make([]Endpoint, 0, len(d.Endpoints)+n), d.Endpoints...)
	}
	for _, e := range left[:n] {
		d.Endpoints = append(d.Endpoints, inSlice(e))
	}
	return left[n:]
}

// fillTouched fills the slices that are rewritten anyway, the fullest first, so
// that one that lost all its endpoints is only refilled if it has to be.
func (p *packer) fillTouched(drafts []draft, left []*Endpoint) []*Endpoint {
	var touched []*draft
	for i := range drafts {
		if drafts[i].touched {
			touched = append(touched, &drafts[i])
		}
	}
	slices.SortStableFunc(touched, func(a, b *draft) int { return cmp.Compare(len(b.Endpoints), len(a.Endpoints)) })
	for _, d := range touched {
		left = p.put(d, left)
	}
	return left
}

// fillOther puts what is left over a number of full slices into the one slice
// that it fills best, the fullest untouched one with the room, and whole portions into
// slices that are empty.
func (p *packer) fillOther(drafts []draft, left []*Endpoint) []*Endpoint {
	if rest := len(left) % p.MaxEndpoints; rest > 0 {
		var best *draft
		for i := range drafts {
			d := &drafts[i]
			fits := !d.touched && len(d.Endpoints)+rest <= p.MaxEndpoints
			if fits && (best == nil || len(d.Endpoints) > len(best.Endpoints)) {
				best = d
			}
		}
		if best != nil {
			p.put(best, left[len(left)-rest:])
			left = left[:len(left)-rest]
		}
	}
	for i := range drafts {
		if d := &drafts[i]; len(left) > 0 && !d.touched && len(d.Endpoints) == 0 {
			left = p.put(d, left)
		}
	}
	return left
}

// empty returns the slice of a family that has no endpoints: a current one, an
// empty one if there is, or a new placeholder.
func (p *packer) empty(family Family, current []Slice) Slice {
	own := slices.DeleteFunc(slices.Clone(current), func(s Slice) bool { return s.Family != family })
	if len(own) == 0 {
		return Slice{Name: p.newName(family, nil), Family: family}
	}
	chosen := slices.MinFunc(own, func(a, b Slice) int {
		return cmp.Or(cmp.Compare(len(a.Endpoints), len(b.Endpoints)), compareNames(a.Name, b.Name))
	})
	return Slice{Name: chosen.Name, Family: family, Ports: chosen.Ports}
}

// compareNames orders the names of one stem by their numbers.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
