// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/syncer"
)

// Shares returns the clusters that have a share in what stands, sorted: those
// for which Recover has something.
func Shares(current Current) []string {
	clusters := map[string]bool{}
	for _, s := range current.sources() {
		clusters[s.Cluster] = true
	}
	for i := range current.Slices {
		if s := &current.Slices[i]; s.Owned && s.Cluster != "" {
			clusters[s.Cluster] = true
		}
	}
	if e := current.Endpoints; e != nil && e.Owned {
		named, rest := parseAddresses(e.Annotations[AnnotationAddresses])
		for _, cluster := range named {
			clusters[cluster] = true
		}
		if rest != "" {
			clusters[rest] = true
		}
	}
	return slices.Sorted(maps.Keys(clusters))
}

// Recover rebuilds what a cluster gave to a replica from what stands in the
// ingress cluster: the share of a member that has not been seen whole since the
// process started, or that left the configuration without being drained. Merging
// it with the others reproduces what stands, so a restart while a member is away
// writes nothing. There is one contribution for each source of the cluster; nil when
// the cluster has no share.
func Recover(cluster string, current Current) []Contribution {
	r := recovery{cluster: cluster, current: current}
	for i := range current.Slices {
		if s := &current.Slices[i]; s.Owned && s.Cluster == cluster {
			r.slices = append(r.slices, s)
		}
	}
	r.readEndpoints()
	sources := r.sources()
	if len(sources) == 0 {
		return nil
	}
	endpoints := r.endpoints()
	aged := revive(endpoints, sources)
	out := make([]Contribution, len(sources))
	for i, s := range sources {
		c := &out[i]
		*c = Contribution{Cluster: cluster, Unseen: true, Stale: aged}
		c.Source, _ = syncer.ParseKey(s.Service)
		c.Service = r.service(c.Source, s)
		if c.EndpointsFamily = s.Family; s.Ports == nil && len(r.mine) == 0 {
			c.EndpointsFamily = familyOfAll(endpoints)
		}
	}
	out[0].Families = r.families()
	if !aged {
		out[0].Subsets, out[0].Truncated = r.verbatim(), r.truncated
	}
	for i := range endpoints {
		c := &out[sourceOf(&endpoints[i], sources)]
		c.Endpoints = append(c.Endpoints, endpoints[i])
	}
	return out
}

// sourceOf tells which of a cluster's sources has an endpoint, as far as it matters:
// one whose Endpoints carry its family, or that it is on record with.
func sourceOf(e *syncer.Endpoint, sources []source) int {
	if at := slices.IndexFunc(sources, func(s source) bool { return slices.Contains(s.AgedReady, e.Addr) }); at >= 0 {
		return at
	}
	return max(0, slices.IndexFunc(sources, func(s source) bool { return s.Family == "" || s.Family == familyOf(*e) }))
}

// revive puts endpoints back into the state in which their member was last seen, if
// they stand as not ready only because that was too long ago; and reports whether
// there are such.
func revive(endpoints []syncer.Endpoint, sources []source) bool {
	ready := map[netip.Addr]bool{}
	for _, s := range sources {
		for _, addr := range s.AgedReady {
			ready[addr] = true
		}
	}
	aged := false
	for i := range endpoints {
		if e := &endpoints[i]; ready[e.Addr] && !e.Ready && !e.Terminating {
			e.Ready, e.Serving, aged = true, true, true
		}
	}
	return aged
}

// recovery is one run of Recover.
type recovery struct {
	cluster string
	current Current
	slices  []*CurrentSlice
	// standing are the subsets of our Endpoints, mine the addresses among them
	// that are this cluster's.
	standing  []syncer.Subset
	mine      map[netip.Addr]bool
	truncated bool
}

// sources are those on record. A cluster that has slices or addresses without being on
// record counts as the youngest of all, see guess.go; where the record is lost, as one
// of age zero, so that what stands prevails.
func (r *recovery) sources() []source {
	sources := slices.DeleteFunc(slices.Clone(r.current.sources()), func(s source) bool { return s.Cluster != r.cluster })
	if len(sources) == 0 && len(r.slices)+len(r.mine) > 0 {
		sources = []source{{Cluster: r.cluster, Service: r.current.Key.String(), Created: time.Unix(0, 0)}}
		if standing := r.current.Service; standing == nil || !standing.Owned || len(standing.Sources) > 0 {
			sources[0].Created = time.Unix(guessedAge, 0)
		}
	}
	return sources
}

// readEndpoints finds out which standing addresses belong to the cluster: those
// on record, and those of its slices.
func (r *recovery) readEndpoints() {
	e := r.current.Endpoints
	if e == nil || !e.Owned {
		return
	}
	r.standing = e.Subsets
	r.truncated = e.Annotations[AnnotationOverCapacity] == OverCapacity
	r.mine = map[netip.Addr]bool{}
	sliced := map[netip.Addr]string{}
	for i := range r.current.Slices {
		if s := &r.current.Slices[i]; s.Owned && (s.Cluster == r.cluster || r.current.sources().has(s.Cluster)) {
			for j := range s.Endpoints {
				sliced[s.Endpoints[j].Addr] = s.Cluster
			}
		}
	}
	named, rest := parseAddresses(e.Annotations[AnnotationAddresses])
	for addr := range addressesOf(r.standing) {
		owner := cmp.Or(sliced[addr], named[addr], rest)
		if addr.IsValid() && owner == r.cluster {
			r.mine[addr] = true
		}
	}
}

// verbatim are the standing subsets without other clusters' addresses; nil when
// there are none, and then they follow from the slices.
func (r *recovery) verbatim() []syncer.Subset {
	foreign := func(a syncer.Address) bool { return !r.mine[a.Addr] }
	var out []syncer.Subset
	for _, s := range r.standing {
		s.Ready = slices.DeleteFunc(slices.Clone(s.Ready), foreign)
		s.NotReady = slices.DeleteFunc(slices.Clone(s.NotReady), foreign)
		if len(s.Ready)+len(s.NotReady) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// endpoints are those of the slices; and those that only Endpoints have. Where the
// two disagree, because a change was written to one and the process ended before the
// other, each keeps what it has.
func (r *recovery) endpoints() []syncer.Endpoint {
	var out []syncer.Endpoint
	sliced, differ := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	ready, ported := r.readyInEndpoints(), r.portedAlike()
	tell := r.current.Endpoints != nil && r.current.Endpoints.Owned && !r.truncated
	for _, s := range r.slices {
		for _, e := range s.Endpoints {
			if !e.Addr.IsValid() {
				continue
			}
			sliced[e.Addr] = true
			e.Ports = s.Ports
			both := e.Ready || !e.Terminating // or it is in slices alone
			differ[e.Addr] = tell && r.mine[e.Addr] && (!both || ready[e.Addr] != e.Ready || !ported(e.Addr))
			if differ[e.Addr] || tell && !r.mine[e.Addr] && both {
				e.Only = syncer.KindEndpointSlices
			}
			out = append(out, e)
		}
	}
	only := syncer.Kinds(0)
	if e := r.current.Endpoints; e != nil && strings.HasPrefix(e.Annotations[AnnotationAddresses], onlyEndpoints) {
		only = syncer.KindEndpoints
	}
	add := func(a syncer.Address, ports []syncer.Port, ready bool) {
		only := only
		if differ[a.Addr] {
			only = syncer.KindEndpoints
		}
		if r.mine[a.Addr] && (!sliced[a.Addr] || differ[a.Addr]) {
			out = append(out, syncer.Endpoint{Addr: a.Addr, Ports: ports, Ready: ready, Serving: ready, Only: only,
				NodeName: a.NodeName, Hostname: a.Hostname, Target: a.Target})
		}
	}
	for _, s := range r.standing {
		for _, a := range s.Ready {
			add(a, s.Ports, true)
		}
		for _, a := range s.NotReady {
			add(a, s.Ports, false)
		}
	}
	slices.SortStableFunc(out, func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) })
	return out
}

// portedAlike tells of an address whether it has the same ports in both kinds.
func (r *recovery) portedAlike() func(netip.Addr) bool {
	type port struct {
		addr   netip.Addr
		name   string
		number int32
	}
	inSlices, inEndpoints := map[port]bool{}, map[port]bool{}
	counts := map[netip.Addr]int{} // ports in slices less those in Endpoints
	note := func(in map[port]bool, addr netip.Addr, ports []syncer.Port, n int) {
		for _, p := range ports {
			if at := (port{addr, p.Name, p.Number}); !in[at] {
				in[at] = true
				counts[addr] += n
			}
		}
	}
	for _, s := range r.slices {
		for i := range s.Endpoints {
			note(inSlices, s.Endpoints[i].Addr, s.Ports, 1)
		}
	}
	for _, s := range r.standing {
		for _, a := range slices.Concat(s.Ready, s.NotReady) {
			note(inEndpoints, a.Addr, s.Ports, -1)
		}
	}
	missing := map[netip.Addr]bool{}
	for at := range inSlices {
		missing[at.addr] = missing[at.addr] || !inEndpoints[at]
	}
	return func(addr netip.Addr) bool { return counts[addr] == 0 && !missing[addr] }
}

// readyInEndpoints are the standing addresses that are ready.
func (r *recovery) readyInEndpoints() map[netip.Addr]bool {
	ready := map[netip.Addr]bool{}
	for _, s := range r.standing {
		for _, a := range s.Ready {
			ready[a.Addr] = true
		}
	}
	return ready
}

// service is the source as far as the replica tells: its labels from the slices,
// its ports from the replica Service, its annotations from there and from the
// record.
func (r *recovery) service(key syncer.Key, s source) *syncer.Service {
	svc := &syncer.Service{Key: key, Created: s.Created.Unix(), Annotations: r.annotations(s)}
	standing := r.current.Service
	switch {
	case len(r.slices) > 0:
		svc.Labels = passed(r.slices[0].Labels, nil)
	case standing != nil && standing.Owned:
		svc.Labels = passed(standing.Labels, nil)
	}
	if standing == nil || !standing.Owned {
		svc.Ports = r.portsOfSlices()
	} else {
		has := r.hasPort(s)
		svc.Ports = slices.DeleteFunc(slices.Clone(standing.Ports), func(p syncer.ServicePort) bool { return !has(p.Name) })
	}
	if len(svc.Ports) == 0 {
		svc.ClusterIP = syncer.ClusterIPNone
	}
	return svc
}

// hasPort tells the ports of a source: those on record; without a record those
// of its endpoints; without any endpoint all, so that a replica does not shrink.
func (r *recovery) hasPort(s source) func(name string) bool {
	if s.Ports != nil {
		return func(name string) bool { return slices.Contains(s.Ports, name) }
	}
	used := r.portNames()
	return func(name string) bool { return len(used) == 0 || used[name] }
}

// portNames are the ports that the cluster's endpoints have.
func (r *recovery) portNames() map[string]bool {
	used := map[string]bool{}
	for _, s := range r.slices {
		for _, p := range s.Ports {
			used[p.Name] = true
		}
	}
	for _, s := range r.verbatim() {
		for _, p := range s.Ports {
			used[p.Name] = true
		}
	}
	return used
}

// families are those for which the cluster has slices.
func (r *recovery) families() []syncer.Family {
	var families []syncer.Family
	for _, s := range r.slices {
		if !slices.Contains(families, s.Family) {
			families = append(families, s.Family)
		}
	}
	slices.Sort(families)
	return families
}

// familyOfAll is the family that Endpoints would carry if nothing tells.
func familyOfAll(endpoints []syncer.Endpoint) syncer.Family {
	if slices.ContainsFunc(endpoints, func(e syncer.Endpoint) bool { return e.Addr.Is4() }) {
		return syncer.IPv4
	}
	return syncer.IPv6
}
