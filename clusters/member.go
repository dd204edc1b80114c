// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// Member is one member cluster: its link, its watches, its store, its health.
//
// Run is called once. All other methods may be called at any time from any
// goroutine; none blocks on the cluster.
type Member struct {
	name     string
	opts     *Options
	log      *slog.Logger
	identity identity
	health   *health
	store    *store.Store
	decoder  *store.Decoder
	feed     *feed
	protect  *protection
	native   *nativeObserver

	// retarget is sent to (without blocking) when target has changed.
	retarget chan struct{}
	mu       sync.Mutex
	target   target
	link     *link  // in use; nil before the first and after the end
	loops    *loops // nil before the first link
}

// newMember returns a member that is not running.
func newMember(t target, opts *Options) *Member {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Member{
		name: t.cluster.Name, opts: opts, log: log.With("cluster", t.cluster.Name),
		target: t, retarget: make(chan struct{}, 1),
		decoder: store.NewDecoder(opts.Keep),
		store:   store.New(store.Options{Placement: t.cluster.Place, Rules: rulesOf(t)}),
	}
	if opts.Pinned != nil {
		m.identity.uid = opts.Pinned(m.name)
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
	m.native.configure(t.cluster.ObserveNative)
	m.health.note(func(f *facts) { f.refused = t.access.Err })
	return m
}

func rulesOf(t target) syncer.Options {
	return syncer.Options{
		AllowedCIDRs:              t.cluster.AllowedPrefixes(),
		TolerateUnreadyAnnotation: t.cluster.TolerateUnreadyAnnotation,
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
	m.link, m.loops = first, newLoops(m, first)
	ls := m.loops
	m.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() { ls.run(ctx) })
	m.native.exchange(first, false)
	running.Go(func() { m.native.run(ctx) })
	m.attend(ctx)
	running.Wait()
	m.mu.Lock()
	last := m.link
	m.link = nil
	m.mu.Unlock()
	last.release()
}

// connect tries until there is a first link, or ctx ends: then nil.
func (m *Member) connect(ctx context.Context) *link {
	wait := connectRetry
	for ctx.Err() == nil {
		l, err := m.newLink(ctx, m.currentTarget())
		if err == nil {
			m.health.heard(time.Now())
			m.health.note(func(f *facts) { f.connected, f.connect = true, nil })
			m.log.Info("connected to cluster", "server", l.conn.Host(), "version", l.serverVersion().Git, "identity", m.identity.known())
			return l
		}
		if ctx.Err() != nil {
			return nil
		}
		m.health.note(func(f *facts) { f.connect = err })
		select {
		case <-ctx.Done():
		case <-m.retarget:
			wait = connectRetry
		case <-time.After(jitter(wait)):
			wait = min(2*wait, connectRetryLimit)
		}
	}
	return nil
}

// jitter spreads a wait over its upper half.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func (m *Member) currentTarget() target {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.target
}

// setTarget takes in an edited configuration. What is taken from the member
// changes at once; another way to reach it is used once it has proven itself.
func (m *Member) setTarget(t target) {
	m.mu.Lock()
	former := m.target
	m.target = t
	m.mu.Unlock()
	select {
	case m.retarget <- struct{}{}:
	default:
	}
	m.health.note(func(f *facts) { f.refused = t.access.Err })
	m.protect.configure(t.cluster)
	cause := metrics.Cause{Cluster: m.name, Kind: "Config", Event: "config", Arrival: time.Now()}
	m.feed.bulk(m.store.SetPlacement(t.cluster.Place), cause)
	if !reflect.DeepEqual(rulesOf(former), rulesOf(t)) {
		m.feed.bulk(m.store.SetRules(rulesOf(t)), cause)
	}
	m.feed.servicesChanged()
	m.native.configure(t.cluster.ObserveNative)
}

// attend probes the link and exchanges it, until ctx ends.
func (m *Member) attend(ctx context.Context) {
	p := newProber(m)
	next := time.NewTimer(jitter(probeEvery))
	defer next.Stop()
	retry := connectRetry
	var again <-chan time.Time // when to try the new target again
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			next.Reset(p.probe(ctx))
		case <-m.retarget:
			retry = connectRetry
			again = m.relink(ctx, retry)
		case <-again:
			retry = min(2*retry, connectRetryLimit)
			again = m.relink(ctx, retry)
		}
	}
}

// relink goes over to the target if the link in use does not lead there. The
// former link serves until the new one has proven itself and every watch has
// been opened through it. It returns when to try again; nil: not.
func (m *Member) relink(ctx context.Context, wait time.Duration) <-chan time.Time {
	m.mu.Lock()
	t, old := m.target, m.link
	m.mu.Unlock()
	if t.access.REST == nil || t.access.Hash == old.hash && t.scope() == old.scope {
		m.health.note(func(f *facts) { f.access = nil })
		return nil
	}
	l, err := m.newLink(ctx, t)
	if ctx.Err() != nil {
		if err == nil {
			l.release()
		}
		return nil
	}
	m.health.note(func(f *facts) { f.access = err })
	if err != nil {
		return time.After(jitter(wait))
	}
	m.mu.Lock()
	m.link = l
	m.mu.Unlock()
	afresh := l.scope != old.scope || m.identity.known() == "" && l.conn.Host() != old.conn.Host()
	m.loops.exchange(l, afresh)
	m.native.exchange(l, afresh)
	old.release()
	m.log.Info("cluster is reached anew", "server", l.conn.Host(), "version", l.serverVersion().Git)
	return nil
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
