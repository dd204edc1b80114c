// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "tributary.dev/tributary/next/syncer"

// Desired is the merged wish of all members for one replica.
type Desired struct {
	syncer.Key
	// Conflicts are disagreements of members, Rejected the addresses that nobody may have, and
	// Orphans what stands of members that are not configured any more; all sorted.
	Conflicts []Conflict
	Rejected  []Rejection
	Orphans   []Orphan
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
	// ConflictHeadless: the Service has an address of its own in one member and none in another.
	ConflictHeadless ConflictReason = "headless"
	// ConflictDuplicate: two members have ready endpoints of one address.
	ConflictDuplicate ConflictReason = "duplicate_ip"
	// ConflictSelector: somebody gave the replica a selector.
	ConflictSelector ConflictReason = "selector"
)

// Merge unites what all members give to one replica; nil means that nobody wants it. The
// result does not depend on the order of the shares.
func Merge(key syncer.Key, now Current, shares []Share, s Settings) *Desired {
	return &Desired{Key: key}
}

// Backends are all endpoints of the replica as they are published, by member.
func (d *Desired) Backends() []Backend { return nil }
