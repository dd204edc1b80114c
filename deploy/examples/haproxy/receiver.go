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
	// services is what was told last of each that has a backend, by that.
	services map[string]*told
}

type told struct {
	generation int64
	deleted    bool
	servers    map[string]string
	// draining is since when a server gets nothing new.
	draining map[string]time.Time
}

func newReceiver(run func(string) (string, error), port string, drain time.Duration) *receiver {
	return &receiver{run: run, port: port, drain: drain, services: map[string]*told{}}
}

// take makes HAProxy what events say, unless something newer was told.
func (r *receiver) take(events []event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var news []string
	for i := range events {
		e := &events[i].Data
		if events[i].Type == typeInventory {
			news = append(news, r.lockedGone(e.Generation, e.Services)...)
			continue
		}
		if !isName(e.Namespace) || !isName(e.Name) {
			continue // it has no backend
		}
		backend := backendOf(e.Namespace, e.Name)
		t := r.services[backend]
		if t == nil {
			t = &told{draining: map[string]time.Time{}}
			r.services[backend] = t
		}
		if e.Generation >= t.generation {
			t.generation, t.deleted, t.servers = e.Generation, e.Deleted, serversOf(e.Endpoints, r.port)
			news = append(news, backend)
		}
	}
	return r.lockedApply(news, time.Now())
}

// lockedGone takes what an inventory does not name for deleted, and returns its backends.
func (r *receiver) lockedGone(generation int64, services []string) (news []string) {
	named := map[string]bool{}
	for _, service := range services {
		namespace, name, _ := strings.Cut(service, "/")
		named[backendOf(namespace, name)] = true
	}
	for backend, t := range r.services {
		if !named[backend] && t.generation <= generation {
			t.generation, t.deleted, t.servers = generation, true, nil
			news = append(news, backend)
		}
	}
	return news
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
			if err := r.lockedApply(slices.Sorted(maps.Keys(r.services)), now); err != nil {
				slog.Error("HAProxy is not as it should be", "error", err)
			}
			r.mu.Unlock()
		}
	}
}

// lockedApply makes backends what was told, by one look at HAProxy. What has no backend is
// forgotten, and what was deleted as soon as nothing is left of it.
func (r *receiver) lockedApply(backends []string, now time.Time) error {
	if len(backends) == 0 {
		return nil
	}
	all, err := r.backends()
	if err != nil {
		return err
	}
	var faults []error
	for _, backend := range backends {
		t, stands := r.services[backend], all[backend]
		if stands == nil || t.deleted && len(stands) == 0 {
			delete(r.services, backend)
			continue
		}
		if err := r.lockedServe(backend, t, stands, now); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// lockedServe makes one backend what was told: new servers first, so that there is always
// one; then those that are not wanted drain, and go when they have nothing left.
func (r *receiver) lockedServe(backend string, t *told, stands map[string]server, now time.Time) error {
	for _, name := range slices.Sorted(maps.Keys(t.servers)) {
		at := backend + "/" + name
		s, stood := stands[name]
		if !stood {
			if err := r.command("add server " + at + " " + t.servers[name]); err != nil {
				return err
			}
		}
		if !stood || !s.takes {
			if err := r.command("set server " + at + " state ready"); err != nil {
				return err
			}
			slog.Info("server takes requests", "server", at)
		}
	}
	maps.DeleteFunc(stands, func(name string, _ server) bool { return t.servers[name] != "" })
	maps.DeleteFunc(t.draining, func(name string, _ time.Time) bool { _, stands := stands[name]; return !stands })
	for _, name := range slices.Sorted(maps.Keys(stands)) {
		if err := r.lockedLeave(backend, name, t, stands[name], now); err != nil {
			return err
		}
	}
	return nil
}

// lockedLeave lets a server finish what it has, and takes it away then.
func (r *receiver) lockedLeave(backend, name string, t *told, s server, now time.Time) error {
	at := backend + "/" + name
	since, draining := t.draining[name]
	if !draining || s.takes {
		if err := r.command("set server " + at + " state drain"); err != nil {
			return err
		}
		since, t.draining[name] = now, now // not before HAProxy has done so
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
	delete(t.draining, name)
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
