// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/syncer"
)

// Set is the members that the configuration names. Apply and Run are for one
// goroutine each; everything else may be called at any time from any goroutine
// and, but for Lead, blocks on no cluster.
type Set struct {
	opts Options

	// applied is replaced, never changed.
	applied atomic.Pointer[applied]

	// departed are, by member that was removed, the addresses that stood of it though they were
	// seen to go: nobody had written that yet. It is guarded by edits.
	departed map[string]map[syncer.Key][]netip.Addr

	// edits is held while members take in another configuration, and for reading by who
	// asks several for their shares: nobody sees half of an edit.
	edits sync.RWMutex

	mu      sync.Mutex
	running map[string]*runningMember
	ctx     context.Context // of Run; nil before it and after
	ended   bool            // Run has returned or is about to
	tasks   sync.WaitGroup
}

// applied is a configuration that was applied, nil before the first, and its members by name.
type applied struct {
	loaded  *config.Loaded
	members []*Member
}

// runningMember is a member and the end of its life.
type runningMember struct {
	*Member
	cancel context.CancelFunc // nil until it runs
}

// NewSet returns a set without members.
func NewSet(o Options) *Set {
	s := &Set{opts: o, running: map[string]*runningMember{}, departed: map[string]map[syncer.Key][]netip.Addr{}}
	s.opts.peers = s
	s.applied.Store(&applied{})
	return s
}

// Apply makes the members those of the configuration. What is removed is gone
// from every view when Apply returns, and has ended some time later; what is
// reached differently goes on as it was until the new way has proven itself. Gather and
// Peek see all of it or nothing; neither may be called by what Apply tells of changes. It
// names the members that were removed, sorted.
func (s *Set) Apply(loaded *config.Loaded) (removed []string) {
	s.edits.Lock()
	defer s.edits.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	differ := s.differing(loaded)
	removed = s.remove(loaded)
	for _, c := range loaded.Config.Clusters {
		t := sessionSpec{cluster: c, access: loaded.Members[c.Name]}
		member, exists := s.running[c.Name]
		if !exists {
			s.add(t)
		} else if differ[c.Name] {
			member.setSpec(t)
		}
	}
	s.publish(loaded)
	return removed
}

// remove ends the members that the configuration does not name. They are gone from
// every view before they, or those that stay, tell of a change: whoever looks then
// would take one that leaves for one that is there. The caller holds mu.
func (s *Set) remove(loaded *config.Loaded) (removed []string) {
	wanted := map[string]bool{}
	for _, c := range loaded.Config.Clusters {
		wanted[c.Name] = true
	}
	var ends []context.CancelFunc
	for name, member := range s.running {
		if wanted[name] {
			continue
		}
		removed = append(removed, name)
		s.departed[name] = member.departed()
		delete(s.running, name)
		if member.cancel != nil {
			ends = append(ends, member.cancel)
		}
	}
	s.publish(s.Loaded())
	for _, end := range ends {
		end()
	}
	slices.Sort(removed)
	return removed
}

// differing are the members about which anything is not as it was.
func (s *Set) differing(loaded *config.Loaded) map[string]bool {
	differ := map[string]bool{}
	former := s.Loaded()
	if former == nil {
		return differ
	}
	d := config.Compare(former, loaded)
	for _, name := range slices.Concat(d.Changed, d.Reconnect, d.Refused) {
		differ[name] = true
	}
	for name, access := range loaded.Members {
		if (former.Members[name].Err == nil) != (access.Err == nil) {
			differ[name] = true // mended, and the same as before
		}
	}
	return differ
}

func (s *Set) add(spec sessionSpec) {
	member := &runningMember{Member: newMember(spec, &s.opts)}
	s.running[spec.cluster.Name] = member
	delete(s.departed, spec.cluster.Name)
	s.start(member)
}

// start runs a member if the set runs and it does not yet. The caller holds mu.
func (s *Set) start(member *runningMember) {
	if s.ctx == nil || s.ended || member.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	member.cancel = cancel
	s.tasks.Go(func() {
		defer cancel()
		member.Run(ctx)
	})
}

// publish makes a configuration and the members visible. The caller holds mu.
func (s *Set) publish(loaded *config.Loaded) {
	members := make([]*Member, 0, len(s.running))
	for _, member := range s.running {
		members = append(members, member.Member)
	}
	slices.SortFunc(members, func(a, b *Member) int { return strings.Compare(a.name, b.name) })
	s.applied.Store(&applied{loaded, members})
}

// Run runs the members until ctx ends, and those that Apply adds meanwhile. It
// returns when all have ended. It is called once.
func (s *Set) Run(ctx context.Context) {
	s.mu.Lock()
	s.ctx = ctx
	for _, member := range s.running {
		s.start(member)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.tasks.Wait()
}

// Relist asks a member for complete lists, or with an empty name all of them. It
// reports whether there was one to ask.
func (s *Set) Relist(cluster string) bool {
	asked := false
	for _, m := range s.applied.Load().members {
		if cluster == "" || cluster == m.name {
			m.Relist()
			asked = true
		}
	}
	return asked
}

// Lead says that this process is about to write to the ingress cluster. standing tells what
// stands there of a member. One that is not followed at this moment, or does not answer
// within answerLimit, begins anew: who wrote until now may have seen what this process did
// not, so that what stands is better than what it knows, but for what it has seen to go.
// former is until when another may have written; zero: nobody else has. It names those.
func (s *Set) Lead(former time.Time, standing func(cluster string) map[syncer.Key]Standing) (anew []string) {
	if !former.IsZero() {
		anew = s.beginAnew(former.Add(-unwritten), s.mute())
	}
	s.takeOver(standing)
	return anew
}

// unwritten is how long it takes at most to write what was seen: what this process saw later
// than that before another ceased to lead may be as it was in the ingress cluster for that.
const unwritten = 5 * time.Second

// answerLimit bounds the question to members before this process writes: a hand-over is to
// take less than a second.
const answerLimit = 500 * time.Millisecond

// mute are the members that do not answer now. A way to one that hangs is noticed after
// seconds otherwise, in which another process may have seen and written more.
func (s *Set) mute() map[*Member]bool {
	members := s.applied.Load().members
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	answers := make([]bool, len(members))
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() { answers[i] = m.answers(ctx) })
	}
	asking.Wait()
	mute := map[*Member]bool{}
	for i, m := range members {
		mute[m] = !answers[i]
	}
	return mute
}

// beginAnew replaces the members that are not followed or mute. What has been seen since a
// moment may not have been written. It names them, sorted.
func (s *Set) beginAnew(since time.Time, mute map[*Member]bool) (names []string) {
	next := s.renew(since, mute)
	for _, member := range next {
		member.baseline() // with no lock held, and before the first list
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, member := range next {
		if names = append(names, name); s.running[name] == member {
			s.start(member)
		}
	}
	slices.Sort(names)
	return names
}

// renew puts members in the place of those that are not followed or mute, and ends these.
func (s *Set) renew(since time.Time, mute map[*Member]bool) map[string]*runningMember {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string]*runningMember{}
	for name, former := range s.running {
		if former.isBlind() || mute[former.Member] && former.synced() {
			next[name] = &runningMember{Member: former.again(since)}
			if s.running[name] = next[name]; former.cancel != nil {
				defer former.cancel()
			}
		}
	}
	s.publish(s.Loaded())
	return next
}

// takeOver tells members that something is kept of what stands of them.
func (s *Set) takeOver(standing func(cluster string) map[syncer.Key]Standing) {
	members := s.applied.Load().members
	if !slices.ContainsFunc(members, (*Member).keeps) {
		return
	}
	stands, served := map[string]map[syncer.Key]Standing{}, map[syncer.Key]bool{}
	for _, m := range members {
		stands[m.name] = standing(m.name)
		for replica, of := range stands[m.name] {
			served[replica] = served[replica] || len(of.Endpoints) > 0
		}
	}
	for _, m := range members {
		m.step(evidence.Leading{Replicas: stands[m.name], Served: served}, time.Now())
	}
}

// Release lets go of what is kept for a member although it seems to have lost
// it: for one replica, or with nil for all of them; then a panic and a quarantine end
// too. ok is false if there is no such member.
func (s *Set) Release(cluster string, replica *syncer.Key) (out Released, ok bool) {
	for _, m := range s.applied.Load().members {
		if m.name == cluster {
			return m.release(replica), true
		}
	}
	return Released{}, false
}

func (m *Member) release(replica *syncer.Key) Released {
	out := m.step(evidence.Release{Replica: replica}, time.Now())
	of := "all"
	if replica != nil {
		of = replica.String()
	}
	m.log.Warn("what was kept for cluster is released by hand", "pods", out.Pods, "services", out.Services,
		"manual", out.Manual, "standing", out.Standing, "notReady", out.NotReady, "ruled", out.Ruled, "replica", of)
	return out
}
