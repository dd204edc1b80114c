// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// Result says how a change ended. The set is closed: it is a metric label.
type Result string

// The results of a change.
const (
	// Written: the ingress cluster acknowledged every write of the change.
	Written Result = "written"
	// Dropped: the outcome equals what stands, so nothing had to be written.
	Dropped Result = "dropped"
	// Held: a guard, a conflict or a missing namespace keeps the change back;
	// Error says which.
	Held Result = "held"
	// Failed: a write was refused or lost; the key is tried again.
	Failed Result = "failed"
)

// Results lists every Result.
func Results() []Result { return []Result{Written, Dropped, Held, Failed} }

// Change is a change record: what happened to one replica, why, and how long
// each step took. Its JSON form is part of the outside contract: field names
// do not change.
//
// A Change is filled by the one worker that holds the key and is read-only once
// it was given to a Keeper; its slices are then shared by all readers.
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
	TraceID string `json:"trace_id,omitempty"`
	// Lane is the lane the change travelled in: removal, addition or bulk.
	Lane string `json:"lane,omitempty"`
	// Cause is the event that the latencies count from.
	Cause Cause `json:"cause"`
	// Causes are the others that a burst merged into this change, as far as they
	// were kept; CausesDropped counts those that were not.
	Causes        []Cause `json:"causes,omitempty"`
	CausesDropped int     `json:"causes_dropped,omitempty"`
	// Added … Unreadied are what the change does to traffic, as "ip:port", sorted.
	Added     []string `json:"added"`
	Removed   []string `json:"removed"`
	Readied   []string `json:"readied"`
	Unreadied []string `json:"unreadied"`
	Stages    Stages   `json:"stages_ms"`
	// Writes counts the acknowledged writes.
	Writes int `json:"writes"`
	// Attempt counts the failures of the key before this attempt.
	Attempt int    `json:"attempt,omitempty"`
	Result  Result `json:"result"`
	Error   string `json:"error"`

	// settled is set once the echo is known, or that there will be none.
	settled bool
}

// Stages is how long each step of a change took, on the monotonic clock. In
// JSON it is in milliseconds with three decimals. Endpoints and slices of a
// standing replica are written in parallel, so the parts may sum up to more
// than Total.
type Stages struct {
	// Queue runs from the arrival of the event to a worker taking the key.
	Queue time.Duration
	// Compute runs from there to the first write being sent: contributions,
	// merge, comparison.
	Compute time.Duration
	// WriteService, WriteEndpoints and WriteSlices are the time from the first
	// write of that kind being sent to the last one being acknowledged.
	WriteService   time.Duration
	WriteEndpoints time.Duration
	WriteSlices    time.Duration
	// Total runs from the arrival of the event to the last acknowledgement.
	Total time.Duration
	// Echo runs from the arrival of the event to our own watch of the ingress
	// cluster having shown the last of the writes; zero until it has.
	Echo time.Duration
}

// Write is the wall time between the end of computing and the last
// acknowledgement: the "write" stage of the latency metric.
func (s Stages) Write() time.Duration { return max(0, s.Total-s.Queue-s.Compute) }

// Begin starts the record of a change: a worker took the replica's key at the
// given time, for these causes (and more that were not kept). The live cause
// that arrived first becomes the one that latencies count from; without a live
// one the first of all. causes is not changed and not kept.
func Begin(namespace, service, lane string, causes []Cause, more int, taken time.Time) Change {
	r := Change{Namespace: namespace, Service: service, Lane: lane, CausesDropped: more}
	if len(causes) == 0 {
		r.Cause = Cause{Kind: "Service", Namespace: namespace, Name: service, Event: "resync", Arrival: taken.UTC()}
		return r
	}
	primary := first(causes)
	r.Cause = causes[primary]
	r.Cause.Arrival = r.Cause.Arrival.UTC()
	r.Cluster = r.Cause.Cluster
	r.Stages.Queue = max(0, taken.Sub(r.Cause.Arrival))
	if len(causes) > 1 {
		r.Causes = make([]Cause, 0, len(causes)-1)
		for i, c := range causes {
			if i != primary {
				c.Arrival = c.Arrival.UTC()
				r.Causes = append(r.Causes, c)
			}
		}
	}
	return r
}

// NewTraceID returns a random identifier in the form of W3C Trace Context.
func NewTraceID() string {
	var id [16]byte
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1) // all zeros is no identifier
	return hex.EncodeToString(id[:])
}

// first returns the index of the cause that latencies count from.
func first(causes []Cause) int {
	best := 0
	for i := 1; i < len(causes); i++ {
		c, b := &causes[i], &causes[best]
		if c.Live != b.Live {
			if c.Live {
				best = i
			}
			continue
		}
		if c.Arrival.Before(b.Arrival) {
			best = i
		}
	}
	return best
}

// Unsettled is for how long a reader who wants every step should still wait for the
// record: its echo, which nearly always comes within milliseconds.
func (r *Change) Unsettled(now time.Time) time.Duration {
	age := now.Sub(r.Time)
	if r.settled || r.Result != Written || r.Writes == 0 || age < 0 {
		return 0
	}
	return max(0, EchoPatience-age)
}

// Computed stamps the end of computing: the plan is known, writing begins.
func (r *Change) Computed(at time.Time) {
	r.Stages.Compute = max(0, at.Sub(r.Cause.Arrival)-r.Stages.Queue)
}

// End stamps the end of the change. err is shown as it is, so it must not hold
// a secret; nil for none.
func (r *Change) End(at time.Time, result Result, err error) {
	r.Time = at.UTC()
	r.Stages.Total = max(0, at.Sub(r.Cause.Arrival))
	r.Result = result
	if err != nil {
		r.Error = err.Error()
	}
}
