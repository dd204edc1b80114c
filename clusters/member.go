// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// Member is one member cluster: its session, its watches, its store, its health.
//
// Run is called once. All other methods may be called at any time from any
// goroutine; none blocks on the cluster.
type Member struct {
	name     string
	opts     *Options
	log      *slog.Logger
	identity *kube.Pin
	health   *health
	store    *store.Store
	decoder  *decode.Decoder
	feed     *feed
	protect  *protection
	native   *nativeObserver

	// respecified is sent to (without blocking) when spec has changed.
	respecified chan struct{}
	mu          sync.Mutex
	spec        sessionSpec
	session     *session // in use; nil before the first and after the end
	loops       *loops   // nil before the first session
}

// newMember returns a member that is not running.
func newMember(spec sessionSpec, opts *Options) *Member {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Member{
		name: spec.cluster.Name, opts: opts, log: log.With("cluster", spec.cluster.Name),
		spec: spec, respecified: make(chan struct{}, 1),
		identity: new(kube.Pin),
		decoder:  decode.NewDecoder(opts.Keep),
		store:    store.New(store.Options{Placement: spec.cluster.Place, Rules: rulesOf(spec)}),
	}
	if opts.Pinned != nil {
		m.identity = kube.NewPin(opts.Pinned(m.name))
	}
	m.health = newHealth(m.log, func() {
		m.native.judge()
		if opts.Changed != nil {
			opts.Changed(m.name)
		}
	})
	m.protect = newProtection(m)
	m.feed = newFeed(m)
	m.native = newNativeObserver(m)
	m.native.configure(spec.cluster.ObserveNative)
	m.health.note(func(f *facts) { f.refused = spec.access.Err })
	return m
}

func rulesOf(spec sessionSpec) syncer.Options {
	return syncer.Options{
		AllowedCIDRs:              spec.cluster.AllowedPrefixes(),
		TolerateUnreadyAnnotation: spec.cluster.TolerateUnreadyAnnotation,
	}
}

// Retries of the first connection, and of one that is to replace another.
const (
	connectRetry      = 200 * time.Millisecond
	connectRetryLimit = 5 * time.Second
)

// Run keeps the member until ctx ends. It returns when everything it started has
// ended.
func (m *Member) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer m.health.note(func(f *facts) { f.stopped = true })
	var clock sync.WaitGroup
	defer clock.Wait()
	defer cancel()
	clock.Go(func() { m.protect.run(ctx) })
	first := m.connect(ctx)
	if first == nil {
		return
	}
	m.mu.Lock()
	m.session, m.loops = first, newLoops(m, first)
	ls := m.loops
	m.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() { ls.run(ctx) })
	m.native.exchange(first, false)
	running.Go(func() { m.native.run(ctx) })
	running.Go(func() { m.prober().Run(ctx) })
	m.keepConnected(ctx)
	running.Wait()
	m.mu.Lock()
	last := m.session
	m.session = nil
	m.mu.Unlock()
	last.Release()
}

// connect tries until there is a first session, or ctx ends: then nil.
func (m *Member) connect(ctx context.Context) *session {
	retry := kube.NewBackoff(connectRetry, connectRetryLimit)
	for ctx.Err() == nil {
		s, err := m.open(ctx, m.currentSpec())
		if err == nil {
			m.health.heard(time.Now())
			m.health.note(func(f *facts) { f.connected, f.connect = true, nil })
			m.log.Info("connected to cluster", "server", s.Host(), "version", s.Version().Git, "identity", m.identity.Known())
			return s
		}
		if ctx.Err() != nil {
			return nil
		}
		m.health.note(func(f *facts) { f.connect = err })
		select {
		case <-ctx.Done():
		case <-m.respecified:
			retry.Reset()
		case <-time.After(retry.Next()):
		}
	}
	return nil
}

func (m *Member) currentSpec() sessionSpec {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spec
}

// setSpec takes in an edited configuration. What is taken from the member
// changes at once; another way to reach it is used once it has proven itself.
func (m *Member) setSpec(spec sessionSpec) {
	m.mu.Lock()
	former := m.spec
	m.spec = spec
	m.mu.Unlock()
	signal(m.respecified)
	m.health.note(func(f *facts) { f.refused = spec.access.Err })
	m.protect.configure(spec.cluster)
	cause := metrics.Cause{Cluster: m.name, Kind: "Config", Event: "config", Arrival: time.Now()}
	m.feed.bulk(m.store.SetPlacement(spec.cluster.Place), cause)
	if !reflect.DeepEqual(rulesOf(former), rulesOf(spec)) {
		m.feed.bulk(m.store.SetRules(rulesOf(spec)), cause)
	}
	m.feed.servicesChanged()
	m.native.configure(spec.cluster.ObserveNative)
}

// keepConnected exchanges the session whenever the configuration leads elsewhere, until
// ctx ends.
func (m *Member) keepConnected(ctx context.Context) {
	retry := kube.NewBackoff(connectRetry, connectRetryLimit)
	for {
		var again <-chan time.Time
		if !m.reconnect(ctx) {
			again = time.After(retry.Next())
		}
		select {
		case <-ctx.Done():
			return
		case <-m.respecified:
			retry.Reset()
		case <-again:
		}
	}
}

// reconnect goes over to the configured session if the one in use does not lead there.
// The former serves until the new one has proven itself and every watch has been opened
// through it. It reports whether the member is reached as configured.
func (m *Member) reconnect(ctx context.Context) bool {
	m.mu.Lock()
	spec, former := m.spec, m.session
	m.mu.Unlock()
	if !spec.leadsElsewhere(former.spec) {
		m.health.note(func(f *facts) { f.access = nil })
		return true
	}
	s, err := m.open(ctx, spec)
	if ctx.Err() != nil {
		if err == nil {
			s.Release()
		}
		return true
	}
	m.health.note(func(f *facts) { f.access = err })
	if err != nil {
		return false
	}
	m.mu.Lock()
	m.session = s
	m.mu.Unlock()
	relist := spec.namespace() != former.spec.namespace() || !s.Identified() && s.Host() != former.Host()
	m.loops.exchange(s, relist)
	m.native.exchange(s, relist)
	former.Release()
	m.log.Info("cluster is reached anew", "server", s.Host(), "version", s.Version().Git)
	return true
}

// prober asks the member whether it is there, itself, and where it was.
func (m *Member) prober() *kube.Prober {
	return &kube.Prober{
		Session: func() *kube.Session {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.session.Hold()
			return m.session.Session
		},
		Followed: []kube.Followed{{Resource: kube.Services, Loop: m.loops.services}, {Resource: kube.Pods, Loop: m.loops.pods}},
		Probed: func(err error) {
			now := time.Now()
			if err == nil {
				m.health.heard(now)
			}
			m.health.note(func(f *facts) {
				if f.probe != nil && err == nil {
					f.answered = now
				}
				f.probe = err
			})
		},
		Recovered: func() { m.each(looper.RetryNow) },
		WentBack: func(err error) {
			m.health.note(func(f *facts) { f.wentBack(err) })
			m.each(looper.WentBack)
		},
	}
}

// Relist asks for complete lists of everything.
func (m *Member) Relist() {
	m.mu.Lock()
	ls := m.loops
	m.mu.Unlock()
	if ls != nil {
		m.each(looper.Relist)
	}
}

// each calls what every loop of a member has that was reached once.
func (m *Member) each(call func(looper)) {
	m.loops.each(call)
	m.native.each(call)
}
