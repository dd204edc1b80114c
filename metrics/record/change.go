// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Result says how a change ended. The set is closed: readers filter by it.
type Result string

// The results of a change.
const (
	// Written: the ingress cluster acknowledged every write of the change.
	Written Result = "written"
	// Dropped: desired and current state are equal, so nothing had to be written.
	Dropped Result = "dropped"
	// Blocked: a conflict or a missing namespace prevents that something of the change is
	// written; Error says which.
	Blocked Result = "blocked"
	// Failed: a write was refused or lost; it is tried again.
	Failed Result = "failed"
)

// Change is a change record: what one comparison of a replica found and wrote, why, and
// how long each step took. Its JSON form is part of the outside contract: field names
// do not change.
//
// A Change is filled by its one owner and is read-only once it was added to a Ring; its
// slices are then shared by all readers.
type Change struct {
	// Seq numbers the records of one process from 1, without gaps.
	Seq uint64 `json:"seq"`
	// Time is when the change ended.
	Time time.Time `json:"time"`
	// Cluster is the member the change came from: that of Cause. Empty for a
	// repair of the ingress cluster or a change of configuration.
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	// TraceID names the trace of the change: 32 hexadecimal digits.
	TraceID string `json:"trace_id"`
	// Lane is the lane the change travelled in: removal, addition or bulk.
	Lane string `json:"lane"`
	// Cause is the earliest event that the change gathers (see Earlier), the one that
	// latencies count from; Causes is their number.
	Cause  Cause `json:"cause"`
	Causes int   `json:"causes"`
	// Added … Unreadied are what the change does to traffic, as "ip:port", sorted.
	Added     []string `json:"added"`
	Removed   []string `json:"removed"`
	Readied   []string `json:"readied"`
	Unreadied []string `json:"unreadied"`
	Stages    Stages   `json:"stages_ms"`
	// Writes counts the acknowledged writes.
	Writes int `json:"writes"`
	// Attempt counts the failures of the replica before this attempt.
	Attempt int    `json:"attempt"`
	Result  Result `json:"result"`
	Error   string `json:"error"`
}

// Stages is how long each step of a change took, on the monotonic clock. In
// JSON it is in milliseconds. Endpoints and slices of a replica that exists are written in
// parallel, so the parts may sum up to more than Total.
type Stages struct {
	// Queue runs from the arrival of the event to the begin of the comparison.
	Queue time.Duration
	// Compute runs from there to the difference being known: shares, merge, comparison.
	Compute time.Duration
	// WriteEndpoints and WriteSlices are the time from the difference being known to the
	// last acknowledgement of a write of that kind, waiting for a place included.
	WriteEndpoints time.Duration
	WriteSlices    time.Duration
	// Total runs from the arrival of the event to the last acknowledgement.
	Total time.Duration
}

// Write is the wall time between the end of computing and the last
// acknowledgement: the "write" stage of the latency metric.
func (s Stages) Write() time.Duration { return max(0, s.Total-s.Queue-s.Compute) }

// millis are the stages as they are written.
type millis struct {
	Queue          float64 `json:"queue"`
	Compute        float64 `json:"compute"`
	WriteEndpoints float64 `json:"write_endpoints"`
	WriteSlices    float64 `json:"write_slices"`
	Total          float64 `json:"total"`
}

// MarshalJSON renders the stages in milliseconds.
func (s Stages) MarshalJSON() ([]byte, error) {
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / float64(time.Millisecond) }
	return json.Marshal(millis{ms(s.Queue), ms(s.Compute), ms(s.WriteEndpoints), ms(s.WriteSlices), ms(s.Total)})
}

// UnmarshalJSON is the inverse of MarshalJSON, to the microsecond.
func (s *Stages) UnmarshalJSON(data []byte) error {
	var took millis
	if err := json.Unmarshal(data, &took); err != nil {
		return err
	}
	of := func(ms float64) time.Duration {
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond)
	}
	*s = Stages{of(took.Queue), of(took.Compute), of(took.WriteEndpoints), of(took.WriteSlices), of(took.Total)}
	return nil
}

// Begin starts the record of a comparison that has begun. cause is the earliest of those
// that it gathers, causes their number; the zero Cause means that it only follows the
// answer to an earlier write.
func Begin(namespace, service string, cause Cause, causes int, begun time.Time) Change {
	if cause.Arrival.IsZero() {
		cause.Arrival = begun
	}
	cause.Arrival, cause.SourceTime = cause.Arrival.UTC(), cause.SourceTime.UTC()
	if cause.Kind == "" {
		cause.Kind, cause.Namespace, cause.Name, cause.Event = "Service", namespace, service, EventAnswered
	}
	return Change{
		Namespace: namespace, Service: service, Cluster: cause.Cluster, Cause: cause, Causes: max(1, causes),
		Stages: Stages{Queue: max(0, begun.Sub(cause.Arrival))},
	}
}

// Computed stamps the end of computing: the difference is known, writing begins.
func (r *Change) Computed(at time.Time) {
	r.Stages.Compute = max(0, at.Sub(r.Cause.Arrival)-r.Stages.Queue)
}

// Acknowledged stamps a write that the ingress cluster acknowledged. kind is as in the
// API; only Endpoints and EndpointSlice have a stage of their own.
func (r *Change) Acknowledged(kind string, at time.Time) {
	r.Writes++
	took := max(0, at.Sub(r.Cause.Arrival)-r.Stages.Queue-r.Stages.Compute)
	switch kind {
	case "Endpoints":
		r.Stages.WriteEndpoints = max(r.Stages.WriteEndpoints, took)
	case "EndpointSlice":
		r.Stages.WriteSlices = max(r.Stages.WriteSlices, took)
	}
}

// End stamps the end of the change. err is shown as it is, so it must not hold
// a secret; nil for none.
func (r *Change) End(at time.Time, result Result, err error) {
	r.Time = at.UTC().Round(time.Microsecond)
	r.Stages.Total = max(0, at.Sub(r.Cause.Arrival))
	r.Result = result
	if err != nil {
		r.Error = err.Error()
	}
	for _, list := range []*[]string{&r.Added, &r.Removed, &r.Readied, &r.Unreadied} {
		if *list == nil {
			*list = []string{} // so that a reader need not tell null from none
		}
	}
}

// NewTraceID returns a random identifier in the form of W3C Trace Context.
func NewTraceID() string {
	return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()|1) // all zeros is no identifier
}

// Cause is the event that made a replica dirty. It travels with the replica's key
// through the queue and is never changed. The zero value means a change that
// nobody caused: the replica was compared again.
type Cause struct {
	// Cluster is the member that the event came from; empty for the ingress cluster
	// and for a change of the configuration.
	Cluster   string `json:"cluster,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Event is one of the Event constants, or of a member "added", "modified", "deleted", "missing" (a list
	// lacked it, and a read says that it is gone) or "time" (only time has passed, as for stableFor).
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

// The events of a Cause that are not a member's alone.
const (
	// EventListed: a list or a read showed it.
	EventListed = "listed"
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
	if b.Live && !a.Live || b.Live == a.Live && b.Arrival.Before(a.Arrival) {
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
