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
	// knows what it should be, and endpoints is nil where none are written.
	left      bool
	service   *wish
	endpoints *wish
	slices    []wish // sorted by name
}

// wish is an object as it should be: one of service, endpoints and slice is set.
type wish struct {
	traits
	trigger time.Time
	// member is whose a slice is.
	member    string
	service   *ServiceSpec
	endpoints *EndpointsSpec
	slice     *syncer.Slice
}

// all are the endpoints of an object with their ports.
func (w *wish) all() iter.Seq[syncer.Endpoint] {
	switch {
	case w.slice != nil:
		return endpointsOf(w.slice)
	case w.endpoints != nil:
		return endpointsIn(w.endpoints.Subsets)
	}
	return func(func(syncer.Endpoint) bool) {}
}

// slice finds a slice by its name; nil when there is none.
func (d *Desired) slice(name string) *wish {
	at, found := slices.BinarySearchFunc(d.slices, name, func(w wish, name string) int { return strings.Compare(w.slice.Name, name) })
	if !found {
		return nil
	}
	return &d.slices[at]
}

// wish finds what an object should be; nil when it should not be.
func (d *Desired) wish(o *object) *wish {
	if o.slice == nil {
		return d.endpoints
	}
	return d.slice(o.name)
}

// mark is what an object of the replica must carry.
func (d *Desired) mark(kind Kind, member string) mark {
	return mark{kind, d.Key, d.settings.Instance, member}
}

// memberOf is the member that a slice is of.
func (d *Desired) memberOf(o *object) string {
	if o.slice == nil {
		return ""
	}
	return memberOf(d.Key, o.slice, d.members)
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
