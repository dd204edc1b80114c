// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// salvage plans for a replica whose Service is somebody else's, or has become so
// by losing our label, while Endpoints or slices under its name still are ours.
// Whoever reads them is served by us: so what has died leaves them, and what has
// turned unready is marked. Nothing new is written, and nothing foreign touched.
func (d *differ) salvage() {
	// One tally for both kinds: an address that one of them keeps has not left.
	changed := spots{}
	var standing, kept []syncer.Subset
	var old, updated []*syncer.Slice
	wanted := d.wantedEndpoints()
	if e := d.observed.Endpoints; e != nil && e.Owned {
		standing, kept = e.Subsets, e.Subsets
		if !e.Deleting && d.settings.WriteEndpoints {
			kept = remaining(e.Subsets, d.desired.Endpoints.Subsets)
		}
		if !equalSubsets(standing, kept) {
			changed.subsets(standing, kept)
			d.ends = append(d.ends, Action{Verb: Update, Kind: KindEndpoints, Name: e.Name, Standing: &e.Meta, Why: describeSubsets(standing, kept),
				Endpoints: &EndpointsSpec{Subsets: kept, Labels: e.Labels, Annotations: e.Annotations, Trigger: d.desired.Endpoints.Trigger}})
		}
	}
	for i := range d.observed.Slices {
		s := &d.observed.Slices[i]
		if !s.Owned {
			continue
		}
		left := s.Slice
		if !s.Deleting && d.settings.WriteSlices {
			left.Endpoints = remainingOf(s, wanted[s.Cluster])
		}
		old, updated = append(old, &s.Slice), append(updated, &left)
		if slices.EqualFunc(s.Endpoints, left.Endpoints, func(a, b syncer.Endpoint) bool { return a.Equal(&b) }) {
			continue
		}
		changed.slice(&s.Slice, &left)
		d.updates = append(d.updates, Action{Verb: Update, Kind: KindEndpointSlice, Name: s.Meta.Name, Standing: &s.Meta, Why: describeSlice(&s.Slice, &left),
			Slice: &SliceSpec{Cluster: s.Cluster, Slice: left, Labels: s.Labels, Annotations: s.Annotations}})
	}
	d.stage()
	before, after := changed.tally().subsets(standing), changed.tally().subsets(kept)
	for i := range old {
		before.slice(old[i])
		after.slice(updated[i])
	}
	d.plan.Delta = deltaBetween(before, after)
}

// remaining returns the standing addresses that are still wanted, as ready as both
// say, under the ports that stand.
func remaining(standing, wanted []syncer.Subset) []syncer.Subset {
	state := map[netip.Addr]traffic{}
	for i := range wanted {
		for _, a := range wanted[i].NotReady {
			state[a.Addr] = max(state[a.Addr], notReady)
		}
		for _, a := range wanted[i].Ready {
			state[a.Addr] = ready
		}
	}
	var out []syncer.Subset
	for _, s := range standing {
		left := syncer.Subset{Ports: s.Ports}
		for _, a := range s.Ready {
			switch state[a.Addr] {
			case ready:
				left.Ready = append(left.Ready, a)
			case notReady:
				left.NotReady = append(left.NotReady, a)
			}
		}
		for _, a := range s.NotReady {
			if state[a.Addr] != absent {
				left.NotReady = append(left.NotReady, a)
			}
		}
		if len(left.Ready)+len(left.NotReady) > 0 {
			out = append(out, left)
		}
	}
	if equalSubsets(standing, out) {
		return standing
	}
	return syncer.Repack(out)
}

// wantedEndpoints are the desired endpoints of each cluster.
func (d *differ) wantedEndpoints() map[string]map[netip.Addr]*syncer.Endpoint {
	wanted := map[string]map[netip.Addr]*syncer.Endpoint{}
	for i := range d.desired.Slices {
		w := &d.desired.Slices[i]
		if wanted[w.Cluster] == nil {
			wanted[w.Cluster] = map[netip.Addr]*syncer.Endpoint{}
		}
		for j := range w.Endpoints {
			wanted[w.Cluster][w.Endpoints[j].Addr] = &w.Endpoints[j]
		}
	}
	return wanted
}

// remainingOf returns the endpoints of a standing slice that its cluster still
// wants.
func remainingOf(s *ObservedSlice, wanted map[netip.Addr]*syncer.Endpoint) []syncer.Endpoint {
	out := make([]syncer.Endpoint, 0, len(s.Endpoints))
	for _, e := range s.Endpoints {
		if w := wanted[e.Addr]; w != nil {
			out = append(out, restrained(e, w))
		}
	}
	return out
}

// restrained is a standing endpoint in the worse of two states.
func restrained(e syncer.Endpoint, wanted *syncer.Endpoint) syncer.Endpoint {
	e.Ready = e.Ready && wanted.Ready
	e.Serving = e.Serving && wanted.Serving
	e.Terminating = e.Terminating || wanted.Terminating
	return e
}
