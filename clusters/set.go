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
	// Dirty is called with the replicas to compare, by the goroutines of members, also
	// concurrently, and blocks them while it runs. No lock of theirs is held. bulk: none of the
	// replicas is urgent.
	Dirty func(member string, changes []member.Change, bulk bool)
	// Listed is called, likewise, when a member has been listed.
	Listed func()
	// Published returns what is published of a member, once the ingress cluster has been
	// listed; it ends with its context.
	Published func(ctx context.Context, member string) member.Published
	// Identity returns the UID of a member that is on record; empty: none is.
	Identity func(member string) string
	// Learned is called with the UID of a member each time it is connected.
	Learned func(member, uid string)
	// Wrap observes a member's requests.
	Wrap func(member string) func(http.RoundTripper) http.RoundTripper
	// NativeLag is called with how far a member's own controllers were behind.
	NativeLag func(member string, lag time.Duration)
	// Version of the product, for the User-Agent.
	Version string
	Logger  *slog.Logger
}

// Set has the members of the configuration. They run from when they are applied until Run,
// which is called once, ends them; all else may be called at any time, from any goroutine, and
// waits for no cluster.
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

// Apply sets the members to those of the settings. One that is not among them is gone from
// every view when Apply returns, and ends some time later. One that is continues, unless other
// objects of it are to be read: then a new one with its identity replaces it.
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

// replace sets the members, and ends and starts what differs. The caller holds mu.
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
	s.end() // no member is started from here on
	s.mu.Unlock()
	s.tasks.Wait()
}

func (s *Set) all() []*Member { return *s.members.Load() }

// Give returns each member's share of a replica, by name of the member, without its place. Keep may be
// called at any time.
func (s *Set) Give(replica syncer.Key) []syncer.Share {
	return each(s, func(m *Member) syncer.Share { return m.share(replica) })
}

// each returns a value of each member, by name of the member.
func each[T any](s *Set, of func(*Member) T) []T {
	all := s.all()
	out := make([]T, len(all))
	for i, m := range all {
		out[i] = of(m)
	}
	return out
}

// Replicas are those that the members contribute to; one comes for each of these.
func (s *Set) Replicas() (keys []syncer.Key) {
	for _, m := range s.all() {
		m.mu.Lock()
		keys = slices.AppendSeq(keys, m.state.Tables().Replicas())
		m.mu.Unlock()
	}
	return keys
}

// AllListed reports whether every member has been listed.
func (s *Set) AllListed() bool {
	return !slices.ContainsFunc(s.all(), func(m *Member) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !m.state.Listed()
	})
}

// Lead is called when this process begins to write. Members that are not followed at this moment
// are replaced by ones that start anew: another process may have seen and written more (T5).
func (s *Set) Lead() {
	s.anew(func(m *Member) (uid string, is bool) {
		signal(m.published) // another process may have written since it was read
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.pin.Known(), !m.state.Followed()
	})
}

// Recorded is called when the identity of a member on record has changed: if the member is
// followed as another cluster, one that starts anew replaces it (T4).
func (s *Set) Recorded(name string) {
	s.anew(func(m *Member) (uid string, is bool) {
		uid = s.options.Identity(m.name)
		return uid, m.name == name && uid != m.pin.Known()
	})
}

// anew replaces some members by ones that start anew with a UID.
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
