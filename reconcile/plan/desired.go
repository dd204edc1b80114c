// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/syncer"
)

// Desired is the merged wish of all members for one replica.
type Desired struct {
	syncer.Key
	// Labels are those of the source that the Service has.
	Labels map[string]string
	// Conflicts are disagreements of members, Rejected the addresses that nobody may have, and
	// Orphans what stands of members that are not configured any more; all sorted.
	Conflicts []Conflict
	Rejected  []Rejection
	Orphans   []Orphan

	settings *Settings
	// members are whose endpoints count, sorted by name, and best the class that serves.
	members []*member
	best    class
	// left is true where the Service stays as it stands. Otherwise service is nil where nobody
	// knows what it should be.
	left      bool
	service   *wish
	endpoints *wish
	// slices are those that are wanted and those of ours that stand, sorted by name.
	slices []*wish
}

// wish is an object as it should be now: one of service, endpoints and slice is set.
type wish struct {
	traits
	trigger time.Time
	// absent is true of what should not be.
	absent    bool
	service   *ServiceSpec
	endpoints *EndpointsSpec
	slice     *syncer.Slice
	// published are all endpoints that Endpoints may have: more than they hold, perhaps.
	published []syncer.Endpoint
	// claims are the endpoints of this and of the objects beside it.
	claims *claims
}

// all are the endpoints that may be in the object, with their ports and grades.
func (w *wish) all() iter.Seq[syncer.Endpoint] {
	if w.slice != nil {
		return endpointsOf(w.slice)
	}
	return slices.Values(w.published)
}

// wanted are the endpoints of the object as it is written.
func (w *wish) wanted() iter.Seq[syncer.Endpoint] {
	switch {
	case w.slice != nil:
		return endpointsOf(w.slice)
	case w.endpoints != nil:
		return endpointsIn(w.endpoints.Subsets)
	}
	return func(func(syncer.Endpoint) bool) {}
}

// nothing is desired where nobody wants the replica.
func nothing(now *Current) *Desired {
	d := &Desired{Key: now.Key, settings: &Settings{}, endpoints: &wish{absent: true}}
	d.takeAway(now)
	return d
}

// takeAway adds the slices that stand of ours and are not wanted, and sorts all.
func (d *Desired) takeAway(now *Current) {
	wanted := map[string]bool{}
	for _, w := range d.slices {
		wanted[w.slice.Name] = true
	}
	for i := range now.Slices {
		if s := &now.Slices[i]; s.Owned && !wanted[s.Name] {
			d.slices = append(d.slices, goes(s))
		}
	}
	slices.SortFunc(d.slices, func(a, b *wish) int { return strings.Compare(a.slice.Name, b.slice.Name) })
}

// goes is the wish for a slice that stands and should not.
func goes(s *Slice) *wish {
	return &wish{traits: traits{left: true}, absent: true, slice: &syncer.Slice{Name: s.Name, Family: s.Family, Ports: s.Ports}}
}

// Backends are all endpoints of the replica as they are published, by member. Treat as
// read-only.
func (d *Desired) Backends() (out []Backend) {
	for _, m := range d.members {
		for _, e := range m.published {
			out = append(out, Backend{m.Member, e})
		}
	}
	return out
}

// Backend is an endpoint as it is published, with its member.
type Backend struct {
	Member string
	syncer.Endpoint
}

// Rejection is an address that a member named and nobody may have.
type Rejection struct {
	Member string
	syncer.Rejection
}

// Orphan counts what stands of a member that is not configured any more.
type Orphan struct {
	Member    string
	Endpoints int
}

// Conflict is a disagreement that a person should mend.
type Conflict struct {
	Reason ConflictReason `json:"reason"`
	// Member is the one that lost; empty for an object of somebody else.
	Member string `json:"cluster,omitempty"`
	// Message names both sides and the remedy.
	Message string `json:"message"`
}

// ConflictReason is a metric label, so the set is closed.
type ConflictReason string

// The reasons for a conflict.
const (
	// ConflictForeign: an object that is not ours stands where ours should.
	ConflictForeign ConflictReason = "foreign_object"
	// ConflictInstance: it is another installation's.
	ConflictInstance ConflictReason = "other_instance"
	// ConflictPort: members disagree about a port.
	ConflictPort ConflictReason = "port"
	// ConflictSelector: somebody gave the replica a selector.
	ConflictSelector ConflictReason = "selector"
)
