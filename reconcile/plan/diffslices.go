// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// slices compares the slices of all clusters. Slices that are ours and not
// wanted go: those of other clusters too, so whoever calls Diff has recovered
// the shares that must stay.
func (d *differ) slices() {
	standing := d.current.Slices
	wanted := d.desired.Slices
	for i := range wanted {
		w := &wanted[i]
		if s := d.standing[w.Name]; s != nil {
			d.update(s, w)
		} else {
			d.create(w)
		}
	}
	for i := range standing {
		s := &standing[i]
		if s.Serves || s.disputed() {
			d.foreign(KindEndpointSlice, &s.Meta, "consumers take its endpoints for the replica's, and nobody here keeps them up; delete it unless it is meant")
		}
		if !s.Owned || s.Deleting || d.wants(s.Meta.Name) || d.removed(s.Meta.Name) {
			continue
		}
		a := Action{Verb: Delete, Kind: KindEndpointSlice, Name: s.Meta.Name, Standing: &s.Meta, Why: "not needed any more"}
		if left := d.leftOf(s); len(left.Endpoints) > 0 {
			a.Why = describeSlice(left, &syncer.Slice{})
		}
		d.removes = append(d.removes, a)
	}
	d.postpone()
}

// postpone puts off the writes that take an address that is alive out of a slice
// while others are about to get it, be it under other ports, or to get those that
// serve in its place: so that there is never less than before. They need the writes
// of those others. Where two standing slices exchange addresses, one is written twice.
func (d *differ) postpone() {
	if len(d.creates)+len(d.updates)+len(d.removes) < 2 {
		return
	}
	gained, readied := map[netip.Addr][]Object{}, map[netip.Addr]bool{}
	var gainers []Object
	for _, a := range slices.Concat(d.creates, d.updates) {
		old, gains := d.leftEndpoints(a.Name), false
		for i := range a.Slice.Endpoints {
			e := &a.Slice.Endpoints[i]
			if at := slices.IndexFunc(old, func(o syncer.Endpoint) bool { return o.Addr == e.Addr }); at < 0 {
				gained[e.Addr] = append(gained[e.Addr], a.Object())
				readied[e.Addr] = readied[e.Addr] || e.Ready
				gains = gains || e.Ready
			} else {
				gains = gains || e.Ready && !old[at].Ready
			}
		}
		if gains {
			gainers = append(gainers, a.Object())
		}
	}
	if len(gained) == 0 && len(gainers) == 0 {
		return
	}
	// needs is nil for an action that takes nothing away.
	needs := func(a *Action) (needs []Object) {
		for _, e := range d.leftEndpoints(a.Name) {
			if a.Slice != nil && !loses(a.Slice.Endpoints, &e) {
				continue
			}
			needs = append(needs, gained[e.Addr]...)
			if e.Ready && !readied[e.Addr] && !slices.Contains(gainers, a.Object()) {
				needs = append(needs, gainers...)
			}
		}
		slices.SortFunc(needs, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
		return slices.Compact(needs)
	}
	var last []Action
	d.updates, d.late = postponed(d.updates, needs)
	d.removes, last = postponed(d.removes, needs)
	d.last = append(d.last, last...)
	d.bridge()
}

// bridge writes slices of which others wait, and that wait themselves, with what they
// get before they lose anything.
func (d *differ) bridge() {
	var late []Action
	for i := range d.late {
		a := &d.late[i]
		waits := func(o Action) bool { return slices.Contains(o.Needs, a.Object()) }
		if !slices.ContainsFunc(late, waits) && !slices.ContainsFunc(d.late[i+1:], waits) && !slices.ContainsFunc(d.last, waits) {
			late = append(late, *a)
			continue
		}
		both, spec := *a, *a.Slice
		spec.Endpoints = slices.Clone(spec.Endpoints)
		for _, e := range d.leftEndpoints(a.Name) {
			if !slices.ContainsFunc(spec.Endpoints, func(o syncer.Endpoint) bool { return o.Addr == e.Addr }) {
				spec.Endpoints = append(spec.Endpoints, e)
			}
		}
		both.Slice, both.Needs = &spec, nil
		both.Why = describeSlice(d.leftOf(d.standing[a.Name]), &spec.Slice)
		d.updates, d.last = append(d.updates, both), append(d.last, *a)
	}
	d.late = late
}

// loses reports whether a slice's endpoints lack one, or have it unready where it was
// ready.
func loses(endpoints []syncer.Endpoint, e *syncer.Endpoint) bool {
	at := slices.IndexFunc(endpoints, func(o syncer.Endpoint) bool { return o.Addr == e.Addr })
	return at < 0 || e.Ready && !endpoints[at].Ready
}

func postponed(actions []Action, needs func(*Action) []Object) (kept, out []Action) {
	for _, a := range actions {
		if a.Needs = needs(&a); len(a.Needs) > 0 {
			out = append(out, a)
		} else {
			kept = append(kept, a)
		}
	}
	return kept, out
}

// leftOf is a standing slice after the first half.
func (d *differ) leftOf(s *CurrentSlice) *syncer.Slice { return cmp.Or(d.left[s.Meta.Name], &s.Slice) }

func (d *differ) leftEndpoints(name string) []syncer.Endpoint {
	if s := d.standing[name]; s != nil {
		return d.leftOf(s).Endpoints
	}
	return nil
}

// wants reports whether a slice of that name is desired.
func (d *differ) wants(name string) bool { return sliceNamed(d.desired.Slices, name) != nil }

// sliceNamed finds a slice, nil when there is none; they are sorted.
func sliceNamed(specs []SliceSpec, name string) *syncer.Slice {
	if at, found := slices.BinarySearchFunc(specs, name, func(s SliceSpec, name string) int { return strings.Compare(s.Name, name) }); found {
		return &specs[at].Slice
	}
	return nil
}

func (d *differ) create(w *SliceSpec) {
	spec := *w
	spec.Annotations = annotated(nil, nil, w.Annotations)
	d.creates = append(d.creates, Action{Verb: Create, Kind: KindEndpointSlice, Name: w.Name, Slice: &spec, Why: "new"})
}

func (d *differ) update(s *CurrentSlice, w *SliceSpec) {
	switch {
	case !s.Owned: // Pack leaves out names that are taken
		return
	case s.Deleting:
		d.plan.Waiting = WaitObjectDeleting
		return
	}
	spec, wanted := *w, s.noted(w.Annotations)
	spec.Annotations = annotated(s.Annotations, nil, wanted)
	a := Action{Verb: Update, Kind: KindEndpointSlice, Name: w.Name, Slice: &spec, Standing: &s.Meta}
	service, left, sameLabels := d.current.Service, d.leftOf(s), syncer.EqualLabels(s.Labels, w.Labels)
	if at, reduced := d.reduced[a.Object()]; reduced && !d.settings.Apart && sameLabels && s.Family == w.Family && slices.Equal(s.Ports, w.Ports) && sameEndpoints(left.Endpoints, w.Endpoints) {
		a.Why = d.plan.Removals[at].Why
		d.plan.Removals[at] = a
		return
	}
	switch {
	case s.Family != w.Family || !slices.Equal(s.Ports, w.Ports):
		// Pack never reuses a name for other ports: somebody edited the slice. It is
		// replaced, because consumers miss a change of ports.
		d.plan.Again = true
		d.last = append(d.last, Action{Verb: Delete, Kind: KindEndpointSlice, Name: w.Name, Standing: &s.Meta, Why: "has other ports"})
		return
	case !equalEndpoints(left.Endpoints, w.Endpoints):
		a.Why = describeSlice(left, &w.Slice)
	case s.Malformed || s.Hinted:
		a.Why = "has what Tributary does not write"
	case !sameLabels:
		a.Why = "labels differ"
	case !sameAnnotations(s.Annotations, wanted):
		a.Why = "annotations differ"
	case service == nil || s.OwnerUID != service.UID:
		a.Why = "belongs to another Service object"
	default:
		return
	}
	d.updates = append(d.updates, a)
}
