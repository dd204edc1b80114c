// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/sinks/ledger"
	"tributary.dev/tributary/reconcile/sinks/state"
	"tributary.dev/tributary/syncer"
)

// Options set up a Set.
type Options struct {
	// Instance is the name of the installation, Version that of the product.
	Instance, Version string
	// Observe is told about each request; it must not wait. nil: nobody is.
	Observe func(sink, result string, took time.Duration)
	// Removed is told of a sink that left the configuration; nil: nobody is.
	Removed func(sink string)
	// Logger; nil: nothing is logged.
	Logger *slog.Logger
}

// Set are the sinks of an installation. All methods are safe for concurrent use; Run must
// not run twice at once.
type Set struct {
	opts Options
	// sinks are read by whoever tells; changing is held while they are changed, and while a
	// term begins or ends.
	sinks    atomic.Pointer[[]*sink]
	changing sync.Mutex
	// Guarded by changing: the term that runs, nil out of one; and what ends each sink in it.
	term    *Term
	ctx     context.Context //nolint:containedctx // that of the term
	running map[*sink]running
	// poster makes what sends the batches of a sink.
	poster func(Spec, Term) poster
}

// running is a sink in a term: what ends it, and what is closed when it has ended.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Term is what a Set needs while this process leads.
type Term struct {
	// Where is where what is acknowledged is kept; Sink is set by the Set.
	Where state.Where
	// Hold binds a context to the right to write: it is done when that ends. free must be
	// called afterwards; held is false where there is no such right.
	Hold func(context.Context) (bound context.Context, free func(), held bool)
	// Dial connects to receivers; nil: plainly.
	Dial Dial
	// Look asks for a replica to be looked at, and told of. It must not wait.
	Look func(replica syncer.Key)
}

// New returns a Set without sinks.
func New(o Options) *Set {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(string, string, time.Duration) {}
	}
	if o.Removed == nil {
		o.Removed = func(string) {}
	}
	s := &Set{opts: o, running: map[*sink]running{}}
	s.poster = func(spec Spec, t Term) poster {
		return &client{url: spec.URL, agent: "tributary/" + o.Version, auth: spec.Auth, dial: t.Dial}
	}
	s.sinks.Store(&[]*sink{})
	return s
}

// Configure makes the sinks what they are to be. Those that change are stopped, which may take
// some seconds for all of them together, and go on with what their receivers acknowledged, at
// the pace that the receivers asked for. It reports whether there is a new one, or one that
// has changed: these know nothing until every replica was told again.
func (s *Set) Configure(specs []Spec) (tellAll bool) {
	s.changing.Lock()
	defer s.changing.Unlock()
	former := *s.sinks.Load()
	s.lockedStop(slices.DeleteFunc(slices.Clone(former), func(f *sink) bool {
		return slices.ContainsFunc(specs, func(spec Spec) bool { return spec.Name == f.spec.Name && spec.Config == f.spec.Config })
	}))
	next := make([]*sink, 0, len(specs))
	var added []*sink
	for _, spec := range specs {
		at := slices.IndexFunc(former, func(f *sink) bool { return f.spec.Name == spec.Name })
		if at >= 0 && former[at].spec.Config == spec.Config {
			next = append(next, former[at])
			continue
		}
		one := newSink(spec, "/tributary/"+s.opts.Instance, &s.opts)
		if at >= 0 && former[at].spec.URL == spec.URL {
			one.memory, one.pace = former[at].memory, former[at].pace
		}
		next, added = append(next, one), append(added, one)
		s.opts.Logger.Info("sink configured", "sink", spec.Name, "changed", at >= 0)
	}
	for _, f := range former {
		if !slices.ContainsFunc(next, func(n *sink) bool { return n.spec.Name == f.spec.Name }) {
			s.opts.Removed(f.spec.Name)
			s.opts.Logger.Info("sink removed from the configuration", "sink", f.spec.Name)
		}
	}
	s.sinks.Store(&next)
	for _, one := range added {
		s.lockedStart(one)
	}
	return len(added) > 0
}

func (s *Set) lockedStart(one *sink) {
	if s.term == nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	s.running[one] = running{cancel, done}
	t := *s.term
	go func() {
		defer close(done)
		one.run(ctx, t, s.poster(one.spec, t))
	}()
}

// lockedStop stops sinks: each may take a while, and all of them no longer.
func (s *Set) lockedStop(sinks []*sink) {
	for _, one := range sinks {
		if is, runs := s.running[one]; runs {
			is.cancel()
		}
	}
	for _, one := range sinks {
		if is, runs := s.running[one]; runs {
			<-is.done
			delete(s.running, one)
		}
	}
}

// Run tells the receivers until ctx is done, and returns when nothing is told any more.
func (s *Set) Run(ctx context.Context, t Term) {
	s.changing.Lock()
	s.term, s.ctx = &t, ctx
	for _, one := range *s.sinks.Load() {
		s.lockedStart(one)
	}
	s.changing.Unlock()
	<-ctx.Done()
	s.changing.Lock()
	defer s.changing.Unlock()
	s.lockedStop(slices.Collect(maps.Keys(s.running)))
	s.term, s.ctx = nil, nil
}

// Tell takes what a replica is to be; nil: nobody wants it. It waits for nothing.
func (s *Set) Tell(key syncer.Key, replica *plan.Desired) {
	sinks := *s.sinks.Load()
	if len(sinks) == 0 {
		return
	}
	now := time.Now()
	var service *ledger.Service
	for _, one := range sinks {
		if replica == nil || !one.spec.Selects(key, replica.Service.Labels) {
			one.tell(key, nil, now)
			continue
		}
		if service == nil {
			service = serviceOf(replica)
		}
		one.tell(key, service, now)
	}
}

// serviceOf is what a receiver is told of a replica.
func serviceOf(replica *plan.Desired) *ledger.Service {
	backends := replica.Backends()
	endpoints := make([]ledger.Endpoint, len(backends))
	for i := range backends {
		b := &backends[i]
		endpoints[i] = ledger.Endpoint{Addr: b.Addr, Cluster: b.Cluster, Zone: b.Zone, Ports: b.Ports, Ready: b.Ready, Serving: b.Serving, Terminating: b.Terminating}
	}
	return ledger.NewService(endpoints)
}

// Keys are the replicas that receivers know, or are to know.
func (s *Set) Keys() []syncer.Key {
	var keys []syncer.Key
	for _, one := range *s.sinks.Load() {
		one.mu.Lock()
		keys = append(keys, one.ledger.Keys()...)
		one.mu.Unlock()
	}
	return keys
}

// Resync makes a sink tell everything anew, "" all of them, and returns of how many Services;
// ok is false where there is no such sink, or this process does not tell it.
func (s *Set) Resync(name string) (services int, ok bool) {
	for _, one := range *s.sinks.Load() {
		if name != "" && one.spec.Name != name {
			continue
		}
		one.mu.Lock()
		telling := one.status.Telling
		if telling {
			services += one.ledger.Resync(time.Now())
			ok = true
		}
		one.mu.Unlock()
		if telling {
			one.logger.Info("a full resync was asked for")
			one.nudge()
		}
	}
	return services, ok
}

// Status is how a sink stands.
type Status struct {
	metrics.SinkStatus
	// Telling is whether this process tells it, Failing whether the last request was not
	// acknowledged.
	Telling, Failing bool
	// Oldest is when the first that is pending and not refused was to be told, or is; zero:
	// there is none.
	Oldest time.Time
}

// Status returns how each sink stands, in the order of the configuration.
func (s *Set) Status() []Status {
	var out []Status
	for _, one := range *s.sinks.Load() {
		one.mu.Lock()
		status, l := one.status, one.ledger.State()
		one.mu.Unlock()
		status.Name, status.URL, status.State = one.spec.Name, withoutQuery(one.spec.URL), "standby"
		status.Services, status.Pending, status.Refused, status.Oldest = l.Services, l.Pending, l.Refused, l.Oldest
		if status.Telling {
			status.State = "live"
		}
		if status.Failing {
			status.State = "failing"
		}
		if !status.Oldest.IsZero() {
			status.LagSeconds = max(0, time.Since(status.Oldest).Seconds())
		}
		out = append(out, status)
	}
	return out
}

// withoutQuery leaves out of a URL what may be a secret.
func withoutQuery(text string) string {
	where, err := url.Parse(text)
	if err != nil {
		return ""
	}
	where.RawQuery, where.User, where.Fragment = "", nil, ""
	return where.String()
}
