// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/syncer"
)

// Merge unites what all members give to one replica; nil means that nobody wants it. The
// oldest Service decides where members disagree, then the first by the member's name. now
// supplies the shares of members that are not listed, the slices that endpoints stay in, and
// who serves until others have taken over.
func Merge(key syncer.Key, now Current, shares []Share, s Settings) *Desired {
	m := &merger{key: key, now: &now, settings: &s}
	m.gather(shares)
	if !m.wanted() {
		return nil
	}
	sources := m.sources()
	left, standing := m.leaves(sources), []syncer.ServicePort(nil)
	if left {
		standing = slices.Clip(append([]syncer.ServicePort{}, now.Service.Ports...))
	}
	united := unite(standing, sources)
	if left || len(sources) > 1 {
		for _, one := range sources {
			if one.Listed { // what stands has the names of the replica
				one.fit(len(united.ports) > 0)
			}
		}
	}
	d := &Desired{Key: key, settings: &s, members: m.members, best: publish(m.members), left: left}
	d.Conflicts = united.conflicts
	slices.SortFunc(d.Conflicts, compareConflicts)
	m.report(d)
	if left {
		d.Labels = now.Service.Labels.Map()
	} else if len(sources) > 0 {
		d.service = &wish{traits: s.serviceTraits(sources[0].service), service: &ServiceSpec{united.servicePorts(sources)}}
		d.Labels = d.service.labels
	}
	if s.WriteEndpoints {
		d.endpoints = m.endpoints(sources, left)
	}
	d.slices = m.slices()
	return d
}

// merger is one run of Merge.
type merger struct {
	key      syncer.Key
	now      *Current
	settings *Settings
	members  []*member
}

// wanted reports whether there is to be a replica. A Service that is written by hand, and of
// which nothing is written, has no slices: what stands of it may be anybody's who is not
// listed.
func (m *merger) wanted() bool {
	stands := m.now.ours()
	if slices.ContainsFunc(m.members, func(one *member) bool { return one.feeds() || one.SourceOpen && stands }) {
		return true
	}
	unlisted := slices.ContainsFunc(m.members, func(one *member) bool { return !one.Listed && !one.orphan })
	e := m.now.Endpoints
	return unlisted && stands && !slices.ContainsFunc(m.now.Slices, func(s Slice) bool { return s.Owned }) &&
		(!m.settings.WriteEndpoints || e != nil && e.Owned)
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

// leaves reports whether the replica's Service stays as it is: one of its sources is
// unknown, or all are.
func (m *merger) leaves(sources []*member) bool {
	s := m.now.Service
	return s != nil && s.Owned && !s.Deleting && (len(sources) == 0 || slices.ContainsFunc(m.members, (*member).unknown))
}

// report says what is not served, and what is of nobody.
func (m *merger) report(d *Desired) {
	for _, one := range m.members {
		for _, r := range one.Given.Rejected {
			d.Rejected = append(d.Rejected, Rejection{one.Member, r})
		}
		if one.orphan {
			d.Orphans = append(d.Orphans, Orphan{one.Member, len(one.endpoints)})
		}
	}
}

// endpoints renders the shares as one Endpoints object. What one member has written by hand is
// taken as it is written, and what stands of one that is not listed as it stands; all else is
// packed anew and limited.
func (m *merger) endpoints(sources []*member, left bool) *wish {
	content := &EndpointsSpec{}
	w := &wish{traits: traits{left: true}, trigger: m.trigger(), endpoints: content}
	if len(sources) > 0 && !left {
		w.traits = m.settings.traits(sources[0].service)
	}
	feeding := slices.DeleteFunc(slices.Clone(m.members), func(one *member) bool { return len(one.endpoints) == 0 })
	if len(feeding) == 1 {
		one, e := feeding[0], m.now.Endpoints
		if one.verbatim != nil {
			content.Subsets = one.verbatim
			return w
		}
		content.Subsets = syncer.Subsets(one.published, one.family)
		if !one.Listed && e != nil && e.Owned && e.Annotations[syncer.AnnotationOverCapacity] == "" {
			content.Subsets = syncer.Repack(content.Subsets) // perhaps somebody wrote more by hand
			return w
		}
	} else {
		var all []syncer.Endpoint
		for _, one := range feeding {
			for _, e := range one.published {
				if one.family == "" || one.family == familyOf(e.Addr) {
					all = append(all, e)
				}
			}
		}
		content.Subsets = syncer.Subsets(all, "")
	}
	content.Subsets, content.Truncated = syncer.Truncate(content.Subsets, cmp.Or(m.settings.Capacity, syncer.EndpointsCapacity))
	return w
}

// trigger is the time of the first of several changes.
func (m *merger) trigger() (first time.Time) {
	for _, one := range m.members {
		if t := one.Given.Trigger; one.Listed && !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// slices packs the endpoints of each member into slices of its own.
func (m *merger) slices() []wish {
	var out []wish
	for _, one := range m.members {
		if !one.feeds() && !one.SourceOpen {
			continue
		}
		w := wish{member: one.Member, traits: traits{left: true}}
		if one.service != nil && !one.SourceOpen && one.Listed {
			w.traits, w.trigger = m.settings.traits(one.service), one.Given.Trigger
		}
		o := syncer.PackOptions{Service: m.key, Cluster: one.Member, MaxEndpoints: m.settings.MaxEndpointsPerSlice}
		for _, s := range syncer.Pack(m.shelf(one), one.published, one.families, o) {
			w.slice = &s
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b wish) int { return strings.Compare(a.slice.Name, b.slice.Name) })
	return out
}

// shelf are the slices of a member, and the mere names of all others.
func (m *merger) shelf(one *member) []syncer.Slice {
	out := make([]syncer.Slice, 0, len(m.now.Slices)+len(m.now.Taken))
	for i := range m.now.Slices {
		s := &m.now.Slices[i]
		if slices.Contains(one.slices, s) {
			out = append(out, s.Slice)
		} else {
			out = append(out, syncer.Slice{Name: s.Name})
		}
	}
	for _, name := range m.now.Taken {
		out = append(out, syncer.Slice{Name: name})
	}
	return out
}

func familyOf(addr netip.Addr) syncer.Family {
	if addr.Is4() {
		return syncer.IPv4
	}
	return syncer.IPv6
}

func compareConflicts(a, b Conflict) int {
	return cmp.Or(strings.Compare(string(a.Reason), string(b.Reason)),
		strings.Compare(a.Member, b.Member), strings.Compare(a.Message, b.Message))
}
