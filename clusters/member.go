// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/syncer"
)

// Member is one member cluster: its session, its watches, and what they show.
//
// Run is called once. All other methods may be called at any time from any
// goroutine; none blocks on the cluster.
type Member struct {
	name     string
	opts     *Options
	log      *slog.Logger
	identity *kube.Pin
	decoder  *decode.Decoder
	native   *nativeObserver
	reads    *reads
	remarks  *remarks
	outbox   outbox
	// undecodable counts what the member sent and could not be used.
	undecodable atomic.Uint64
	// view is how the member stands, for those who must not wait.
	view atomic.Pointer[evidence.View]

	mu    sync.RWMutex // of state
	state *evidence.State

	// respecified and manualChanged are sent to (without blocking) when spec has
	// changed, and when the set of Services without selector has.
	respecified, manualChanged chan struct{}

	conn sync.Mutex // of all below
	// recalled is true once it was asked what stands.
	recalled bool
	spec     sessionSpec
	session  *session // in use; nil before the first and after the end
	loops    *loops   // nil before the first session
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
		identity:      new(kube.Pin),
		decoder:       decode.NewDecoder(opts.Keep),
		manualChanged: make(chan struct{}, 1),
		remarks:       newRemarks(log.With("cluster", spec.cluster.Name)),
		state:         evidence.New(time.Now(), evidenceConfig(spec), rand.Uint64()),
	}
	view := m.state.View()
	m.view.Store(&view)
	if opts.Pinned != nil {
		m.identity = kube.NewPin(opts.Pinned(m.name))
	}
	m.reads = newReads(m)
	m.native = newNativeObserver(m)
	m.native.configure(spec.cluster.ObserveNative)
	return m
}

// evidenceConfig is what the configuration says about evidence.
func evidenceConfig(spec sessionSpec) evidence.Config {
	c := spec.cluster
	g := c.Guard
	return evidence.Config{
		Limits: evidence.Limits{
			Lists: g.Enabled, MinEndpoints: g.MinEndpoints, Percent: g.Percent, ConfirmPercent: g.ConfirmPercent,
			ConfirmAfter: g.ConfirmAfter.Value(), PanicPercent: g.PanicPercent, HoldSilent: c.HoldSilentNodes.Value(),
		},
		StaleAfter: c.StaleAfter.Value(), MaxObjects: c.MaxObjects,
		Placement: c.Place, Follows: c.Namespaces.Match, Refused: spec.access.Err,
		Rules: syncer.Options{AllowedCIDRs: c.AllowedPrefixes(), TolerateUnreadyAnnotation: c.TolerateUnreadyAnnotation},
	}
}

// maxObjects is how many objects of a kind are taken; 0: any number.
func (m *Member) maxObjects() int { return m.currentSpec().cluster.MaxObjects }

// recall tells, once, what stands of the member from before this process.
func (m *Member) recall() {
	if m.opts.Standing == nil || m.view.Load().Synced {
		return
	}
	m.conn.Lock()
	var replicas map[syncer.Key]Standing
	if !m.recalled {
		replicas = m.opts.Standing(m.name)
		m.recalled = replicas != nil
	}
	m.conn.Unlock()
	if replicas != nil {
		m.step(evidence.Baseline{Replicas: replicas}, time.Now())
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
	defer func() { m.step(evidence.Stopped{}, time.Now()) }()
	var clock sync.WaitGroup
	defer clock.Wait()
	defer cancel()
	clock.Go(func() { m.tick(ctx) })
	clock.Go(func() { m.reads.run(ctx) })
	first := m.connect(ctx)
	if first == nil {
		return
	}
	m.conn.Lock()
	m.session, m.loops = first, newLoops(m, first)
	ls := m.loops
	m.conn.Unlock()
	var running sync.WaitGroup
	running.Go(func() { ls.run(ctx) })
	m.native.exchange(first, false)
	running.Go(func() { m.native.run(ctx) })
	running.Go(func() { m.prober().Run(ctx) })
	m.keepConnected(ctx)
	running.Wait()
	m.conn.Lock()
	last := m.session
	m.session = nil
	m.conn.Unlock()
	last.Release()
}

// connect tries until there is a first session, or ctx ends: then nil.
func (m *Member) connect(ctx context.Context) *session {
	retry := kube.NewBackoff(connectRetry, connectRetryLimit)
	for ctx.Err() == nil {
		s, err := m.open(ctx, m.currentSpec())
		if err == nil {
			m.step(evidence.Connected{}, time.Now())
			m.log.Info("connected to cluster", "server", s.Host(), "version", s.Version().Git, "identity", m.identity.Known())
			return s
		}
		if ctx.Err() != nil {
			return nil
		}
		m.step(evidence.Connected{Fault: fault(err)}, time.Now())
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
	m.conn.Lock()
	defer m.conn.Unlock()
	return m.spec
}

// setSpec takes in an edited configuration. What is taken from the member
// changes at once; another way to reach it is used once it has proven itself.
func (m *Member) setSpec(spec sessionSpec) {
	m.conn.Lock()
	m.spec = spec
	m.conn.Unlock()
	signal(m.respecified)
	m.step(evidence.Configured{Config: evidenceConfig(spec)}, time.Now())
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
	m.conn.Lock()
	spec, former := m.spec, m.session
	m.conn.Unlock()
	if !spec.leadsElsewhere(former.spec) {
		m.step(evidence.Reconnected{}, time.Now())
		return true
	}
	s, err := m.open(ctx, spec)
	if ctx.Err() != nil {
		if err == nil {
			s.Release()
		}
		return true
	}
	m.step(evidence.Reconnected{Fault: fault(err)}, time.Now())
	if err != nil {
		return false
	}
	m.conn.Lock()
	m.session = s
	m.conn.Unlock()
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
			m.conn.Lock()
			defer m.conn.Unlock()
			m.session.Hold()
			return m.session.Session
		},
		Followed:  []kube.Followed{{Resource: kube.Services, Loop: m.loops.services}, {Resource: kube.Pods, Loop: m.loops.pods}},
		Probed:    func(err error) { m.step(evidence.Probed{Fault: fault(err)}, time.Now()) },
		Recovered: func() { m.each(looper.RetryNow) },
		WentBack: func(err error) {
			m.step(evidence.Restored{Err: err}, time.Now())
			m.each(looper.WentBack)
		},
	}
}

// Relist asks for complete lists of everything.
func (m *Member) Relist() {
	m.conn.Lock()
	ls := m.loops
	m.conn.Unlock()
	if ls != nil {
		m.each(looper.Relist)
	}
}

// each calls what every loop of a member has that was reached once.
func (m *Member) each(call func(looper)) {
	m.loops.each(call)
	m.native.each(call)
}
