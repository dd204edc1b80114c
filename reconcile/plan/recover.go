// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/syncer"
)

// NewCurrent is what stands under a replica's name, with whose it is. It is read into the
// shares of clusters once, when the first of them is asked for.
func NewCurrent(key syncer.Key, service *CurrentService, endpoints *CurrentEndpoints, slices []CurrentSlice) *Current {
	o := &Current{Key: key, Service: service, Endpoints: endpoints, Slices: slices}
	o.Own()
	o.clusters = o.Clusters()
	o.known = sync.OnceValue(o.read)
	return o
}

// Clusters are those that have a share in what stands, sorted.
func (o *Current) Clusters() []string {
	if o.clusters != nil {
		return o.clusters
	}
	clusters := []string{}
	for _, s := range o.sources() {
		clusters = append(clusters, s.Cluster)
	}
	for _, s := range o.slicesOf(func(cluster string) bool { return cluster != "" }) {
		clusters = append(clusters, s.Cluster)
	}
	owners := &o.ours().Owners
	clusters = slices.AppendSeq(clusters, maps.Values(owners.named))
	if owners.rest != "" {
		clusters = append(clusters, owners.rest)
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// Share is what a cluster gave to the replica, from what stands: the share of a member
// that has not been seen whole since the process started, or that left the configuration
// without being drained. Merging it with the others reproduces what stands, so a restart
// while a member is away writes nothing. There is one contribution for each source of the
// cluster; nil when the cluster has no share. The list is the caller's, and what is in it
// is shared.
func (o *Current) Share(cluster string) []Contribution {
	return slices.Clone(o.shares().given[cluster])
}

// shares is what stands by cluster.
type shares struct {
	given map[string][]Contribution
	// stands are the same endpoints in the state in which they stand; unclaimed those of
	// Endpoints that nothing ascribes to a cluster on record.
	stands    map[string][]syncer.Endpoint
	unclaimed []syncer.Endpoint
}

// read reads what stands.
func (o *Current) read() *shares {
	out := &shares{given: map[string][]Contribution{}, stands: map[string][]syncer.Endpoint{}}
	owner := o.owners()
	for e := range o.ours().all() {
		if of := owner[e.Addr]; e.Addr.IsValid() && (of == "" || !o.Vouched(of)) {
			out.unclaimed = append(out.unclaimed, e)
		}
	}
	for _, cluster := range o.Clusters() {
		r := recovery{current: o, cluster: cluster, slices: o.unmutated(o.slicesOf(only(cluster))), endpoints: o.ours(),
			mine: func(addr netip.Addr) bool { return addr.IsValid() && owner[addr] == cluster }}
		out.stands[cluster] = r.served()
		out.given[cluster] = r.contributions(slices.Clone(out.stands[cluster]))
	}
	return out
}

// standing are the endpoints of a cluster as they stand, and those that nobody claims.
func (o *Current) standing(cluster string) map[netip.Addr][]syncer.Endpoint {
	shares := o.shares()
	stands := map[netip.Addr][]syncer.Endpoint{}
	for _, e := range shares.stands[cluster] {
		stands[e.Addr] = append(stands[e.Addr], e)
	}
	for i, e := range shares.unclaimed {
		if stands[e.Addr] == nil {
			stands[e.Addr] = shares.unclaimed[i : i+1]
		}
	}
	return stands
}

// shares is what stands by cluster; read now, unless it was when it entered the cache.
func (o *Current) shares() *shares {
	if o.known == nil {
		return o.read()
	}
	return o.known()
}

// owners says which cluster each address of Endpoints belongs to: that of its slice, of
// those on record rather than of others, or that which the record of addresses names.
func (o *Current) owners() map[netip.Addr]string {
	owner := map[netip.Addr]string{}
	for _, recorded := range []bool{false, true} {
		for _, s := range o.slicesOf(func(cluster string) bool { return o.sources().has(cluster) == recorded }) {
			for e := range s.all() {
				owner[e.Addr] = s.Cluster
			}
		}
	}
	record := &o.ours().Owners
	for e := range o.ours().all() {
		owner[e.Addr] = cmp.Or(owner[e.Addr], record.of(e.Addr))
	}
	return owner
}

// recovery reads the share of one cluster.
type recovery struct {
	current *Current
	cluster string
	slices  []*CurrentSlice
	// endpoints are our Endpoints; mine tells which of their addresses are this cluster's.
	endpoints *CurrentEndpoints
	mine      func(netip.Addr) bool
}

// contributions are the endpoints by source.
func (r *recovery) contributions(endpoints []syncer.Endpoint) []Contribution {
	subsets := remaining(r.endpoints.Subsets, func(e *syncer.Endpoint, state traffic) traffic {
		if r.mine(e.Addr) {
			return state
		}
		return absent
	})
	sources := r.sources(len(subsets) > 0)
	if len(sources) == 0 {
		return nil
	}
	aged := revive(endpoints, sources)
	out := make([]Contribution, len(sources))
	for i, s := range sources {
		c := &out[i]
		*c = Contribution{Cluster: r.cluster, Unseen: true, Stale: aged}
		c.Source, _ = syncer.ParseKey(s.Service)
		c.Service, c.Publishes, c.HandWritten = r.service(c.Source, s, endpoints), s.Publishes, s.HandWritten
		c.WrittenIn, c.WrittenOf = s.WrittenIn, s.WrittenOf
		if c.EndpointsFamily = s.Family; s.Ports == nil && len(subsets) == 0 {
			c.EndpointsFamily = familyOfAll(endpoints)
		}
	}
	for _, s := range r.slices {
		if !slices.Contains(out[0].Families, s.Family) {
			out[0].Families = append(out[0].Families, s.Family)
		}
	}
	slices.Sort(out[0].Families)
	if !aged && len(subsets) > 0 {
		out[0].Subsets = subsets
	}
	out[0].Truncated = r.truncated()
	for i := range endpoints {
		c := &out[sourceOf(&endpoints[i], sources)]
		c.Endpoints = append(c.Endpoints, endpoints[i])
	}
	return out
}

// truncated reports whether Endpoints leave addresses out.
func (r *recovery) truncated() bool {
	return r.endpoints.Annotations[AnnotationOverCapacity] == OverCapacity
}

// sources are those on record. A cluster that has slices or addresses without being on
// record counts as the youngest of all, see guess.go; where the record is lost, as one
// of age zero, so that what stands prevails.
func (r *recovery) sources(serves bool) []source {
	sources := slices.DeleteFunc(slices.Clone(r.current.sources()), func(s source) bool { return s.Cluster != r.cluster })
	if len(sources) == 0 && (serves || len(r.slices) > 0) {
		sources = []source{{Cluster: r.cluster, Service: r.current.Key.String(), Created: time.Unix(0, 0)}}
		if service := r.current.Service; service == nil || !service.Owned || len(service.Sources) > 0 {
			sources[0].Created = time.Unix(guessedAge, 0)
		}
	}
	return sources
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
func revive(endpoints []syncer.Endpoint, sources []source) (aged bool) {
	ready := map[netip.Addr]bool{}
	for _, s := range sources {
		for _, addr := range s.AgedReady {
			ready[addr] = true
		}
	}
	for i := range endpoints {
		if e := &endpoints[i]; ready[e.Addr] && !e.Ready && !e.Terminating {
			e.Ready, e.Serving, aged = true, true, true
		}
	}
	return aged
}

// served are the endpoints of the slices; and those that only Endpoints have. Where the
// two disagree, because a change was written to one and the process ended before the
// other, each keeps what it has.
func (r *recovery) served() (out []syncer.Endpoint) {
	inSlices, inEndpoints, differ := summaries{}, summaries{}, map[netip.Addr]bool{}
	for _, s := range r.slices {
		inSlices.add(s.all())
	}
	inEndpoints.add(r.endpoints.all())
	tell := r.endpoints.Owned && !r.truncated()
	for _, s := range r.slices {
		for e := range s.all() {
			if !e.Addr.IsValid() {
				continue
			}
			both := e.Ready || !e.Terminating // or it is in slices alone
			plain := inEndpoints[e.Addr]
			differ[e.Addr] = tell && r.mine(e.Addr) && (!both || plain.ready != e.Ready || !maps.Equal(inSlices[e.Addr].ports, plain.ports))
			if differ[e.Addr] || tell && !r.mine(e.Addr) && both {
				e.Only = syncer.KindEndpointSlices
			}
			out = append(out, e)
		}
	}
	for e := range r.endpoints.all() {
		if !differ[e.Addr] && !r.endpoints.Owners.only {
			e.Only = 0
		}
		if _, sliced := inSlices[e.Addr]; r.mine(e.Addr) && (!sliced || differ[e.Addr]) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) })
	return out
}

// summaries say of each address in one kind whether it is ready, and on which ports.
type summaries map[netip.Addr]summary

type summary struct {
	ready bool
	ports map[syncer.Port]bool
}

func (all summaries) add(endpoints iter.Seq[syncer.Endpoint]) {
	for e := range endpoints {
		s := all[e.Addr]
		if s.ready = s.ready || e.Ready; s.ports == nil {
			s.ports = make(map[syncer.Port]bool, len(e.Ports))
		}
		for _, p := range e.Ports {
			s.ports[syncer.Port{Name: p.Name, Number: p.Number}] = true
		}
		all[e.Addr] = s
	}
}

// service is the source as far as the replica tells: its labels from the slices,
// its ports from the replica Service, its annotations from there and from the
// record.
func (r *recovery) service(key syncer.Key, s source, endpoints []syncer.Endpoint) *syncer.Service {
	svc := &syncer.Service{Key: key, Created: s.Created.Unix(), Annotations: r.annotations(s)}
	standing := r.current.Service
	if standing != nil && !standing.Owned {
		standing = nil
	}
	switch {
	case len(r.slices) > 0:
		svc.Labels = passed(r.slices[0].Labels, r.slices[0].wished)
	case standing != nil:
		svc.Labels = passed(standing.Labels, standing.wished)
	}
	if standing == nil {
		svc.Ports = r.portsOfSlices()
	} else {
		has := hasPort(s, endpoints)
		svc.Ports = slices.DeleteFunc(slices.Clone(standing.Ports), func(p syncer.ServicePort) bool { return !has(p.Name) })
	}
	if len(svc.Ports) == 0 {
		svc.ClusterIP = syncer.ClusterIPNone
	}
	return svc
}

// hasPort tells the ports of a source: those on record; without a record those
// of its endpoints; without any endpoint all, so that a replica does not shrink.
func hasPort(s source, endpoints []syncer.Endpoint) func(name string) bool {
	used := s.Ports
	if used == nil {
		for i := range endpoints {
			for _, p := range endpoints[i].Ports {
				used = append(used, p.Name)
			}
		}
	}
	return func(name string) bool { return s.Ports == nil && len(used) == 0 || slices.Contains(used, name) }
}

// familyOfAll is the family that Endpoints would carry if nothing tells.
func familyOfAll(endpoints []syncer.Endpoint) syncer.Family {
	if slices.ContainsFunc(endpoints, func(e syncer.Endpoint) bool { return e.Addr.Is4() }) {
		return syncer.IPv4
	}
	return syncer.IPv6
}
