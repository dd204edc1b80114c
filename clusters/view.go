// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// Share is what one Service of one member gives to a replica.
type Share struct {
	Cluster string
	store.SourceContribution
	// Unseen is true where nothing can be said of the member but that what stands of it
	// stays, without the addresses in Gone. Then nothing else is set.
	Unseen bool
	Gone   []netip.Addr
}

// MemberState is what must be known of a member to use its shares: one that is
// not synced has not been read whole, so that it gives nothing says nothing.
type MemberState struct {
	Name   string
	Synced bool
	// Stale is true while the member has been out of sight for longer than its
	// configuration allows.
	Stale bool
	// Panicking is true while pods of the member are kept ready that all turned not
	// ready at once.
	Panicking bool
	// Live is true while what the member does is seen as it happens.
	Live bool
}

func memberState(name string, v *evidence.View) MemberState {
	return MemberState{Name: name, Synced: v.Synced, Stale: v.Stale, Panicking: v.Panicking, Live: v.State == evidence.Live}
}

// Members returns all members, sorted by name.
func (s *Set) Members() []MemberState {
	members := s.applied.Load().members
	states := make([]MemberState, len(members))
	for i, m := range members {
		states[i] = memberState(m.name, m.view.Load())
	}
	return states
}

// Snapshot is what a decision about a replica goes by, of one moment: nothing in it is of
// another configuration, nor is a member's share of another state of the member.
type Snapshot struct {
	// Loaded is the configuration that was applied last; nil before the first.
	Loaded *config.Loaded
	// Members are sorted by name, Shares by member and source.
	Members []MemberState
	Shares  []Share
	// Gone are addresses of members that were removed, by member, that were seen to go
	// before; nil: none.
	Gone map[string][]netip.Addr
}

// Gather returns what the members give to a replica. Of a
// member that is not synced that is what is gone of what stands, if anything is.
// Trigger times are returned again until commit is called; see store.Gather. Two calls
// for one replica must not be under way at once.
func (s *Set) Gather(replica syncer.Key) (snapshot Snapshot, commit func()) {
	var commits []func()
	snapshot = s.snapshot(replica, func(inputs []store.Input) []store.SourceContribution {
		contributions, commit := store.Gather(inputs)
		commits = append(commits, commit)
		return contributions
	})
	return snapshot, func() {
		for _, commit := range commits {
			commit()
		}
	}
}

// Peek is Gather for those who only look.
func (s *Set) Peek(replica syncer.Key) Snapshot { return s.snapshot(replica, store.Peek) }

func (s *Set) snapshot(replica syncer.Key, compute func([]store.Input) []store.SourceContribution) Snapshot {
	s.edits.RLock()
	defer s.edits.RUnlock()
	of := s.applied.Load()
	out := Snapshot{Loaded: of.loaded, Members: make([]MemberState, len(of.members))}
	for removed, departed := range s.departed {
		if gone := departed[replica]; len(gone) > 0 {
			if out.Gone == nil {
				out.Gone = map[string][]netip.Addr{}
			}
			out.Gone[removed] = gone
		}
	}
	for i, m := range of.members {
		share, view := m.share(replica)
		out.Members[i] = memberState(m.name, &view)
		out.Shares = m.appendShares(out.Shares, share, view.Synced, compute(share.Inputs))
	}
	return out
}

// Loaded returns the configuration that was applied last; nil before the first.
func (s *Set) Loaded() *config.Loaded { return s.applied.Load().loaded }

// Replicas returns the replicas that the synced members contribute to, sorted.
func (s *Set) Replicas() []syncer.Key {
	var all []syncer.Key
	for _, m := range s.applied.Load().members {
		if m.synced() {
			all = append(all, m.replicas()...)
		}
	}
	slices.SortFunc(all, syncer.Key.Compare)
	return slices.Compact(all)
}

func (m *Member) appendShares(shares []Share, share evidence.Share, synced bool, contributions []store.SourceContribution) []Share {
	if share.Unseen && (len(share.Gone) > 0 || synced) {
		shares = append(shares, Share{Cluster: m.name, Unseen: true, Gone: share.Gone})
	}
	for _, c := range contributions {
		if c.Pending && share.Unseen {
			continue
		}
		shares = append(shares, Share{Cluster: m.name, SourceContribution: c})
	}
	return shares
}

// Status is how a member stands: what is shown of it, but for its lag and the end of its
// credential, and what else has to be known. State is one of the states of a member.
type Status struct {
	metrics.ClusterStatus
	// Identity is by what the member is known; "" while it is by nothing.
	Identity string
	// PanicAt is when the panic began that the member is in; zero: it is in none.
	PanicAt time.Time
	// Holds are what is kept although the member seems to have lost it.
	Holds []Hold
}

// lockedRuleStatus says how the rules fare that are in force: others of the configuration
// may wait for lists of what they read. The caller holds mu.
func (m *Member) lockedRuleStatus() (all []metrics.RuleStatus) {
	inForce, _ := m.state.Deciders()
	set, _ := inForce.(*rules.Set)
	counts, impact := m.state.Store().RuleCount(), m.state.RuleImpact()
	for _, s := range set.Status() {
		all = append(all, metrics.RuleStatus{
			Name: s.Name, Then: string(s.Then), Matches: counts[s.Name], Held: impact[s.Name].Held, Takes: impact[s.Name].Takes,
			Evaluations: s.Evaluations, Errors: s.Errors, Cost: s.Cost, Seconds: s.Took.Seconds(), LastError: s.LastError,
		})
	}
	return all
}

// Status returns the state of all members, sorted by name. It walks over every
// Service.
func (s *Set) Status() []Status {
	members := s.applied.Load().members
	all := make([]Status, len(members))
	for i, m := range members {
		all[i] = m.status()
	}
	return all
}

// Conditions is Status without what takes a walk: what is counted, Holds, Rules and Native.
func (s *Set) Conditions() []Status {
	members := s.applied.Load().members
	all := make([]Status, len(members))
	for i, m := range members {
		m.mu.RLock()
		all[i] = m.lockedCondition()
		m.mu.RUnlock()
	}
	return all
}

func (m *Member) status() Status {
	m.mu.RLock()
	out := m.lockedCondition()
	counts, damped := m.state.Store().Stats(), m.state.Waiting()
	out.Holds, out.Rules = m.state.Holds(), m.lockedRuleStatus()
	spec := m.spec
	m.mu.RUnlock()
	out.Services, out.Pods = counts.Placed, counts.Pods
	out.Endpoints.Ready, out.Endpoints.NotReady, out.Endpoints.Damped = counts.Ready-damped, counts.NotReady+damped, damped
	out.Native = m.native.status(m.name, time.Now(), spec.cluster.NativeTolerance.Value())
	return out
}

func (m *Member) lockedCondition() Status {
	v := m.state.View()
	out := Status{
		Identity: m.identity.Known(),
		PanicAt:  m.state.PanicAt(),
		ClusterStatus: metrics.ClusterStatus{
			Name: m.name, State: string(v.State), Reason: string(v.Reason), Since: v.Since, Up: v.State.Up(), Synced: v.Synced,
			Stale: v.Stale, Panic: v.Panicking, Unreadable: m.undecodable.Load(), Remarks: m.remarks.list(),
		},
	}
	if at, ever := m.state.LastContact(); ever {
		out.LastContact = at
	}
	at, err := m.state.LastError()
	if out.LastErrorAt = at; err != nil {
		out.LastError = err.Error()
	}
	out.DrainSince = m.drainSince
	if m.session != nil {
		out.Version = m.session.Version().Git
	}
	return out
}
