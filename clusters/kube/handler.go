// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import "time"

// Handler is told what the loop learns. All calls come from the goroutine that
// is in Loop.Run, one at a time; a call that blocks stops the loop.
type Handler[T any] interface {
	// Replaced hands over a complete list. Whatever the handler holds and the list
	// does not is *absent*, which is weaker evidence than a Deleted call.
	Replaced(items []T, r Replacement)
	// Upserted reports an object that was created or changed.
	Upserted(item T, e EventMeta)
	// Deleted reports an object that was deleted, or that left the selector of the
	// watch; item is its last state.
	Deleted(item T, e EventMeta)
	// Contact reports that the server answered without news: a stream was
	// opened, a bookmark came, or an event that the last list already showed.
	Contact(at time.Time, bookmark bool)
	// Changed reports a change of the loop's state.
	Changed(State)
}

// Replacement describes a complete list.
type Replacement struct {
	Reason Reason
	// ResourceVersion of the list.
	ResourceVersion string
	// Older is true when that is below a revision that had been seen before the list
	// was begun, or after WentBack: the server went back in time, as after a restored
	// etcd.
	Older bool
	// LeftOut are namespaces that were refused, or failed: the list says nothing of these. Unlisted are
	// those of them that no list has shown.
	LeftOut, Unlisted []string
	// Begun is when it was asked for, Finished when its last object had been read.
	Begun, Finished time.Time
}

// Reason is why a list was made; a metric label, so the set is closed.
type Reason string

// The reasons for a list.
const (
	// FirstFill is the first complete list.
	FirstFill Reason = "first_fill"
	// Expired: the server no longer knows the revision to resume from (410).
	Expired Reason = "expired"
	// Requested by a call to Relist.
	Requested Reason = "requested"
	// Undecodable: the same revision was resumed from several times and each time the
	// stream broke on something that could not be read.
	Undecodable Reason = "garbled"
	// Unproven: one stream after another was frozen, and checks of them, too.
	Unproven Reason = "silent"
	// Rewound by a call to Rewind or WentBack.
	Rewound Reason = "rewound"
)

// EventMeta describes a watch event.
type EventMeta struct {
	// Type is "added", "modified" or "deleted".
	Type string
	// ResourceVersion of the object. A later event may carry a lower one: the
	// handler decides what that means.
	ResourceVersion string
	// Arrival is when the event was read off the wire.
	Arrival time.Time
}

// Phase is what a loop is doing.
type Phase int

// The phases of a loop.
const (
	// Listing: a complete list is being read.
	Listing Phase = iota
	// Following: a stream is open.
	Following
	// Waiting to try again after an error.
	Waiting
	// Forbidden: waiting to try again after a 401 or 403.
	Forbidden
)

// State is a phase and, when waiting, the error that led to it. When following, the error
// is why LeftOut are, or else what is wrong beside the stream: a list that was asked for by
// Relist and is longer than may be, or a source that the stream cannot be exchanged for.
type State struct {
	Phase Phase
	Err   error
	// LeftOut are the namespaces that the stream does not show, Failing those of them that are not
	// refused. Both are sorted.
	LeftOut, Failing []string
}

// End is why a stream ended; a metric label, so the set is closed.
type End string

// The reasons for which a stream ends.
const (
	EndClosed      End = "closed"   // by the server, in order
	EndBroken      End = "broken"   // the connection failed or the server reported an error
	EndExpired     End = "expired"  // 410: the revision is no longer known
	EndSilent      End = "silent"   // frozen: what happened came otherwise, or nobody knows
	EndUndecodable End = "garbled"  // something that could not be read
	EndReplaced    End = "replaced" // by a stream of a new source
	EndRewound     End = "rewound"  // by a call to Rewind
	EndStopped     End = "stopped"  // by us
)

// Observer counts what happens in a loop. Its methods must not block and must
// be safe for concurrent use.
type Observer interface {
	// Listed is called after each complete list.
	Listed(kind string, reason Reason, objects int, took time.Duration)
	// StreamEnded is called when a stream that had been open ends.
	StreamEnded(kind string, end End)
	// Undecodable is called for each event or object that could not be used.
	Undecodable(kind string)
}

type noObserver struct{}

func (noObserver) Listed(string, Reason, int, time.Duration) {}
func (noObserver) StreamEnded(string, End)                   {}
func (noObserver) Undecodable(string)                        {}
