// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/next/syncer"
)

// Desired is the merged wish of all members for one replica.
type Desired struct {
	syncer.Key
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
	// knows what it should be, and endpoints is nil where none are written.
	left      bool
	service   *serviceWish
	endpoints *endpointsWish
	slices    []sliceWish // sorted by name
}

// serviceWish, endpointsWish and sliceWish are objects as they should be.
type (
	serviceWish struct {
		traits
		ServiceSpec
	}
	endpointsWish struct {
		traits
		EndpointsSpec
		trigger time.Time
	}
	sliceWish struct {
		traits
		syncer.Slice
		member  string
		trigger time.Time
	}
)

// slice finds a slice by its name; nil when there is none.
func (d *Desired) slice(name string) *sliceWish {
	at, found := slices.BinarySearchFunc(d.slices, name, func(w sliceWish, name string) int { return strings.Compare(w.Name, name) })
	if !found {
		return nil
	}
	return &d.slices[at]
}

// Backends are all endpoints of the replica as they are published in slices, by member, and as
// hand-written Endpoints alone have them. Treat as read-only.
func (d *Desired) Backends() []Backend {
	var out []Backend
	for i := range d.slices {
		w := &d.slices[i]
		for _, e := range w.Endpoints {
			e.Ports = w.Ports
			out = append(out, Backend{w.member, e})
		}
	}
	for _, m := range d.members {
		for _, e := range m.endpoints {
			if e.Only == syncer.KindEndpoints {
				out = append(out, Backend{m.Member, e})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Backend) int {
		return cmp.Or(strings.Compare(a.Member, b.Member), syncer.CompareEndpoints(&a.Endpoint, &b.Endpoint))
	})
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
	// ConflictDuplicate: two members have ready endpoints of one address.
	ConflictDuplicate ConflictReason = "duplicate_ip"
	// ConflictSelector: somebody gave the replica a selector.
	ConflictSelector ConflictReason = "selector"
)
