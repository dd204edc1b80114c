// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"iter"
	"net/netip"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Source is what the reconciler sees of the member clusters. All methods must be
// safe for concurrent use, answer from memory, and call nothing of this package.
type Source interface {
	// Gather returns what a decision about a replica goes by. Two calls for one
	// replica are never under way at once.
	Gather(replica syncer.Key) Snapshot
	// Peek is Gather without effect on later calls; Commit is nil.
	Peek(replica syncer.Key) Snapshot
	// Settings are those of the configuration that runs.
	Settings() *Settings
	// Replicas returns every key for which a member has a contribution; a key may
	// come more than once.
	Replicas() iter.Seq[syncer.Key]
	// Members returns the state of every configured member, for what is not about a replica.
	Members() []MemberState
}

// Snapshot is what a decision about one replica goes by: all of one moment and one
// configuration, so that an edit is never seen by halves.
type Snapshot struct {
	Settings *Settings
	// Members are the configured ones.
	Members []MemberState
	// Contributions include those of members that are away: their last state.
	Contributions []plan.Contribution
	// Unseen names members of which nothing can be said about this replica yet,
	// though they may be synced: hand-written endpoints that are still to be read.
	// They must not be among Contributions; what stands of them is kept.
	Unseen []string
	// Gone are addresses of members that are unseen or not configured any more, by member,
	// that are known to be gone: of what stands of them these are not kept.
	Gone map[string][]netip.Addr
	// Commit, unless nil, is called once the contributions have been written or
	// were found to change nothing.
	Commit func()
}

// MemberState is what the reconciler must know about a member.
type MemberState struct {
	// Name is the cluster's name in the configuration.
	Name string
	// Synced is true once the member has been seen whole since the process
	// started. It stays true while the member is away later: only then absence of
	// a contribution means that there is none.
	Synced bool
	// Stale is true while the member has been out of sight for longer than it may:
	// other members' ready endpoints are preferred to its own.
	Stale bool
	// Panicking is true while endpoints of the member are kept ready because too many of
	// its pods turned not ready at once: in failover it gives way.
	Panicking bool
	// Live is true while what the member does is seen as it happens: only then does one in
	// panic give way to it.
	Live bool
}

// Recorder is told what the reconciler does; *metrics.Metrics is one. All
// methods must be safe for concurrent use and must not wait.
type Recorder interface {
	// Change takes the record of an ended pass over a key; see metrics.Metrics.
	Change(record.Change) (seq uint64)
	Expect(seq uint64, rec *record.Change, refs []record.Ref)
	Echo(ref record.Ref, arrival time.Time)
	Report(namespace, service string, t metrics.Trouble)
	Write(kind, verb string, result metrics.WriteResult, took time.Duration)
	WorkDone(lane string, took time.Duration)
}

var _ Recorder = (*metrics.Metrics)(nil)

// unrecorded is the Recorder of nobody.
type unrecorded struct{}

func (unrecorded) Change(record.Change) uint64                              { return 0 }
func (unrecorded) Expect(uint64, *record.Change, []record.Ref)              {}
func (unrecorded) Echo(record.Ref, time.Time)                               {}
func (unrecorded) Report(string, string, metrics.Trouble)                   {}
func (unrecorded) Write(string, string, metrics.WriteResult, time.Duration) {}
func (unrecorded) WorkDone(string, time.Duration)                           {}
