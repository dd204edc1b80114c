// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/native"
	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// tickEvery is how often a member is told the time.
const tickEvery = 250 * time.Millisecond

// Member is one member cluster: its state, behind one lock, and what runs for it. What steps of
// the state ask for is collected under the lock, and started by the loop in run.
type Member struct {
	name    string
	options *Options
	log     *slog.Logger
	access  *kube.Access
	pin     *kube.Pin
	native  *native.Observer // nil: nobody observes

	stop  context.CancelFunc
	ctx   context.Context // ends with stop
	tasks sync.WaitGroup
	// work has a signal while there is something to start, published while what is published of
	// the member has to be read.
	work, published chan struct{}

	mu       sync.Mutex // of all below
	state    *member.State
	settings Settings
	decoder  *decode.Decoder
	noted    metrics.ClusterStatus // without what status takes from the others
	asks     []member.Question     // that steps have asked for and are not started
}

// newMember returns a member with a UID; empty: it is not known yet. It ends with ctx.
func newMember(ctx context.Context, options *Options, s Settings, uid string) *Member {
	m := &Member{name: s.Cluster.Name, options: options, log: options.Logger.With("cluster", s.Cluster.Name),
		pin: kube.NewPin(uid), work: make(chan struct{}, 1), published: make(chan struct{}, 1), settings: s, decoder: s.decoder(),
		noted: metrics.ClusterStatus{Name: s.Cluster.Name}}
	m.ctx, m.stop = context.WithCancel(ctx)
	m.access = kube.NewAccess(m.open)
	m.state = member.New(time.Now(), s.config())
	if s.Cluster.ObserveNative {
		m.native = native.NewObserver(s.Cluster.Namespaces.Plain(), m.byUpstream,
			func(lag time.Duration) { options.NativeLag(m.name, lag) })
	}
	m.lockedNote()
	return m
}

// run follows the member until it ends.
func (m *Member) run() {
	m.tasks.Go(func() { m.native.Run(m.ctx, m.access, m.failed) })
	m.tasks.Go(m.lookUp)
	streams := map[member.Scope]*stream{}
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for m.ctx.Err() == nil {
		m.begin(streams)
		select {
		case <-m.ctx.Done():
		case <-ticker.C:
			var ahead time.Duration
			if session := m.access.Current(); session != nil {
				ahead = session.ClockOffset()
			}
			m.step(member.Tick{Ahead: ahead})
		case <-m.work:
		}
	}
	m.access.Close()
	m.tasks.Wait()
}

// step applies an event to the state, reports the replicas that it dirties, and collects what is to
// be started. It may be called from any goroutine.
func (m *Member) step(e member.Event) {
	m.mu.Lock()
	effects := m.state.Step(time.Now(), e)
	m.asks = append(m.asks, effects.Ask...)
	listed := effects.ScopesChanged && m.lockedNote()
	m.mu.Unlock()
	if effects.ScopesChanged || len(effects.Ask) > 0 {
		signal(m.work)
	}
	if effects.WantPublished {
		signal(m.published)
	}
	if listed {
		m.options.Listed()
	}
	if len(effects.Dirty) > 0 {
		m.options.Dirty(m.name, effects.Dirty, effects.Bulk)
		for _, c := range effects.Dirty {
			m.native.Ours(c.Replica, c.Cause.Arrived)
		}
	}
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// lookUp tells the state what is published of the member, whenever it wants that.
func (m *Member) lookUp() {
	for m.ctx.Err() == nil {
		select {
		case <-m.ctx.Done():
		case <-m.published:
			if published := m.options.Published(m.ctx, m.name); m.ctx.Err() == nil {
				m.step(published)
			}
		}
	}
}

// share returns the member's share of a replica.
func (m *Member) share(replica syncer.Key) syncer.Share {
	m.mu.Lock()
	defer m.mu.Unlock()
	share := m.state.Give(replica)
	share.Member = m.name
	if keep := share.Keep; keep != nil {
		share.Keep = func(e syncer.Endpoint) (syncer.Endpoint, bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return keep(e)
		}
	}
	return share
}

// reading returns what objects are read with from now on.
func (m *Member) reading() (*decode.Decoder, *rules.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.decoder, m.settings.Rules
}

// apply switches to settings by which the member is read as before. Changes other than those of
// credentials go to the state.
func (m *Member) apply(s Settings) {
	m.mu.Lock()
	former := m.settings
	if former.Rules.ID() == s.Rules.ID() {
		s.Rules = former.Rules
	} else {
		m.decoder = s.decoder()
	}
	m.settings = s
	m.mu.Unlock()
	if former.Rules != s.Rules || former.Cluster.Settings() != s.Cluster.Settings() {
		m.step(member.Configured{Config: s.config()})
	}
	if former.Access.Hash != s.Access.Hash && s.Access.REST != nil {
		m.access.Renew()
	}
}

// open opens a session with the current credential.
func (m *Member) open(ctx context.Context) (*kube.Session, error) {
	m.mu.Lock()
	access := m.settings.Access
	m.mu.Unlock()
	if access.REST == nil {
		return nil, fmt.Errorf("there is no kubeconfig that can be used: %w", access.Err)
	}
	session, err := kube.Open(ctx, access.REST, kube.Options{Version: m.options.Version, Pin: m.pin, Wrap: m.options.Wrap(m.name)})
	if err != nil {
		m.failed(err)
		if m.access.Current() != nil && ctx.Err() == nil {
			m.log.Warn("the new credential of the cluster does not work; the former one stays in use", "error", err)
		}
		return nil, err
	}
	m.options.Learned(m.name, session.Identity())
	return session, nil
}

// byUpstream is what upstream's rules alone make of a Service; nil: it is not to be compared.
func (m *Member) byUpstream(service syncer.Key) *syncer.Contribution {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.ByUpstream(service)
}
