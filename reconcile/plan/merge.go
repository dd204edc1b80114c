// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
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
	if !slices.ContainsFunc(m.members, (*member).feeds) && !m.unnamed() {
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
			one.fit(len(united.ports) > 0)
		}
	}
	d := &Desired{Key: key, settings: &s, members: m.members, best: publish(m.now, m.members), left: left}
	d.Conflicts = united.conflicts
	slices.SortFunc(d.Conflicts, compareConflicts)
	m.report(d)
	var oldest *syncer.Service
	if left {
		d.Labels = now.Service.Labels.Map()
	} else if len(sources) > 0 {
		oldest = sources[0].service
		d.service = &wish{traits: s.traits(KindService, key, "", oldest), service: &ServiceSpec{united.servicePorts(sources)}}
		d.Labels = d.service.labels
	}
	d.endpoints = m.endpoints(oldest)
	m.pack(d)
	return d
}

// merger is one run of Merge.
type merger struct {
	key      syncer.Key
	now      *Current
	settings *Settings
	members  []*member
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

// unnamed reports whether the replica may be of a member that nobody knows yet: it has no slice that
// would tell whose it is, for a process was stopped before it had made one.
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
		slices.ContainsFunc(m.members, func(one *member) bool { return one.stands() && !one.orphan }))
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
// taken as it is written, and has no limit, nor has what stands of one that is not listed if it may
// be that. source is the one whose labels they have.
func (m *merger) endpoints(source *syncer.Service) *wish {
	content, e := &EndpointsSpec{}, m.now.Endpoints
	w := &wish{absent: !m.settings.WriteEndpoints, trigger: m.trigger(), endpoints: content}
	w.claims = &claims{wishes: []*wish{w}}
	var feeding []*member
	all := 0
	for _, one := range m.members {
		if len(one.endpoints) > 0 {
			feeding, all = append(feeding, one), all+len(one.endpoints)
		}
	}
	w.published = make([]syncer.Endpoint, 0, all)
	for _, one := range feeding {
		for _, e := range one.published {
			if e.In(syncer.KindEndpoints) && (e.Ready || !e.Terminating) {
				w.published = append(w.published, e)
			}
		}
	}
	content.Subsets = syncer.Subsets(w.published)
	unlimited := false
	if len(feeding) == 1 {
		one := feeding[0]
		unlimited = one.byHand() || !one.Listed && e != nil && e.Owned && e.Annotations[syncer.AnnotationOverCapacity] == ""
		if one.byHand() && sameSubsets(one.Given.Subsets, content.Subsets) {
			content.Subsets = one.Given.Subsets // in the order of who wrote them
		}
	}
	if !unlimited {
		content.Subsets, content.Truncated = syncer.Truncate(content.Subsets, cmp.Or(m.settings.Capacity, syncer.EndpointsCapacity))
	}
	w.traits = m.settings.traits(KindEndpoints, m.key, "", source, spoken(content.Subsets)...)
	return w
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

func compareConflicts(a, b Conflict) int {
	return cmp.Or(strings.Compare(string(a.Reason), string(b.Reason)),
		strings.Compare(a.Member, b.Member), strings.Compare(a.Message, b.Message))
}
