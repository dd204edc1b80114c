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

// share is a contribution on its way through the merge: what of it reaches the
// replica.
type share struct {
	*Contribution
	// ports are the acceptable ones of the Service.
	ports []syncer.ServicePort
	// portChanges holds the port names that change; nil when none does.
	portChanges map[string]portChange
	// endpoints are those that are left, ports renamed. The list of the
	// contribution itself as long as nothing differs.
	endpoints []syncer.Endpoint
	// agedReady are the addresses that are written as not ready only because the
	// member has been silent for too long.
	agedReady []netip.Addr
	// verbatim are hand-written subsets that may be taken as they are.
	verbatim []syncer.Subset
}

// sharesOf orders contributions by age, so that nothing depends on the order
// they came in: oldest Service first, then by cluster, then by source; what stands of
// clusters that are not configured after all others, so that it decides nothing. Those
// without a Service give nothing.
func sharesOf(contributions []Contribution) []*share {
	shares := make([]*share, 0, len(contributions))
	for i := range contributions {
		if c := &contributions[i]; c.Service != nil {
			shares = append(shares, &share{Contribution: c, endpoints: c.Endpoints, verbatim: c.Subsets})
		}
	}
	slices.SortFunc(shares, func(a, b *share) int {
		return cmp.Or(lastOf(a.Orphan, b.Orphan), byAge(a, b))
	})
	return slices.CompactFunc(shares, func(a, b *share) bool { return a.Cluster == b.Cluster && a.Source == b.Source })
}

// byAge has the oldest Service first, and what a member says before what stands of it.
func byAge(a, b *share) int {
	return cmp.Or(cmp.Compare(a.created(), b.created()), strings.Compare(a.Cluster, b.Cluster),
		a.Source.Compare(b.Source), lastOf(a.Unseen, b.Unseen))
}

// created is when the source's Service was, in Unix seconds, within what a record can
// hold (RFC 3339: years 0 to 9999) and before any that is guessed.
func (s *share) created() int64 {
	const yearZero = -62167219200
	if s.Unseen {
		return min(max(s.Service.Created, yearZero), guessedAge)
	}
	return min(max(s.Service.Created, yearZero), guessedAge-1)
}

// lastOf puts what something is true of after what it is not.
func lastOf(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (s *share) rename(name string, change portChange) {
	if s.portChanges == nil {
		s.portChanges = map[string]portChange{}
	}
	s.portChanges[name] = change
}

// counts reports whether the share has a ready endpoint of the sort that a decision goes
// by which takes others away: nobody knows whether one is alive whose member is not
// configured, or has been silent for too long.
func (s *share) counts(kind syncer.Kinds) bool { return !s.Orphan && !s.Stale && s.ready(kind) }

// ready reports whether the share has an endpoint in a kind that may take traffic.
func (s *share) ready(kind syncer.Kinds) bool {
	return slices.ContainsFunc(s.endpoints, func(e syncer.Endpoint) bool { return e.Ready && e.In(kind) })
}

// endpointsOnly reports whether the share has an address that its slices lack.
func (s *share) endpointsOnly() bool {
	alone := func(e syncer.Endpoint) bool { return e.Only == syncer.KindEndpoints }
	if !slices.ContainsFunc(s.endpoints, alone) {
		return false // as nearly always
	}
	sliced := make(map[netip.Addr]bool, len(s.endpoints))
	for i := range s.endpoints {
		if e := &s.endpoints[i]; e.In(syncer.KindEndpointSlices) {
			sliced[e.Addr] = true
		}
	}
	return slices.ContainsFunc(s.endpoints, func(e syncer.Endpoint) bool { return alone(e) && !sliced[e.Addr] })
}

// restrict leaves out hand-written endpoints that are meant for a kind that is
// not written: they serve nobody.
func (s *share) restrict(kinds syncer.Kinds) {
	elsewhere := func(e syncer.Endpoint) bool { return !e.In(kinds) }
	if slices.ContainsFunc(s.endpoints, elsewhere) {
		s.endpoints = slices.DeleteFunc(slices.Clone(s.endpoints), elsewhere)
	}
}

// limit replaces the endpoints by fewer or other ones; the hand-written subsets
// no longer say the same.
func (s *share) limit(endpoints []syncer.Endpoint) {
	s.endpoints, s.verbatim = endpoints, nil
}

// fit renames and drops ports of the endpoints as the union decided. An endpoint
// that has no port left is absent; so is one without ports where the replica has
// some, because consumers would send traffic to any port of it.
func (s *share) fit(ported bool) {
	fits := func(ports []syncer.Port) bool {
		return (len(ports) > 0 || !ported) && (s.portChanges == nil || !slices.ContainsFunc(ports, s.portChanged))
	}
	if !slices.ContainsFunc(s.endpoints, func(e syncer.Endpoint) bool { return !fits(e.Ports) }) {
		return
	}
	// Endpoints share few lists of ports, and keep sharing them.
	type list struct {
		first *syncer.Port
		len   int
	}
	known := map[list][]syncer.Port{}
	kept := make([]syncer.Endpoint, 0, len(s.endpoints))
	for _, e := range s.endpoints {
		if !fits(e.Ports) {
			if len(e.Ports) == 0 {
				continue
			}
			id := list{&e.Ports[0], len(e.Ports)}
			ports, seen := known[id]
			if !seen {
				ports = s.renamed(e.Ports)
				known[id] = ports
			}
			if e.Ports = ports; len(ports) == 0 {
				continue
			}
		}
		kept = append(kept, e)
	}
	s.limit(kept)
}

func (s *share) portChanged(p syncer.Port) bool { _, fated := s.portChanges[p.Name]; return fated }

// renamed applies the changes to a list of ports; names stay unique.
func (s *share) renamed(ports []syncer.Port) []syncer.Port {
	var out []syncer.Port
	for _, p := range ports {
		if change, changed := s.portChanges[p.Name]; changed {
			if !change.kept {
				continue
			}
			p.Name = change.name
		}
		if !slices.ContainsFunc(out, func(o syncer.Port) bool { return o.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
}
