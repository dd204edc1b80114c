// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Effects is what is to be done after a step, in the order of the fields, and after
// that of every step before it. The zero value is nothing.
type Effects struct {
	// View is how the member stands now, if that has changed; nil: it has not.
	View *View
	// Changes are replicas whose contribution may have changed.
	Changes []Change
	// List are kinds to list again, now.
	List []Kind
	// Read are objects to ask for, now; each is answered by one Answer.
	Read []Read
	// Alone are replicas to which the member gives no ready endpoint, though one of it
	// waits that Damping.KeepOne would let return: Return follows where nobody else
	// gives them any.
	Alone []syncer.Key
	// Manual is true when the set of Services whose endpoints are written by hand has
	// changed: see Store.ManualSources.
	Manual bool
	// Rules is true when other rules have come into force: see State.Deciders.
	Rules bool
	// Released is what a Release let go.
	Released Released
	// Facts are worth a line in the log each.
	Facts []Fact
	// Next is set while a list is not yet taken in whole: the event that is to follow at
	// once, when others had a chance to read. Work is true while rules are not yet in
	// force, or judged: Enforce is to follow soon, and no other event waits for it.
	Next Event
	Work bool
}

// Change is what one cause touched.
type Change struct {
	Cause Cause
	// Dirty names each pair of replica and source at most once.
	Dirty []store.Dirty
	// Bulk is true where nobody waits for a single one of them.
	Bulk bool
}

// Cause is why replicas are looked at.
type Cause struct {
	// Kind is that of an object, as in its manifest, or "Cluster" or "Config".
	Kind string
	// Event is "added", "modified", "deleted" for what a watch showed, and else
	// "relist", "missing", "asked", "released", "panic", "config", "stable" for an
	// endpoint that has been ready for long enough, "keep_one" for one that returns
	// earlier because there were none.
	Event string
	// Of an object, as far as it is known.
	Key      syncer.Key
	UID      string
	Revision uint64
	// IP and State ("ready", "not ready", "terminating", "gone") are those of a pod.
	IP, State string
	// Rule is the rule of the configuration that decides, if one does, or did.
	Rule string
	// SourceTime is when a pod says that what is shown of it began; see sourceTime.
	SourceTime int64
	// Live is true for what a watch showed.
	Live bool
	// Kept is set when nothing changes, because something is kept; then the replicas
	// are looked at for the record alone.
	Kept HoldReason
}

// Read asks for one object by name, consistently (from etcd, not from a cache).
type Read struct {
	Kind Kind
	Key  syncer.Key
	// UID that the object had; "" is unknown.
	UID string
	// Epoch is another one since the member went back in time: an answer from before tells
	// of the time that was lost.
	Epoch uint64
	// Objects are those that Manual is asked for in: see Contribution.WrittenIn. Those of them
	// that are held at Revision or before are gone if they are not in the answer.
	Objects  []string
	Revision uint64
}

// Fact is something worth one line in the log.
type Fact struct {
	Severity Severity
	Message  string
	Args     []any // keys and values
}

func (e *Effects) say(severity Severity, message string, args ...any) {
	e.Facts = append(e.Facts, Fact{severity, message, args})
}

// Severity of a fact.
type Severity uint8

// The severities.
const (
	Info Severity = iota
	Warning
	Error
)

// Released counts what a release let go.
type Released struct {
	// Pods and Services that lists lack, and objects that hold hand-written endpoints.
	Pods     int `json:"pods"`
	Services int `json:"services"`
	Manual   int `json:"manual"`
	// Standing are endpoints that stand from before this process.
	Standing int `json:"standing"`
	// NotReady are pods that were kept ready.
	NotReady int `json:"notReady"`
	// Ruled are endpoints that rules take away, as they were judged last.
	Ruled int `json:"ruled"`
}

// View is how a member stands.
type View struct {
	State  Condition
	Reason Reason
	// Err is why; it may be nil whatever the state.
	Err   error
	Since time.Time
	// Synced is true once the member was read whole: from then on that it gives
	// nothing to a replica means that there is nothing. It stays true.
	Synced bool
	// Stale is true while the member has been out of sight for too long.
	Stale bool
	// Panicking is true while pods are kept ready because too many turned not ready.
	Panicking bool
}

// Hold is something that is kept although the member seems to have lost it.
type Hold struct {
	// Replica is zero when the member as a whole is meant.
	Replica syncer.Key
	Reason  HoldReason
	// Message says what is kept, for people.
	Message string
	Since   time.Time
	// Confirming is true when it may end without anybody's help.
	Confirming bool
}

// HoldReason is why something is kept; a metric label, so the set is closed. All
// others that name reasons take them from here.
type HoldReason string

// The reasons.
const (
	// HoldList: a list lacks it, and it is being asked for.
	HoldList HoldReason = "list_shrank"
	// HoldStart: it stands from before this process, and the member's lists lack it.
	HoldStart HoldReason = "first_list_shrank"
	// HoldRevision: the member's store went back in time, and what it shows now is not
	// used before a second list confirms it.
	HoldRevision HoldReason = "revision_regressed"
	// HoldPanic: too many pods turned not ready at once.
	HoldPanic HoldReason = "mass_not_ready"
	// HoldRule: an edit of the rules, or the rules at a start, would take away too much.
	HoldRule HoldReason = "rule_would_empty"
	// HoldSilentNode: pods turned not ready because their nodes fell silent.
	HoldSilentNode HoldReason = "node_silent"
)
