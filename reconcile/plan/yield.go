// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Effect is what a write changes for traffic in one object: the addresses that it takes away
// or turns unready, and those that it brings or turns ready. One that changes its ports
// is among both.
type Effect struct{ Takes, Gives []netip.Addr }

// effect lists what is different in another content, object by object.
func (c content) effect(other content) (e Effect) {
	before, after := c.counts(other)
	for at := range before.of {
		switch was, is := before.state[at], after.state[at]; {
		case is < was:
			e.Takes = append(e.Takes, at.Addr())
		case was < is:
			e.Gives = append(e.Gives, at.Addr())
		}
	}
	return e
}

// EffectOnEndpoints is that of what made one version of Endpoints another; nil: none.
func EffectOnEndpoints(old, updated *CurrentEndpoints) Effect {
	none := &CurrentEndpoints{}
	return content{subsets: cmp.Or(old, none).Subsets}.effect(content{subsets: cmp.Or(updated, none).Subsets})
}

// EffectOnSlice is that of what made one version of a slice another; nil: none.
func EffectOnSlice(old, updated *CurrentSlice) Effect {
	none := &CurrentSlice{}
	return inSlice(&cmp.Or(old, none).Slice).effect(inSlice(&cmp.Or(updated, none).Slice))
}

// Effect is that of the whole plan: an address that leaves one object and is brought to
// another is among both.
func (p *Plan) Effect() (e Effect) {
	for _, stage := range p.Sequence() {
		for i := range stage {
			one := p.effect(&stage[i])
			e.Takes, e.Gives = append(e.Takes, one.Takes...), append(e.Gives, one.Gives...)
		}
	}
	return e
}

func (p *Plan) effect(a *Action) Effect {
	return cmp.Or(p.current.unchanged(a.Object()), &Action{}).leaves().effect(a.leaves())
}

// leaves is what an action leaves of its object.
func (a *Action) leaves() content {
	switch {
	case a.Endpoints != nil:
		return content{subsets: a.Endpoints.Subsets}
	case a.Slice != nil:
		return inSlice(&a.Slice.Slice)
	}
	return content{}
}

// Except is the plan without the writes of some objects that stand.
func (p *Plan) Except(some func(Object) bool) Plan {
	out := *p
	without := func(all []Action) []Action {
		return slices.DeleteFunc(slices.Clone(all), func(a Action) bool { return some(a.Object()) })
	}
	out.Removals, out.Stages, out.Again = without(p.Removals), nil, false
	for _, stage := range p.Stages {
		if left := without(stage); len(left) > 0 {
			out.Stages = append(out.Stages, left)
		}
	}
	out.Delta = p.current.content().to(out.outcome())
	return out
}

// TakingAway is the plan without all that does more than take addresses away, and without
// what takes some of them.
func (p *Plan) TakingAway(but []netip.Addr) Plan {
	out := *p
	out.Removals, out.Stages, out.Again = nil, nil, false
	for i := range p.Removals {
		a := &p.Removals[i]
		if a.Otherwise != nil {
			a = a.Otherwise
		}
		if a.Verb == Delete {
			continue // nothing is in it
		}
		if reduced := p.reduced(a, but); len(p.effect(&reduced).Takes) > 0 {
			out.Removals = append(out.Removals, reduced)
		}
	}
	out.Delta = p.current.content().to(out.outcome())
	return out
}

// reduced is an update that takes addresses away, without what takes some of them.
func (p *Plan) reduced(a *Action, but []netip.Addr) Action {
	out, stands := *a, p.current.unchanged(a.Object())
	if a.Endpoints != nil {
		left := map[addrPort]traffic{}
		for e := range endpointsIn(a.Endpoints.Subsets) {
			addrPortsOf(e.Addr, e.Ports, func(at addrPort) { left[at] = max(left[at], stateOf(e.Ready)) })
		}
		out.Endpoints = new(*a.Endpoints)
		out.Endpoints.Subsets = remaining(stands.Endpoints.Subsets, func(e *syncer.Endpoint, stands traffic) traffic {
			if slices.Contains(but, e.Addr) {
				return stands
			}
			best := absent
			addrPortsOf(e.Addr, e.Ports, func(at addrPort) { best = max(best, left[at]) })
			return min(stands, best)
		})
		return out
	}
	left := map[netip.Addr]syncer.Endpoint{}
	for _, e := range a.Slice.Endpoints {
		left[e.Addr] = e
	}
	out.Slice = new(*a.Slice)
	out.Slice.Endpoints = nil
	for _, e := range stands.Slice.Endpoints {
		now, stays := left[e.Addr]
		if slices.Contains(but, e.Addr) {
			now, stays = e, true
		}
		if stays {
			out.Slice.Endpoints = append(out.Slice.Endpoints, now)
		}
	}
	return out
}
