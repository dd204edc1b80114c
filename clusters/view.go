// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/native"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Share is what one Service of one member gives to a replica.
type Share struct {
	Cluster string
	// Identity is that of Status.
	Identity string
	store.SourceContribution
}

// MemberState is what must be known of a member to use its shares: one that is
// not synced has not been read whole, so that it gives nothing says nothing.
type MemberState struct {
	Name   string
	Synced bool
	// Stale is true while the member has been out of sight for longer than its
	// configuration allows.
	Stale bool
}

// Members returns all members, sorted by name.
func (s *Set) Members() []MemberState {
	members := *s.members.Load()
	states := make([]MemberState, len(members))
	for i, m := range members {
		states[i] = MemberState{Name: m.name, Synced: m.health.synced.Load(), Stale: m.protect.stale.Load()}
	}
	return states
}

// Gather returns what the synced members give to a replica, sorted by member and
// source. Trigger times are returned again until commit is called; see
// store.Store.Gather. Two calls for one replica must not be under way at once.
func (s *Set) Gather(replica syncer.Key) (shares []Share, commit func()) {
	var commits []func()
	for _, m := range s.synced() {
		contributions, commit := m.store.Gather(replica)
		if len(contributions) > 0 {
			shares = appendShares(shares, m, contributions)
			commits = append(commits, commit)
		}
	}
	return shares, func() {
		for _, commit := range commits {
			commit()
		}
	}
}

// Peek is Gather for those who only look.
func (s *Set) Peek(replica syncer.Key) []Share {
	var shares []Share
	for _, m := range s.synced() {
		shares = appendShares(shares, m, m.store.Peek(replica))
	}
	return shares
}

// Replicas returns the replicas that the synced members contribute to, sorted.
func (s *Set) Replicas() []syncer.Key {
	var all []syncer.Key
	for _, m := range s.synced() {
		all = append(all, m.store.Replicas()...)
	}
	return sortedKeys(all)
}

func (s *Set) synced() []*Member {
	var synced []*Member
	for _, m := range *s.members.Load() {
		if m.health.synced.Load() {
			synced = append(synced, m)
		}
	}
	return synced
}

func appendShares(shares []Share, m *Member, contributions []store.SourceContribution) []Share {
	for _, c := range contributions {
		shares = append(shares, Share{Cluster: m.name, Identity: m.identity.Known(), SourceContribution: c})
	}
	return shares
}

// Status is how a member stands, for people and metrics.
type Status struct {
	Name string
	// Host is the server's address; it holds no secret.
	Host     string
	State    State
	Reason   Reason
	Since    time.Time
	Synced   bool
	Version  string
	Identity string
	Store    store.Stats
	// Garbage counts what the member sent and could not be used.
	Garbage uint64
	// LastContact is zero when there was none.
	LastContact time.Time
	// LastError stays when the member is well again; LastErrorAt says when it was.
	LastError   error
	LastErrorAt time.Time
	// Stale is true while the member has been out of sight for too long.
	Stale bool
	// Panic is true while pods are kept ready that all turned not ready at once.
	Panic bool
	// Holds are what is kept although the member seems to have lost it.
	Holds []Hold
	// Remarks say what the member cannot be asked for and can do without.
	Remarks []string
	// Native compares with what the member's own controllers write.
	Native Native
}

// Native is how the member's own controllers compare with Tributary.
type Native struct {
	// Observed is true where the configuration asks for it and it goes on.
	Observed bool
	// Behind is how long the oldest change has been waiting for the member's own
	// controller; 0 when none has.
	Behind time.Duration
	// Differing are the Services about which both have differed for longer than
	// nativeTolerance, oldest first.
	Differing []native.Disagreement
}

// Status returns the state of all members, sorted by name. It walks over every
// Service.
func (s *Set) Status() []Status {
	members := *s.members.Load()
	all := make([]Status, len(members))
	for i, m := range members {
		all[i] = m.status()
	}
	return all
}

func (m *Member) status() Status {
	out := Status{
		Name: m.name, Identity: m.identity.Known(), Store: m.store.Stats(),
		Garbage: m.feed.garbage.Load(), LastContact: m.health.lastContact(), Remarks: m.health.remarked(),
		Stale: m.protect.stale.Load(), Holds: m.protect.holds(),
	}
	out.Panic = slices.ContainsFunc(out.Holds, func(h Hold) bool { return h.Reason == HoldPanic })
	m.health.fill(&out)
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Native = m.native.status(time.Now(), m.spec.cluster.NativeTolerance.Value())
	if m.session != nil {
		out.Host, out.Version = m.session.Host(), m.session.Version().Git
	} else if m.spec.access.REST != nil {
		out.Host = m.spec.access.REST.Host
	}
	return out
}
