// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/next/syncer"
)

// Options set up a Set.
type Options struct {
	// Instance is the name of the installation, Version that of the product.
	Instance, Version string
	// Hold is leader.Permit.Hold.
	Hold func(context.Context) (bounded context.Context, release func(), ok bool)
	// Complete reports whether all replicas that there are have been told: only then an
	// inventory is one.
	Complete func() bool
	// Observe is told about each request; it must not wait. nil: nobody is.
	Observe func(sink, result string, took time.Duration)
	Logger  *slog.Logger
}

func (o *Options) source() string { return "/tributary/" + o.Instance }

// Status is how a sink stands.
type Status struct {
	Name, URL string
	// State is "live", "failing" (the last request was not acknowledged), or "standby":
	// another process tells it.
	State string
	// Lag is the age of the oldest change that is not acknowledged, from the end of its
	// window; what is refused is left out.
	Lag time.Duration
	// Services are told; Pending are not acknowledged as they are, Refused are those among
	// them that the receiver does not take.
	Services, Pending, Refused int
	// Requests were sent by this process; Failures were not acknowledged.
	Requests, Failures uint64
	LastAcknowledged   time.Time
	LastError          string
}

// Set are the sinks of an installation. All methods are safe for concurrent use; Run must
// not run twice at once.
type Set struct {
	opts Options

	mu sync.Mutex
	// All below is guarded by mu: leading is the context of Run, nil out of it, and group
	// what runs in it.
	sinks   []*sink
	stops   map[*sink]context.CancelFunc
	leading context.Context //nolint:containedctx // sinks come and go while Run runs
	group   sync.WaitGroup
}

// New returns a Set without sinks.
func New(o Options) *Set {
	if o.Observe == nil {
		o.Observe = func(string, string, time.Duration) {}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Set{opts: o, stops: map[*sink]context.CancelFunc{}}
}

// Configure makes the sinks what they are to be. One that is new, or has changed, knows
// nothing until all replicas were told again.
func (s *Set) Configure(specs []Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next []*sink
	for _, spec := range specs {
		at := slices.IndexFunc(s.sinks, func(is *sink) bool { return is.spec.Name == spec.Name && is.spec.Config == spec.Config })
		if at >= 0 {
			next = append(next, s.sinks[at])
			continue
		}
		one := newSink(spec, &s.opts)
		next = append(next, one)
		s.lockedStart(one)
	}
	for _, is := range s.sinks {
		if stop := s.stops[is]; stop != nil && !slices.Contains(next, is) {
			stop()
			delete(s.stops, is)
		}
	}
	s.sinks = next
}

func (s *Set) lockedStart(one *sink) {
	if s.leading == nil {
		return
	}
	ctx, stop := context.WithCancel(s.leading)
	s.stops[one] = stop
	s.group.Go(func() { one.run(ctx) })
}

// Run tells the receivers until ctx is done, and returns when nothing is told any more.
func (s *Set) Run(ctx context.Context) {
	s.mu.Lock()
	s.leading = ctx
	for _, one := range s.sinks {
		s.lockedStart(one)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.leading = nil
	clear(s.stops)
	s.mu.Unlock()
	s.group.Wait()
}

// Wanted reports whether anybody is told.
func (s *Set) Wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sinks) > 0
}

// Tell takes what a replica is to be; nil: nobody wants it. It waits for nothing.
func (s *Set) Tell(key syncer.Key, now *Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now()
	for _, one := range s.sinks {
		if now == nil || !one.spec.Selects(key, now.Labels) {
			one.tell(key, nil, at)
			continue
		}
		one.tell(key, now, at)
	}
}

// Status returns how each sink stands, in the order of the configuration.
func (s *Set) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Status, 0, len(s.sinks))
	for _, one := range s.sinks {
		out = append(out, one.is(time.Now()))
	}
	return out
}

// is tells how the sink stands.
func (s *sink) is(now time.Time) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	out.Services, out.Pending = len(s.services), len(s.pending)
	if where, err := url.Parse(s.spec.URL); err == nil { // a query may hold a secret
		where.RawQuery, where.User, where.Fragment = "", nil, ""
		out.URL = where.String()
	}
	for _, is := range s.pending {
		if is.refusals.Duration > 0 {
			out.Refused++
			continue
		}
		out.Lag = max(out.Lag, now.Sub(is.due))
	}
	return out
}
