// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/syncer"
)

// tickEvery is how often a member is told the time at least.
const tickEvery = 10 * time.Second

// Member is one member cluster: its state, behind one lock, and what runs for it.
type Member struct {
	name    string
	options *Options
	log     *slog.Logger
	streams *streams
	askers  *askers
	access  *kube.Access
	pin     *kube.Pin

	stop context.CancelFunc
	ctx  context.Context // ends with stop

	// work, stands and rotated have a signal while something is left to do.
	work, stands, rotated chan struct{}

	mu       sync.Mutex // of all below
	state    *member.State
	settings Settings
	reader   *reader
	wake     time.Time
	health   health
	native   *observer // nil: nobody observes
}

func newMember(options *Options, s *Settings) *Member {
	m := &Member{name: s.Cluster.Name, options: options, log: options.Logger.With("cluster", s.Cluster.Name),
		work: make(chan struct{}, 1), stands: make(chan struct{}, 1), rotated: make(chan struct{}, 1),
		settings: *s, reader: s.reader(nil)}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.streams = &streams{member: m, running: map[member.Scope]*stream{}}
	m.askers = newAskers(m.ask)
	m.pin = kube.NewPin(m.onRecord())
	m.access = kube.NewAccess(m.open)
	m.state = member.New(time.Now(), s.config(m.reader.rules))
	m.lockedNote()
	return m
}

// run follows the member until it ends, or ctx does.
func (m *Member) run(ctx context.Context) {
	defer context.AfterFunc(ctx, m.stop)()
	var tasks sync.WaitGroup
	tasks.Go(func() { m.askers.run(m.ctx) })
	tasks.Go(m.lookUpStanding)
	tasks.Go(m.rotate)
	defer func() {
		m.streams.reconcile(nil)
		m.observer().end()
		tasks.Wait()
		m.access.Close()
	}()
	timer := time.NewTimer(tickEvery)
	defer timer.Stop()
	for {
		m.streams.reconcile(m.scopes())
		m.observe()
		timer.Reset(m.untilWake())
		select {
		case <-m.ctx.Done():
			return
		case <-timer.C:
			m.tick()
		case <-m.work:
		}
	}
}

// end ends the member.
func (m *Member) end() { m.stop() }

// untilWake is how long there is nothing to do unless somebody signals work.
func (m *Member) untilWake() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wake.IsZero() {
		return tickEvery
	}
	return min(max(0, time.Until(m.wake)), tickEvery)
}

// tick tells the state the time, and how far the member's clock is off.
func (m *Member) tick() {
	var ahead time.Duration
	if session := m.access.Current(); session != nil {
		ahead = session.ClockOffset()
	}
	m.step(member.Tick{Ahead: ahead})
}

// step takes an event into the state and has carried out what comes of it. It may be called
// from any goroutine.
func (m *Member) step(e member.Event) {
	m.mu.Lock()
	effects := m.state.Step(time.Now(), e)
	due := !m.state.Wake().Equal(m.wake)
	m.wake = m.state.Wake()
	if turns(e) {
		m.lockedNote()
	}
	m.mu.Unlock()
	m.carryOut(&effects)
	if due {
		signal(m.work)
	}
}

// carryOut does what a step asks for. No lock is held.
func (m *Member) carryOut(e *member.Effects) {
	if len(e.Dirty) > 0 {
		m.options.Sink.Dirty(m.name, e.Dirty, e.Bulk)
		m.observer().touch(e.Dirty)
	}
	m.askers.add(e.Ask)
	if e.WantStanding {
		signal(m.stands)
	}
	if e.Follow || e.Restart || len(e.Relist) > 0 {
		m.streams.want(e.Relist, e.Restart)
		signal(m.work)
	}
}

// signal is sent once until it is taken.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lookUpStanding tells the state what stands of the member, whenever it asks.
func (m *Member) lookUpStanding() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.stands:
		}
		if standing := m.options.Standing(m.ctx, m.name); m.ctx.Err() == nil {
			m.step(member.Stood{Replicas: standing})
		}
	}
}

// give returns what the member gives to a replica.
func (m *Member) give(replica syncer.Key) member.Share {
	m.mu.Lock()
	defer m.mu.Unlock()
	share := m.state.Give(replica)
	if wake := m.state.Wake(); wake != m.wake {
		m.wake = wake
		signal(m.work)
	}
	if keep := share.Keep; keep != nil {
		share.Keep = func(e syncer.Endpoint) (syncer.Endpoint, bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return keep(e)
		}
	}
	return share
}

func (m *Member) scopes() []member.Scope {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Scopes()
}

func (m *Member) reading() *reader {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reader
}

func (m *Member) observer() *observer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.native
}

// apply goes over to other settings.
func (m *Member) apply(s *Settings) {
	m.mu.Lock()
	former := m.settings
	m.settings = *s
	rotated := former.Access.Hash != s.Access.Hash && s.Access.REST != nil
	changed := former.text() != s.text()
	if former.Rules.ID() != s.Rules.ID() || former.reading() != s.reading() {
		m.reader = s.reader(m.reader)
	}
	config := s.config(m.reader.rules)
	m.mu.Unlock()
	if changed {
		m.step(member.Configured{Config: config})
		signal(m.work)
	}
	if rotated {
		signal(m.rotated)
	}
}
