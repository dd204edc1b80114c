// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/syncer"
)

// Options are what all members have in common. All must be set.
type Options struct {
	// Dirty is told which replicas to compare. It is called by the goroutines of members, at once
	// or one after another, and holds them up while it lasts. No lock of theirs is held. bulk:
	// nobody waits for a single one of them.
	Dirty func(member string, changes []member.Change, bulk bool)
	// Listed is told, likewise, that a member has come to be listed.
	Listed func()
	// Published returns what stands of a member in the ingress cluster, once that has been
	// listed; it ends with its context.
	Published func(ctx context.Context, member string) []member.PublishedShare
	// Identity is the UID by which a member is on record; empty: it is not.
	Identity func(member string) string
	// Learned is told by what a member is known, each time it is connected.
	Learned func(member, uid string)
	// Wrap observes a member's requests.
	Wrap func(member string) func(http.RoundTripper) http.RoundTripper
	// NativeLag is told how far a member's own controllers were behind.
	NativeLag func(member string, lag time.Duration)
	// Version of the product, for the User-Agent.
	Version string
	Logger  *slog.Logger
}

// Set is the members that the configuration names. They run from when they are applied until
// Run, which is called once, ends them; all else may be called at any time, from any goroutine,
// and waits for no cluster.
type Set struct {
	options Options
	members atomic.Pointer[[]*Member] // sorted by name; replaced, never changed

	mu    sync.Mutex
	ctx   context.Context // of all members
	end   context.CancelFunc
	tasks sync.WaitGroup
}

// NewSet returns a set without members.
func NewSet(options Options) *Set {
	s := &Set{options: options}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.members.Store(new([]*Member))
	return s
}

// Apply makes the members those of the settings. One that is not among them is gone from
// every view when Apply returns, and ends some time later. One that is goes on, unless other
// objects of it are to be read: then another takes its place, which knows its identity.
func (s *Set) Apply(all []Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := map[string]*Member{}
	for _, m := range s.all() {
		former[m.name] = m
	}
	var members []*Member
	for _, settings := range all {
		m := former[settings.Cluster.Name]
		switch {
		case m == nil:
			m = newMember(s.ctx, &s.options, settings, s.options.Identity(settings.Cluster.Name))
		case m.settings.reading() == settings.reading():
			m.apply(settings)
		default:
			m = newMember(s.ctx, &s.options, settings, cmp.Or(m.pin.Known(), s.options.Identity(m.name)))
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b *Member) int { return strings.Compare(a.name, b.name) })
	s.replace(members)
}

// replace makes the members those that are given. The caller holds mu.
func (s *Set) replace(members []*Member) {
	former := s.all()
	s.members.Store(&members)
	for _, m := range former {
		if !slices.Contains(members, m) {
			m.stop()
		}
	}
	for _, m := range members {
		if !slices.Contains(former, m) && s.ctx.Err() == nil {
			s.tasks.Go(m.run)
		}
	}
}

// Run lets the members run until ctx ends, and returns when all have ended.
func (s *Set) Run(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock()
	s.end() // nobody is started from here on
	s.mu.Unlock()
	s.tasks.Wait()
}

func (s *Set) all() []*Member { return *s.members.Load() }

// MemberShare is what one member gives to a replica. Its Keep may be called at any time.
type MemberShare struct {
	Member string
	member.Share
}

// Give returns what each member gives to a replica, by name of the member.
func (s *Set) Give(replica syncer.Key) []MemberShare {
	return each(s, func(m *Member) MemberShare { return MemberShare{m.name, m.give(replica)} })
}

// each is something of each member, by name of the member.
func each[T any](s *Set, of func(*Member) T) []T {
	all := s.all()
	out := make([]T, len(all))
	for i, m := range all {
		out[i] = of(m)
	}
	return out
}

// Replicas are those that the members give anything to, sorted.
func (s *Set) Replicas() (keys []syncer.Key) {
	for _, m := range s.all() {
		m.mu.Lock()
		keys = slices.AppendSeq(keys, m.state.Tables().Replicas())
		m.mu.Unlock()
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	return slices.Compact(keys)
}

// AllListed reports whether every member has been listed.
func (s *Set) AllListed() bool {
	return !slices.ContainsFunc(s.all(), func(m *Member) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !m.state.Listed()
	})
}

// Lead says that this process begins to write. In place of members that are not followed at this
// moment others begin anew.
func (s *Set) Lead() {
	s.anew(func(m *Member) (uid string, is bool) { return m.pin.Known(), !m.lead() })
}

// Recorded says that the identity of a member on record is another one: if the member is
// followed as another cluster, one that starts anew takes its place (T4).
func (s *Set) Recorded(name string) {
	s.anew(func(m *Member) (uid string, is bool) {
		uid = s.options.Identity(m.name)
		return uid, m.name == name && uid != m.pin.Known()
	})
}

// anew has others that are known by a UID take the place of some members.
func (s *Set) anew(which func(*Member) (uid string, is bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.all())
	for i, m := range all {
		if uid, is := which(m); is {
			all[i] = newMember(s.ctx, &s.options, m.settings, uid)
		}
	}
	s.replace(all)
}
