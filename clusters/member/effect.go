// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"tributary.dev/tributary/syncer"
)

// Effects is what is to be done after a step. The zero value is nothing.
type Effects struct {
	// Dirty are replicas whose share may have changed.
	Dirty []Change
	// Bulk is true where nobody waits for a single one of them: lists, starts, settings.
	Bulk bool
	// Ask are questions to be asked now. Each try is answered by one Answer.
	Ask []Question
	// Relist are streams to be listed again while they go on.
	Relist []Scope
	// Restart are streams to be ended and begun anew.
	Restart []Scope
	// Follow is true when State.Scopes has changed.
	Follow bool
	// WantStanding asks for a Stood of this moment or later.
	WantStanding bool
	// Wake is when a Tick is due; zero: at no time.
	Wake time.Time
}

// Change is a replica whose share may have changed, and why.
type Change struct {
	Replica syncer.Key
	Effect  syncer.Effect
	Cause   *Cause // shared, never changed
}

// Cause is why replicas are compared.
type Cause struct {
	// Kind is that of an object as in its manifest, or "Cluster" or "Config".
	Kind string
	syncer.Key
	UID string
	// Event is one of the events of a change record.
	Event string
	// State and IP are those of a pod: "ready", "not ready", "terminating", "gone".
	State, IP string
	// SourceTime is when the member says that it happened, by its own clock; zero: it
	// does not.
	SourceTime time.Time
	// Arrived is when it was read off the wire.
	Arrived time.Time
	// Live is true for what a stream showed.
	Live bool
}

// The events of a Cause.
const (
	EventAdded      = "added"
	EventModified   = "modified"
	EventDeleted    = "deleted"
	EventListed     = "listed"
	EventMissing    = "missing"
	EventTime       = "time"
	EventConfigured = "configured"
	EventStarted    = "started"
)

// Question asks whether an object is there: by a consistent read, never from a cache.
type Question struct {
	ID   uint64
	Kind Kind
	Key  syncer.Key
	// UID that the object had; empty: unknown.
	UID string
}

// Share is what the member gives to a replica. Functions of it are valid until the next
// Step, and are called under the lock that guards the State.
type Share struct {
	// Listed is false as long as what stands of the member is its share.
	Listed bool
	// Given is the function of the tables; its Service is nil where there is none.
	Given syncer.Contribution
	// Keep returns, of what stands of the member in the replica and is not Given, how it
	// should stand now; ok is false if not at all. Nil: nothing of it should.
	Keep func(e syncer.Endpoint) (as syncer.Endpoint, ok bool)
	// SourceOpen is true while the Service is asked for or unknown: the replica's Service
	// is left as it is.
	SourceOpen bool
	// Reserve says why all endpoints are at most syncer.Reserve; empty: they are not.
	Reserve string
}
