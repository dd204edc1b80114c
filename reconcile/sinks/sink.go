// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

const (
	// maxBytes bounds a request that tells of more than one Service, maxBatch of how many it tells.
	maxBytes, maxBatch = 1 << 20, 1000
	// inventoryEvery is the time between two inventories.
	inventoryEvery = 10 * time.Minute
	// requestTimeout bounds a request.
	requestTimeout = 10 * time.Second
	// refusedPause is how long a Service is left alone that the receiver refuses.
	refusedPause = 30 * time.Second
)

// pauses are those after failures of a receiver.
var pauses = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: math.MaxInt32, Cap: 30 * time.Second}

// unknown is what was acknowledged where nothing was, or nobody can tell.
var unknown = &service{}

// state is what a sink knows of one Service.
type state struct {
	key syncer.Key
	// now is what it is, sent what the last request told, and acked what was last acknowledged; nil:
	// not there.
	now, sent, acked *service
	// due is when it is to be sent; zero: it is as it was acknowledged. takes is whether
	// the difference removes something.
	due   time.Time
	takes bool
	// refused is true of one that the receiver does not accept as it is.
	refused bool
}

// sink tells one receiver.
type sink struct {
	spec   Spec
	opts   *Options
	logger *slog.Logger
	wake   chan struct{} // signalled when something may be due
	client interface {
		send(ctx context.Context, method string, body []byte) outcome
	}
	stop context.CancelFunc // ends run; of the Set

	// Of the goroutine in run: when the next request may begin, and the next inventory, how many
	// Services a request may tell, and the pauses after failures, of inventories apart.
	next, inventory      time.Time
	limit                int
	backoff, inventories wait.Backoff

	mu *sync.Mutex // that of the Set
	// All below is guarded by mu; pending are the services that have a due.
	services, pending map[syncer.Key]*state // of all replicas; a nil now is one that is not told
	generation        int64
	status            metrics.SinkStatus
}

func newSink(spec Spec, o *Options, mu *sync.Mutex) *sink {
	s := &sink{
		spec: spec, opts: o, logger: o.Logger.With("sink", spec.Name), wake: make(chan struct{}, 1), stop: func() {},
		client: &client{url: spec.URL, agent: "tributary/" + o.Version, auth: spec.Auth},
		limit:  maxBatch, backoff: pauses, inventories: pauses,
		mu: mu, services: map[syncer.Key]*state{}, pending: map[syncer.Key]*state{}, status: metrics.SinkStatus{Name: spec.Name, State: "standby"},
	}
	if where, err := url.Parse(spec.URL); err == nil { // a query may hold a secret
		where.RawQuery, where.User, where.Fragment = "", nil, ""
		s.status.URL = where.String()
	}
	return s
}

// lockedTell records what a replica is; nil: it does not exist, nor does one that is not selected.
func (s *sink) lockedTell(key syncer.Key, labels map[string]string, now *service, at time.Time) {
	if !s.spec.Selects(key, labels) {
		now = nil
	}
	is := s.services[key]
	if is == nil {
		is = &state{key: key}
		s.services[key] = is
	}
	if is.now.equal(now) {
		return
	}
	is.now, is.refused = now, false
	s.lockedSchedule(is, at)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// lockedSchedule decides when a Service is sent. A window begins with the first change in it;
// a removal does not wait for one that another change has begun.
func (s *sink) lockedSchedule(is *state, at time.Time) {
	takes, window := is.takes, time.Duration(0)
	if is.acked != unknown {
		takes, window = removes(is.acked, is.now), s.spec.Window
		if takes {
			window = s.spec.RemovalWindow
		}
	}
	switch {
	case is.acked.equal(is.now):
		is.due = time.Time{}
	case is.due.IsZero() || takes != is.takes || is.due.After(at.Add(window)):
		is.due = at.Add(window)
	}
	is.takes = takes
	delete(s.pending, is.key)
	if !is.due.IsZero() {
		s.pending[is.key] = is
	}
}

// begin forgets what was acknowledged: another process may have told something else since.
func (s *sink) begin(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, is := range s.services {
		is.acked = nil // then the inventory tells
		if is.now != nil {
			is.acked = unknown
		}
		s.lockedSchedule(is, at)
	}
	s.inventory, s.status.State = at, "live"
}

// run tells the receiver until ctx is done.
func (s *sink) run(ctx context.Context, all func() ([]syncer.Key, bool)) {
	s.begin(time.Now())
	for ctx.Err() == nil {
		rested := time.After(s.step(ctx, all))
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-rested:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.State = "standby"
}

// step makes a request, if one is due, and returns for how long there is nothing to do unless
// something happens.
func (s *sink) step(ctx context.Context, all func() ([]syncer.Key, bool)) time.Duration {
	now := time.Now()
	if rest := s.next.Sub(now); rest > 0 {
		return rest
	}
	batch, events, rest := s.take(now, all)
	if len(events) == 0 {
		return rest
	}
	s.next = now.Add(time.Duration(float64(time.Second) / s.spec.Rate))
	o := outcome{result: resultStopped}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if bound, release, held := s.opts.Hold(ctx); held {
		o = s.client.send(bound, http.MethodPost, marshal(events))
		release()
	}
	s.opts.Observe(s.spec.Name, string(o.result))
	s.land(batch, o, time.Now())
	return 0
}

// take makes the events of the next request: the inventory when it is due, else Services,
// those first of which something is removed.
func (s *sink) take(now time.Time, all func() ([]syncer.Key, bool)) (batch []*state, events []json.RawMessage, rest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = max(s.generation+1, now.UnixMicro())
	if !now.Before(s.inventory) {
		if text := s.lockedInventory(now, all); text != nil {
			return nil, []json.RawMessage{text}, 0
		}
		s.inventory = now.Add(time.Second) // not at each change: comparisons wait while all replicas are gathered
	}
	rest = max(time.Second, s.inventory.Sub(now))
	for _, is := range s.pending {
		if left := is.due.Sub(now); left > 0 {
			rest = min(rest, left)
			continue
		}
		batch = append(batch, is)
	}
	slices.SortFunc(batch, func(a, b *state) int {
		if a.takes != b.takes {
			return map[bool]int{true: -1, false: 1}[a.takes]
		}
		return cmp.Or(a.due.Compare(b.due), a.key.Compare(b.key))
	})
	batch = batch[:min(len(batch), s.limit)]
	for i, size := 0, 0; i < len(batch); i++ {
		is := batch[i]
		text := s.document(is.key, is.now, s.generation, now)
		size += len(text)
		if size > maxBytes && i > 0 {
			return batch[:i], events, 0
		}
		events = append(events, text)
		is.sent, is.acked = is.now, unknown // until there is an answer
		s.generation++
	}
	return batch, events, rest
}

// lockedInventory names all Services. It is nil while not every replica is known.
func (s *sink) lockedInventory(now time.Time, all func() ([]syncer.Key, bool)) json.RawMessage {
	keys, known := all()
	if !known || slices.ContainsFunc(keys, func(key syncer.Key) bool { return s.services[key] == nil }) {
		return nil
	}
	names := []string{}
	for key, is := range s.services {
		if is.now != nil {
			names = append(names, key.String())
		}
		switch _, exists := slices.BinarySearchFunc(keys, key, syncer.Key.Compare); {
		case is.now == nil && is.due.IsZero() && !exists:
			delete(s.services, key)
		case is.now != nil && is.acked == nil:
			is.acked = unknown // a receiver that has it from another process still has it
		}
	}
	slices.Sort(names)
	return s.event(typeInventory, "", s.generation, now, inventory{s.generation, names})
}

// land applies the outcome of a request.
func (s *sink) land(batch []*state, o outcome, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, is := range batch {
		if o.result == resultOK {
			is.acked, is.refused, is.due = is.sent, false, time.Time{}
		}
		s.lockedSchedule(is, now)
	}
	was := s.status.State
	s.status.Requests++
	if o.result == resultOK && len(batch) == 0 {
		s.inventory, s.inventories = now.Add(inventoryEvery), pauses
		for _, is := range s.services { // a receiver may have lost what it acknowledged
			if is.now != nil && is.due.IsZero() {
				is.acked = unknown
				s.lockedSchedule(is, now)
			}
		}
	}
	if o.result == resultOK {
		s.limit, s.backoff = min(maxBatch, 2*s.limit), pauses
		s.status.State, s.status.LastAcknowledged, s.status.LastError = "live", now.UTC(), ""
		if was == "failing" {
			s.logger.Info("the receiver acknowledges again")
		}
		return
	}
	s.status.Failures++
	switch {
	case o.result == resultStopped:
		s.next = now.Add(pauses.Duration)
		return
	case len(batch) == 0: // Services are told before it is sent again
		s.next = slices.MaxFunc([]time.Time{s.next, now.Add(o.pause)}, time.Time.Compare)
		s.inventory = s.next.Add(s.inventories.Step())
	case o.result == resultRefused && len(batch) == 1:
		if !batch[0].refused {
			s.logger.Warn("the receiver refuses a Service, which is left alone for a while", "service", batch[0].key.String(), "error", o.err)
		}
		batch[0].refused, batch[0].due = true, now.Add(refusedPause)
	default:
		if o.result != resultCredentials { // which one is refused shows by telling of half as many, and a receiver may be slow
			s.limit = max(1, len(batch)/2)
		}
		if o.result != resultRefused {
			s.next = now.Add(max(s.backoff.Step(), o.pause))
		}
	}
	s.status.State, s.status.LastError = "failing", o.err.Error()
	if was != "failing" {
		s.logger.Warn("the receiver does not acknowledge; it is told the newest state when it does", "result", string(o.result), "error", o.err)
	}
}
