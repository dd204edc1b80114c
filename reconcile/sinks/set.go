// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Options set up a Set. All fields must be set.
type Options struct {
	// Instance is the name of the installation, Version that of the product.
	Instance, Version string
	// Hold is leader.Permit.Hold.
	Hold func(context.Context) (bounded context.Context, release func(), ok bool)
	// Observe is called for each request; it must not wait.
	Observe func(sink, result string)
	Logger  *slog.Logger
}

// Spec is what one sink is to be.
type Spec struct {
	// Name tells it from others, URL is where requests go.
	Name, URL string
	Auth      Auth
	// Selects says which replicas are sent, by name and labels of the replica's Service.
	Selects func(replica syncer.Key, labels map[string]string) bool
	// Window is how long a Service that differs gathers changes, RemovalWindow the same
	// where the difference takes something away.
	Window, RemovalWindow time.Duration
	// Rate is how many requests may begin in a second; more than 0.
	Rate float64
	// Config identifies all of the above: one of another Config is another sink.
	Config string
}

// Set are the sinks of an installation. All methods are safe for concurrent use; Run must
// not run twice at once.
type Set struct {
	opts    Options
	running sync.WaitGroup

	mu    sync.Mutex
	sinks []*sink
	// begin has a sink run while Run does; nil: it does not.
	begin func(*sink)
}

// New returns a Set without sinks.
func New(o Options) *Set { return &Set{opts: o} }

// Configure replaces the sinks. One that is new, or has changed, knows nothing until all replicas
// were told again.
func (s *Set) Configure(specs []Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := s.sinks
	s.sinks = nil
	for _, spec := range specs {
		at := slices.IndexFunc(former, func(is *sink) bool { return is.spec.Name == spec.Name && is.spec.Config == spec.Config })
		if at >= 0 {
			s.sinks = append(s.sinks, former[at])
			continue
		}
		one := newSink(spec, &s.opts, &s.mu)
		s.sinks = append(s.sinks, one)
		if s.begin != nil {
			s.begin(one)
		}
	}
	for _, one := range former {
		if !slices.Contains(s.sinks, one) {
			one.stop()
		}
	}
}

// Run sends to the receivers until ctx is done, and returns when nothing is sent any more. all
// returns the replicas that there are, sorted, false while that is not known: an inventory waits until
// Tell was called for each of them.
func (s *Set) Run(ctx context.Context, all func() ([]syncer.Key, bool)) {
	s.mu.Lock()
	s.begin = func(one *sink) {
		var telling context.Context
		telling, one.stop = context.WithCancel(ctx)
		s.running.Go(func() { one.run(telling, all) })
	}
	for _, one := range s.sinks {
		s.begin(one)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.begin = nil
	s.mu.Unlock()
	s.running.Wait()
}

// Tell records what a replica is to be: the labels of its Service and its backends, which are
// computed where there is a sink; nil: nobody wants it. It waits for nothing.
func (s *Set) Tell(key syncer.Key, labels map[string]string, backends func() []plan.Backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var now *service
	if backends != nil && len(s.sinks) > 0 {
		now = newService(backends())
	}
	at := time.Now()
	for _, one := range s.sinks {
		one.lockedTell(key, labels, now, at)
	}
}

// Status returns the state of each sink, in the order of the configuration.
func (s *Set) Status() (all []metrics.SinkStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sinks {
		all = append(all, one.lockedReport(time.Now()))
	}
	return all
}

// lockedReport returns the state of the sink. What is refused counts in no lag.
func (s *sink) lockedReport(now time.Time) metrics.SinkStatus {
	out := s.status
	for _, is := range s.services {
		if is.now != nil {
			out.Services++
		}
	}
	out.Pending = len(s.pending)
	for _, is := range s.pending {
		if is.refused {
			out.Refused++
			continue
		}
		out.LagSeconds = max(out.LagSeconds, now.Sub(is.due).Seconds())
	}
	return out
}
