// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Member is one member cluster: its session, its watches, and what they show.
//
// Run is called once. All other methods may be called at any time from any
// goroutine; none blocks on the cluster.
type Member struct {
	*intake
	name     string
	opts     *Options
	identity *kube.Pin
	reader   *kube.Reader
	manual   *manualWatches
	native   *nativeObserver
	// respecified is sent to (without blocking) when spec has changed.
	respecified chan struct{}
	// baselined is true once it was told what stands.
	baselined atomic.Bool
	gone      []evidence.Departed // what was seen to go before it began anew
	panicAt   time.Time           // when the panic began that it was in then; zero: none

	// Guarded by mu, the lock of the shell.

	spec       sessionSpec
	drainSince time.Time // zero: it is not to be drained
	session    *session  // in use; nil before the first and after the end
	loops      *loops    // nil before the first session
}

// newMember returns a member that is not running.
func newMember(spec sessionSpec, opts *Options) *Member {
	m := &Member{name: spec.cluster.Name, opts: opts, spec: spec, respecified: make(chan struct{}, 1), identity: new(kube.Pin)}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("cluster", m.name)
	decoder := decode.NewDecoder(opts.Keep)
	m.intake = &intake{
		shell:   newShell(evidenceConfig(spec), rand.Uint64(), m.carryOut, keeping(decoder)),
		traffic: &traffic{cluster: m.name, observer: opts.Observer, log: log},
		decoder: decoder, remarks: &remarks{log: log}, maxObjects: m.maxObjects,
		listing: m.baseline, listed: func() { m.native.lookAtAll() },
	}
	if opts.Pinned != nil {
		m.identity = kube.NewPin(opts.Pinned(m.name))
	}
	m.reader = kube.NewReader(m.hold)
	m.manual = newManualWatches(m.intake)
	m.native = newNativeObserver(m.intake, opts)
	m.native.configure(spec.cluster.ObserveNative)
	m.lockedDrain()
	return m
}

// again returns the member as it was before anything was known of it, but for its identity, and
// what it has lost for good, or since a moment.
func (m *Member) again(since time.Time) *Member {
	next := newMember(m.currentSpec(), m.opts) // with no lock held: it asks for what is on record
	m.mu.RLock()
	defer m.mu.RUnlock()
	next.identity, next.drainSince = m.identity, m.drainSince
	next.gone, next.panicAt = m.state.SeenGone(since), m.state.PanicAt()
	return next
}

// keeping tells a decoder what to keep for rules.
func keeping(d *decode.Decoder) func(wanted store.Decider, others []store.Decider) store.KeptSince {
	return func(wanted store.Decider, others []store.Decider) store.KeptSince {
		set, _ := wanted.(*rules.Set)
		sets := make([]*rules.Set, len(others))
		for i := range others {
			sets[i], _ = others[i].(*rules.Set)
		}
		return d.KeepFor(set, sets...)
	}
}

// evidenceConfig is what the configuration says about evidence.
func evidenceConfig(spec sessionSpec) evidence.Config {
	c := spec.cluster
	g := c.Guard
	out := evidence.Config{
		Limits: evidence.Limits{
			Lists: g.Enabled, MinEndpoints: g.MinEndpoints, Percent: g.Percent, ConfirmPercent: g.ConfirmPercent,
			ConfirmAfter: g.ConfirmAfter.Value(), PanicPercent: g.PanicPercent, HoldSilent: c.HoldSilentNodes.Value(),
		},
		StaleAfter: c.StaleAfter.Value(), MaxObjects: c.MaxObjects,
		Damping: func(svc *syncer.Service) (d evidence.Damping) {
			d.StableFor, d.KeepOne = c.Damping(svc)
			return d
		},
		Placement: c.Place, Follows: c.Namespaces.Match, Refused: spec.access.Err,
		Rules: syncer.Options{AllowedCIDRs: c.AllowedPrefixes(), TolerateUnreadyAnnotation: c.TolerateUnreadyAnnotation},
	}
	if set := c.PodRules(); set != nil {
		out.Decider = set
	}
	return out
}

// maxObjects is how many objects of a kind are taken; 0: any number.
func (m *Member) maxObjects() int { return m.currentSpec().cluster.MaxObjects }

// baseline tells, once, what stands of the member from before this process.
func (m *Member) baseline() {
	if m.opts.Standing == nil || m.synced() || m.baselined.Load() {
		return
	}
	if replicas := m.opts.Standing(m.name); replicas != nil && m.baselined.CompareAndSwap(false, true) {
		panicAt := m.panicAt
		if panicAt.IsZero() && m.opts.PanicAt != nil {
			panicAt = m.opts.PanicAt(m.name)
		}
		m.step(evidence.Baseline{Replicas: replicas, Gone: m.gone, PanicAt: panicAt}, time.Now())
	}
}

// departed are the addresses that stand of the member, by replica, though they were seen to go.
func (m *Member) departed() map[syncer.Key][]netip.Addr {
	if m.opts.Standing == nil {
		return nil
	}
	standing := m.opts.Standing(m.name)
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Lost(standing)
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
	clock.Go(func() { m.reader.Run(ctx) })
	first := m.connect(ctx)
	if first == nil {
		return
	}
	ls := newLoops(m.intake, first)
	m.mu.Lock()
	m.session, m.loops = first, ls
	m.mu.Unlock()
	m.manual.exchange(first)
	m.native.exchange(first)
	var running sync.WaitGroup
	running.Go(func() { ls.run(ctx) })
	running.Go(func() { m.manual.run(ctx) })
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
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.spec
}

// hold returns the session in use, which the caller releases; nil is none.
func (m *Member) hold() *kube.Session {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.session == nil {
		return nil
	}
	m.session.Hold()
	return m.session.Session
}

// answers reports whether the member answers over the session in use before ctx ends.
func (m *Member) answers(ctx context.Context) bool {
	session := m.hold()
	if session == nil {
		return false
	}
	defer session.Release()
	return session.Answers(ctx)
}

// setSpec takes in an edited configuration. What is taken from the member
// changes at once; another way to reach it is used once it has proven itself.
func (m *Member) setSpec(spec sessionSpec) {
	m.mu.Lock()
	m.spec = spec
	m.lockedDrain()
	m.mu.Unlock()
	signal(m.respecified)
	m.step(evidence.Configured{Config: evidenceConfig(spec)}, time.Now())
	m.native.configure(spec.cluster.ObserveNative)
}

// lockedDrain notes since when the member is to be drained. The caller holds mu.
func (m *Member) lockedDrain() {
	switch {
	case !m.spec.cluster.Drain:
		m.drainSince = time.Time{}
	case m.drainSince.IsZero():
		m.drainSince = time.Now()
	}
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
	m.mu.RLock()
	spec, former := m.spec, m.session
	m.mu.RUnlock()
	if !spec.leadsElsewhere(former.spec) {
		m.step(evidence.Reconnected{}, time.Now())
		return true
	}
	s, err := m.open(ctx, spec)
	if err == nil && !s.follows(former) {
		s.Release()
		err = errUnproven
	}
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
	m.mu.Lock()
	m.session = s
	m.mu.Unlock()
	rescoped := !slices.Equal(spec.namespaces(), former.spec.namespaces()) || !s.Identified() && s.Host() != former.Host()
	if rescoped {
		m.step(evidence.Rescoped{}, time.Now())
	}
	m.loops.exchange(s)
	m.manual.exchange(s)
	m.native.exchange(s)
	if rescoped {
		m.each(looper.Rewind)                   // it may show more or less, so that resuming is not enough
		m.step(evidence.Rescoped{}, time.Now()) // a list of the former session may have ended meanwhile
	}
	former.Release()
	m.log.Info("cluster is reached anew", "server", s.Host(), "version", s.Version().Git)
	return true
}

// prober asks the member whether it is there, itself, and where it was.
func (m *Member) prober() *kube.Prober {
	return &kube.Prober{
		Session:   m.hold,
		Followed:  []kube.Followed{{Resource: kube.Services, Loop: m.loops.services}, {Resource: kube.Pods, Loop: m.loops.pods}},
		Probed:    func(err error) { m.step(evidence.Probed{Fault: fault(err)}, time.Now()) },
		Recovered: func() { m.each(looper.RetryNow) },
		Heartbeat: m.opts.Heartbeats.Start("what asks cluster "+m.name, kube.ProbeBound),
		WentBack: func(err error) {
			m.step(evidence.Restored{Err: err}, time.Now())
			m.each(looper.WentBack)
		},
	}
}

// Relist asks for complete lists of everything.
func (m *Member) Relist() {
	if m.followed() != nil {
		m.each(looper.Relist)
	}
}

// followed are the member's watches; nil before it was reached.
func (m *Member) followed() *loops {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.loops
}

// each calls what every loop of a member has that was reached once.
func (m *Member) each(call func(looper)) {
	m.loops.each(call)
	m.manual.each(call)
	m.native.each(call)
}
