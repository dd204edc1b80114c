// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
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
	for _, s := range current.slicesOf(func(cluster string) bool { return cluster != "" }) {
		clusters[s.Cluster] = true
	}
	owners := &current.ours().Owners
	for _, cluster := range owners.named {
		clusters[cluster] = true
	}
	if owners.rest != "" {
		clusters[owners.rest] = true
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
	r := recovery{cluster: cluster, current: current, slices: current.slicesOf(only(cluster)), standing: current.ours()}
	r.mine = r.readEndpoints()
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
		out[0].Subsets, out[0].Truncated = r.verbatim(), r.truncated()
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
	// standing are our Endpoints, mine the addresses among them that are this cluster's.
	standing *CurrentEndpoints
	mine     map[netip.Addr]bool
}

func only(cluster string) func(string) bool {
	return func(one string) bool { return one == cluster }
}

// truncated reports whether Endpoints leave addresses out.
func (r *recovery) truncated() bool {
	return r.standing.Annotations[AnnotationOverCapacity] == OverCapacity
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
func (r *recovery) readEndpoints() map[netip.Addr]bool {
	mine, sliced := map[netip.Addr]bool{}, map[netip.Addr]string{}
	for _, s := range r.current.slicesOf(func(cluster string) bool { return cluster == r.cluster || r.current.sources().has(cluster) }) {
		for e := range s.all() {
			sliced[e.Addr] = s.Cluster
		}
	}
	for e := range r.standing.all() {
		if e.Addr.IsValid() && cmp.Or(sliced[e.Addr], r.standing.Owners.of(e.Addr)) == r.cluster {
			mine[e.Addr] = true
		}
	}
	return mine
}

// verbatim are the standing subsets without other clusters' addresses; nil when
// there are none, and then they follow from the slices.
func (r *recovery) verbatim() []syncer.Subset {
	foreign := func(a syncer.Address) bool { return !r.mine[a.Addr] }
	var out []syncer.Subset
	for _, s := range r.standing.Subsets {
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
	sliced, differ, ready := map[netip.Addr]bool{}, map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for e := range r.standing.all() {
		ready[e.Addr] = ready[e.Addr] || e.Ready
	}
	ported := r.portedAlike()
	tell := r.current.Endpoints != nil && r.current.Endpoints.Owned && !r.truncated()
	for _, s := range r.slices {
		for e := range s.all() {
			if !e.Addr.IsValid() {
				continue
			}
			sliced[e.Addr] = true
			both := e.Ready || !e.Terminating // or it is in slices alone
			differ[e.Addr] = tell && r.mine[e.Addr] && (!both || ready[e.Addr] != e.Ready || !ported(e.Addr))
			if differ[e.Addr] || tell && !r.mine[e.Addr] && both {
				e.Only = syncer.KindEndpointSlices
			}
			out = append(out, e)
		}
	}
	for e := range r.standing.all() {
		if !differ[e.Addr] && !r.standing.Owners.only {
			e.Only = 0
		}
		if r.mine[e.Addr] && (!sliced[e.Addr] || differ[e.Addr]) {
			out = append(out, e)
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
		for e := range s.all() {
			note(inSlices, e.Addr, e.Ports, 1)
		}
	}
	for e := range r.standing.all() {
		note(inEndpoints, e.Addr, e.Ports, -1)
	}
	missing := map[netip.Addr]bool{}
	for at := range inSlices {
		missing[at.addr] = missing[at.addr] || !inEndpoints[at]
	}
	return func(addr netip.Addr) bool { return counts[addr] == 0 && !missing[addr] }
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
