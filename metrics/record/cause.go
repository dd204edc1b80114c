// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import "time"

// Cause is the event that made a replica dirty. It travels with the replica's key
// through the queue and is never changed. The zero value stands for a change that
// nobody caused: the replica was looked at again.
type Cause struct {
	// Cluster is the member that the event came from; empty for the ingress cluster
	// and for a change of the configuration.
	Cluster   string `json:"cluster,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Event is one of the Event constants.
	Event string `json:"event"`
	// State is what a pod had become: "ready", "not ready", "terminating" or "gone".
	// Empty for other kinds, and where it is not known.
	State string `json:"state,omitempty"`
	// IP is the pod's address, so that the story of an address can name its pod;
	// empty for other kinds.
	IP string `json:"ip,omitempty"`
	// SourceTime is when the member says that a pod's readiness changed or its deletion
	// began: whole seconds, by the member's clock. Zero where it does not say.
	SourceTime time.Time `json:"sourceTime,omitzero"`
	// Arrival is when the event was read off the wire; its monotonic reading is
	// what latencies are computed from.
	Arrival time.Time `json:"arrival"`
	// Live is true for a watch event, false for a first fill, a relist, a repair or a
	// change of the configuration: only live causes count in latencies.
	Live bool `json:"live"`
}

// The events of a Cause.
const (
	EventAdded    = "added"
	EventModified = "modified"
	EventDeleted  = "deleted"
	// EventListed: a list or a read showed it.
	EventListed = "listed"
	// EventMissing: a list lacked it, and a read says that it is gone.
	EventMissing = "missing"
	// EventTime: only time has passed, as for stableFor, holdSilentNodes and staleAfter.
	EventTime = "time"
	// EventConfigured: the configuration of the member, or of the installation, changed.
	EventConfigured = "configured"
	// EventRepaired: an object in the ingress cluster was changed by somebody else.
	EventRepaired = "repaired"
	// EventStarted: the replica is compared because this process began to write.
	EventStarted = "started"
	// EventAnswered: the ingress cluster answered a write, and what was left is compared again.
	EventAnswered = "answered"
)

// Earlier returns the cause that a change names if it gathers both: a live one
// before others, then the one that arrived first.
func Earlier(a, b Cause) Cause {
	switch {
	case a.Live != b.Live:
		if a.Live {
			return a
		}
		return b
	case b.Arrival.Before(a.Arrival):
		return b
	}
	return a
}

// String renders the cause for people: "Pod shop/web-1 modified (terminating)".
func (c Cause) String() string {
	text := c.Kind
	switch {
	case c.Name != "" && c.Namespace != "":
		text += " " + c.Namespace + "/" + c.Name
	case c.Name != "":
		text += " " + c.Name
	}
	if c.Event != "" {
		text += " " + c.Event
	}
	if c.State != "" {
		text += " (" + c.State + ")"
	}
	return text
}
