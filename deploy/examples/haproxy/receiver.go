// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// keepEvery is the time between two looks at HAProxy: for servers that have drained, and for
// an HAProxy that was started anew and knows none.
const keepEvery = time.Second

// receiver keeps the servers of HAProxy equal to what it was told last.
type receiver struct {
	run   func(command string) (string, error)
	port  string
	drain time.Duration

	mu sync.Mutex
	// services is what was told last of each, by backend.
	services map[string]told
	// draining is since when a server gets nothing new, by backend and server.
	draining map[string]time.Time
}

type told struct {
	generation int64
	servers    map[string]string
}

func newReceiver(run func(string) (string, error), port string, drain time.Duration) *receiver {
	return &receiver{run: run, port: port, drain: drain, services: map[string]told{}, draining: map[string]time.Time{}}
}

// errNoBackend is why a Service is passed over.
var errNoBackend = errors.New("there is no such backend")

// take makes HAProxy what an event says, unless something newer was told.
func (r *receiver) take(e *event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	backend := backendOf(e.Data.Namespace, e.Data.Name)
	if e.Data.Generation < r.services[backend].generation {
		return nil
	}
	r.services[backend] = told{e.Data.Generation, serversOf(e.Data.Endpoints, r.port)}
	err := r.lockedApply(backend, time.Now())
	if errors.Is(err, errNoBackend) {
		return nil
	}
	return err
}

// keep looks at all backends again and again until ctx is done.
func (r *receiver) keep(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.mu.Lock()
			for _, backend := range slices.Sorted(maps.Keys(r.services)) {
				if err := r.lockedApply(backend, now); err != nil && !errors.Is(err, errNoBackend) {
					slog.Error("HAProxy is not as it should be", "backend", backend, "error", err)
				}
			}
			r.mu.Unlock()
		}
	}
}

// lockedApply makes one backend what was told: new servers first, so that there is always
// one; then those that are not wanted drain, and go when they have nothing left.
func (r *receiver) lockedApply(backend string, now time.Time) error {
	stands, err := r.servers(backend)
	if err != nil {
		return err
	}
	wanted := r.services[backend].servers
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		at := backend + "/" + name
		s, stood := stands[name]
		if !stood {
			if err := r.command("add server " + at + " " + wanted[name]); err != nil {
				return err
			}
		}
		if !stood || !s.takes {
			if err := r.command("set server " + at + " state ready"); err != nil {
				return err
			}
			slog.Info("server takes requests", "server", at)
		}
		delete(r.draining, at)
	}
	for _, name := range slices.Sorted(maps.Keys(stands)) {
		if _, stays := wanted[name]; stays {
			continue
		}
		if err := r.lockedLeave(backend+"/"+name, stands[name], now); err != nil {
			return err
		}
	}
	return nil
}

// lockedLeave lets a server finish what it has, and takes it away then.
func (r *receiver) lockedLeave(at string, s server, now time.Time) error {
	since, draining := r.draining[at]
	if !draining || s.takes {
		if err := r.command("set server " + at + " state drain"); err != nil {
			return err
		}
		since, r.draining[at] = now, now // not before HAProxy has done so
		slog.Info("server gets no new requests", "server", at)
	}
	if now.Sub(since) < keepEvery || s.sessions > 0 && now.Sub(since) < r.drain {
		return nil // even one that seems idle may have just been chosen
	}
	if err := r.command("set server " + at + " state maint"); err != nil {
		return err
	}
	if err := r.command("del server " + at); err != nil {
		return nil // it has connections yet; next time
	}
	delete(r.draining, at)
	slog.Info("server is gone", "server", at)
	return nil
}

// command carries out one that answers nothing, or that something is done.
func (r *receiver) command(text string) error {
	answer, err := r.run(text)
	if err != nil {
		return err
	}
	answer = strings.TrimSpace(answer)
	for _, done := range []string{"", "New server registered.", "Server deleted."} {
		if answer == done {
			return nil
		}
	}
	return errors.New(text + ": " + answer)
}
