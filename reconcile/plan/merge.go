// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/reconcile/ports"
	"tributary.dev/tributary/syncer"
)

// Settings are what the configuration says about replicas.
type Settings struct {
	// Instance is the name of the installation.
	Instance string
	// WriteEndpoints has Endpoints written beside slices.
	WriteEndpoints bool
	// CreateNamespaces makes a missing namespace an action, not a reason to wait.
	CreateNamespaces bool
	// DropOrphans removes what is published of members without a share; set it only when every
	// member has been listed.
	DropOrphans bool
	// CopyLabel and CopyAnnotation choose, by key, what a replica takes over from its source.
	// Nil takes over nothing.
	CopyLabel, CopyAnnotation func(key string) bool
	// Capacity limits the addresses of Endpoints that are not written by hand; 0 means
	// syncer.EndpointsCapacity. MaxEndpointsPerSlice limits a slice; 0 means
	// syncer.DefaultMaxEndpoints.
	Capacity, MaxEndpointsPerSlice int
}

// Desired is the merged wish of all members for one replica.
type Desired struct {
	syncer.Key
	// Labels are those of the source that the Service has.
	Labels map[string]string
	// Conflicts are disagreements of members, and Orphans what is published of members that are not
	// configured any more; both sorted.
	Conflicts []Conflict
	Orphans   []Orphan

	settings *Settings
	// members are whose endpoints count, sorted by name, and best the class that serves.
	members []*member
	best    class
	// service is nil where the Service stays as it is, or nobody knows what it should be;
	// endpoints is nil where there are to be none.
	service, endpoints *wish
	// slices are those that are desired, sorted by name.
	slices []*wish
	// inEndpoints is all that is desired in Endpoints, and inSlices, by member, in slices.
	inEndpoints claims
	inSlices    map[string]claims
}

// wish is an object as it should be now: one of service, endpoints and slice is set.
type wish struct {
	traits
	trigger   time.Time
	service   *ServiceSpec
	endpoints *EndpointsSpec
	slice     *syncer.Slice
}

// Backends are all endpoints of the replica as they are published, by member. Treat as
// read-only.
func (d *Desired) Backends() (out []Backend) {
	for _, m := range d.members {
		for i, e := range m.published {
			// What is published in both kinds is read from each.
			if i == 0 || e.Only != syncer.KindEndpoints || syncer.CompareEndpoints(&e, &m.published[i-1]) != 0 {
				out = append(out, Backend{m.Member, e})
			}
		}
	}
	return out
}

// Backend is an endpoint as it is published, with its member.
type Backend struct {
	Member string
	syncer.Endpoint
}

// Orphan counts what is published of a member that is not configured any more.
type Orphan struct {
	Member    string
	Endpoints int
}

// Merge unites what all members contribute to one replica; nil means that nobody wants it. The
// oldest Service decides where members disagree, then the first by the member's name. now
// supplies the shares of members that are not listed, the slices that endpoints stay in, and
// who serves until others have taken over.
func Merge(key syncer.Key, now Current, shares []syncer.Share, s Settings) *Desired {
	m := &merger{key: key, now: &now, settings: &s}
	m.gather(shares)
	if !slices.ContainsFunc(m.members, (*member).feeds) && !m.unnamed() {
		return nil
	}
	sources := m.sources()
	left, current := m.leaves(sources), []syncer.ServicePort(nil)
	if left {
		current = append([]syncer.ServicePort{}, now.Service.Ports...)
	}
	listed := make([]*ports.Source, len(sources))
	for i, one := range sources {
		listed[i] = one.ports()
	}
	united := ports.Unite(current, listed)
	var former ports.Names
	if is := now.Service; !left && is != nil && is.Owned && !is.Deleting && !now.AtOnce {
		former = united.Former(is.Ports, listed)
	}
	for i, one := range sources {
		if left || len(sources) > 1 {
			one.endpoints = united.Fit(listed[i], one.endpoints)
		}
		one.endpoints = former.Rename(one.endpoints)
	}
	d := &Desired{Key: key, settings: &s, members: m.members, best: m.publish(), Orphans: m.orphans()}
	for _, c := range united.Conflicts {
		d.Conflicts = append(d.Conflicts, Conflict{ConflictPort, c.Member, c.Message})
	}
	slices.SortFunc(d.Conflicts, compareConflicts)
	var oldest *syncer.Service
	if left {
		d.Labels = now.Service.Labels.Map()
	} else if len(sources) > 0 {
		oldest = sources[0].service
		d.service = &wish{traits: s.traits(KindService, key, "", oldest), service: &ServiceSpec{united.Ports()}}
		d.Labels = d.service.labels
	}
	m.endpoints(d, oldest)
	m.pack(d)
	return d
}

// merger is one run of Merge.
type merger struct {
	key      syncer.Key
	now      *Current
	settings *Settings
	members  []*member
	// apart is true where Endpoints stay as they are beside slices, as far as members are not listed.
	apart bool
}

// sources are the members whose Service is known, the oldest first.
func (m *merger) sources() []*member {
	var known []*member
	for _, one := range m.members {
		if one.service != nil {
			known = append(known, one)
		}
	}
	slices.SortStableFunc(known, func(a, b *member) int { return cmp.Compare(a.service.Created, b.service.Created) })
	return known
}

// unnamed reports whether a Service may be of a member that is not listed: no slice tells whose it is.
func (m *merger) unnamed() bool {
	s := m.now.Service
	return s != nil && s.Owned && !slices.ContainsFunc(m.now.Slices, func(s Slice) bool { return s.Owned }) &&
		slices.ContainsFunc(m.members, func(one *member) bool { return one.SourceOpen })
}

// leaves reports whether the replica's Service stays as it is: one of its sources is
// unknown, or all are.
func (m *merger) leaves(sources []*member) bool {
	s := m.now.Service
	return s != nil && s.Owned && !s.Deleting && (len(sources) == 0 ||
		slices.ContainsFunc(m.members, func(one *member) bool { return one.sourceUnknown() && !one.orphan }))
}

func (m *merger) orphans() (all []Orphan) {
	for _, one := range m.members {
		if !one.orphan {
			continue
		}
		of := Orphan{Member: one.Member}
		for _, s := range one.slices {
			of.Endpoints += len(s.Endpoints)
		}
		all = append(all, of)
	}
	return all
}

// endpoints renders the shares as one Endpoints object. What one member has written by hand is
// published as it is written and without limit; so is what is published of members that are not
// listed, for it may be written by hand. source is the Service whose labels the Endpoints have.
func (m *merger) endpoints(d *Desired, source *syncer.Service) {
	var all []syncer.Endpoint
	var feeding []*member
	for _, one := range m.members {
		if len(one.endpoints) > 0 {
			feeding = append(feeding, one)
		}
		all = slices.Grow(all, len(one.published))
		for _, e := range one.published {
			if e.In(syncer.KindEndpoints) && (e.Ready || !e.Terminating && !m.servesElsewhere(one, &e)) {
				all = append(all, e)
			}
		}
	}
	d.inEndpoints = claimsOf(func(yield func(string, syncer.Endpoint) bool) {
		for _, e := range all {
			yield("", e)
		}
	})
	if !m.settings.WriteEndpoints {
		return
	}
	content := &EndpointsSpec{Subsets: syncer.Subsets(all)}
	switch {
	case len(feeding) == 1 && feeding[0].byHand():
		if byHand := feeding[0].Given.Subsets; sameSubsets(byHand, content.Subsets) {
			content.Subsets = byHand // in the order in which they are written
		}
	case !m.apart || !slices.ContainsFunc(feeding, func(one *member) bool { return !one.Listed }):
		content.Subsets, content.Truncated = syncer.Truncate(content.Subsets, cmp.Or(m.settings.Capacity, syncer.EndpointsCapacity))
	}
	d.endpoints = &wish{traits: m.settings.traits(KindEndpoints, m.key, "", source), trigger: m.trigger(), endpoints: content}
}

// servesElsewhere reports whether another member publishes an endpoint as ready: several name one address where
// they are one cluster, or write it by hand.
func (m *merger) servesElsewhere(than *member, e *syncer.Endpoint) bool {
	return slices.ContainsFunc(m.members, func(one *member) bool {
		return one != than && slices.ContainsFunc(on(one.published, e.Addr), func(o syncer.Endpoint) bool {
			return o.Ready && o.In(syncer.KindEndpoints) && o.Target.UID == e.Target.UID
		})
	})
}

// trigger is the time of the first of several changes.
func (m *merger) trigger() (first time.Time) {
	for _, one := range m.members {
		if t := one.Given.Trigger; one.service != nil && !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// pack packs the endpoints of each member into slices of its own.
func (m *merger) pack(d *Desired) {
	d.inSlices = map[string]claims{}
	for _, one := range m.members {
		if !one.feeds() {
			continue
		}
		packed := m.slicesOf(one)
		d.inSlices[one.Member] = claimsOf(func(yield func(string, syncer.Endpoint) bool) {
			for _, w := range packed {
				for _, e := range endpointsOf(w.slice) {
					yield(w.slice.Name, e)
				}
			}
		})
		d.slices = append(d.slices, packed...)
	}
	slices.SortFunc(d.slices, func(a, b *wish) int { return strings.Compare(a.slice.Name, b.slice.Name) })
}

func (m *merger) slicesOf(one *member) (packed []*wish) {
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
	shelf := make([]syncer.Slice, len(m.now.Slices)) // of other members only the names
	for i := range m.now.Slices {
		if s := &m.now.Slices[i]; slices.Contains(one.slices, s) {
			shelf[i] = s.Slice
		} else {
			shelf[i].Name = s.Name
		}
	}
	o := syncer.PackOptions{Service: m.key, Cluster: one.Member, MaxEndpoints: m.settings.MaxEndpointsPerSlice}
	for _, s := range syncer.Pack(shelf, one.published, families, o) {
		w.slice = &s
		packed = append(packed, new(w))
	}
	return packed
}
