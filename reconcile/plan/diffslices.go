// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// slices compares the slices of all clusters. Slices that are ours and not
// wanted go: those of other clusters too, so whoever calls Diff has recovered
// the shares that must stay.
func (d *differ) slices() {
	standing := d.observed.Slices
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
		if s.Serves {
			d.foreign(KindEndpointSlice, s.Meta.Name, "consumers take its endpoints for the replica's, and nobody here keeps them up; delete it unless it is meant")
		}
		if !s.Owned || s.Deleting || d.wants(s.Meta.Name) {
			continue
		}
		a := Action{Verb: Delete, Kind: KindEndpointSlice, Name: s.Meta.Name, Standing: &s.Meta, Why: "not needed any more"}
		if len(s.Endpoints) > 0 {
			a.Why = describeSlice(&s.Slice, &syncer.Slice{})
		}
		d.removes = append(d.removes, a)
	}
	d.postpone()
}

// postpone puts off the writes that take an address out of a slice while another
// one is about to get it, be it under other ports: so that the address is never
// without a slice. Removals proper are not put off. (Where two standing slices
// exchange addresses, nothing short of writing one twice would help.)
func (d *differ) postpone() {
	if len(d.creates)+len(d.updates)+len(d.removes) < 2 {
		return
	}
	gained := map[netip.Addr]bool{}
	for _, a := range slices.Concat(d.creates, d.updates) {
		old := d.standingSlice(a.Name)
		for _, e := range a.Slice.Endpoints {
			if !hasAddress(old, e.Addr) {
				gained[e.Addr] = true
			}
		}
	}
	if len(gained) == 0 {
		return
	}
	loses := func(a Action) bool {
		return slices.ContainsFunc(d.standingSlice(a.Name), func(e syncer.Endpoint) bool {
			return gained[e.Addr] && (a.Slice == nil || !hasAddress(a.Slice.Endpoints, e.Addr))
		})
	}
	d.updates, d.late = split(d.updates, loses)
	var last []Action
	d.removes, last = split(d.removes, loses)
	d.last = append(d.last, last...)
}

func split(actions []Action, off func(Action) bool) (kept, out []Action) {
	for _, a := range actions {
		if off(a) {
			out = append(out, a)
		} else {
			kept = append(kept, a)
		}
	}
	return kept, out
}

func (d *differ) standingSlice(name string) []syncer.Endpoint {
	if s := d.standing[name]; s != nil {
		return s.Endpoints
	}
	return nil
}

func hasAddress(endpoints []syncer.Endpoint, addr netip.Addr) bool {
	return slices.ContainsFunc(endpoints, func(e syncer.Endpoint) bool { return e.Addr == addr })
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
	spec.Annotations = annotated(nil, w.Annotations)
	d.creates = append(d.creates, Action{Verb: Create, Kind: KindEndpointSlice, Name: w.Name, Slice: &spec, Why: "new"})
}

func (d *differ) update(s *ObservedSlice, w *SliceSpec) {
	switch {
	case !s.Owned: // Pack leaves out names that are taken
		return
	case s.Deleting:
		d.plan.Waiting = WaitObjectDeleting
		return
	}
	spec := *w
	spec.Annotations = annotated(s.Annotations, w.Annotations)
	a := Action{Verb: Update, Kind: KindEndpointSlice, Name: w.Name, Slice: &spec, Standing: &s.Meta}
	service := d.observed.Service
	switch {
	case s.Family != w.Family || !slices.Equal(s.Ports, w.Ports):
		// Pack never reuses a name for other ports: somebody edited the slice. It is
		// replaced, because consumers miss a change of ports.
		d.plan.Again = true
		d.last = append(d.last, Action{Verb: Delete, Kind: KindEndpointSlice, Name: w.Name, Standing: &s.Meta, Why: "has other ports"})
		return
	case !slices.EqualFunc(s.Endpoints, w.Endpoints, func(a, b syncer.Endpoint) bool { return a.Equal(&b) }):
		a.Why = describeSlice(&s.Slice, &w.Slice)
	case s.Malformed:
		a.Why = "has what Tributary does not write"
	case !syncer.EqualLabels(s.Labels, w.Labels):
		a.Why = "labels differ"
	case !sameAnnotations(s.Annotations, w.Annotations):
		a.Why = "annotations differ"
	case service == nil || s.OwnerUID != service.UID:
		a.Why = "belongs to another Service object"
	default:
		return
	}
	d.updates = append(d.updates, a)
}
