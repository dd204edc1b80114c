// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// pack packs the endpoints of each member into slices of its own.
func (m *merger) pack(d *Desired) {
	for _, one := range m.members {
		if one.feeds() {
			d.slices = append(d.slices, m.slicesOf(one)...)
		}
	}
	d.takeAway(m.now)
}

func (m *merger) slicesOf(one *member) (out []*wish) {
	source, families := one.service, one.families
	if one.SourceOpen {
		source = nil
	}
	if len(families) == 0 && source != nil { // a slice tells that the member has the Service
		families = []syncer.Family{syncer.IPv4}
	}
	w := wish{traits: m.settings.traits(KindEndpointSlice, m.key, one.Member, source)}
	if source != nil {
		w.trigger = one.Given.Trigger
	}
	o := syncer.PackOptions{Service: m.key, Cluster: one.Member, MaxEndpoints: m.settings.MaxEndpointsPerSlice}
	for _, s := range syncer.Pack(m.shelf(one), one.published, families, o) {
		packed := w
		packed.slice = &s
		out = append(out, &packed)
	}
	all := &claims{wishes: slices.Clone(out)}
	for _, s := range slices.Concat(one.slices, one.deleting) {
		if !slices.ContainsFunc(out, func(w *wish) bool { return w.slice.Name == s.Name }) {
			out = append(out, goes(s))
		}
	}
	for _, w := range out {
		w.claims = all
	}
	return out
}

// shelf are the slices of a member, and the mere names of all others.
func (m *merger) shelf(one *member) []syncer.Slice {
	out := make([]syncer.Slice, 0, len(m.now.Slices))
	for i := range m.now.Slices {
		s := &m.now.Slices[i]
		if slices.Contains(one.slices, s) {
			out = append(out, s.Slice)
		} else {
			out = append(out, syncer.Slice{Name: s.Name})
		}
	}
	return out
}
