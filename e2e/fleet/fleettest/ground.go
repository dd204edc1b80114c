// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/fleet"
)

// Ground lends fleets to the tests of a package. A fleet takes a dozen seconds of a processor to start, and what a test
// did to it is undone in much less.
type Ground struct {
	members []string

	mu   sync.Mutex
	free []*fleet.Fleet
}

// NewGround has as many fleets as tests borrow at once, each of an ingress cluster and these members.
func NewGround(members ...string) *Ground { return &Ground{members: members} }

// Lend lends a fleet, whole, until the test and its other cleanups have ended; it is as it was when it had started. Most of
// what tests do is to wait: a test that borrows runs beside others. Two tributaries of different tests in one ingress
// cluster would collect each other's replicas, hence the whole fleet.
func (g *Ground) Lend(t testing.TB) *fleet.Fleet {
	t.Helper()
	f, err := g.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			keepLogs(t, f)
		}
		if err := g.giveBack(f); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (g *Ground) take(ctx context.Context) (*fleet.Fleet, error) {
	g.mu.Lock()
	if n := len(g.free); n > 0 {
		defer g.mu.Unlock()
		f := g.free[n-1]
		g.free = g.free[:n-1]
		return f, nil
	}
	g.mu.Unlock()
	return fleet.Start(ctx, fleet.Options{Members: g.members, Audit: true})
}

// giveBack resets a fleet. One that cannot be reset is given up.
func (g *Ground) giveBack(f *fleet.Fleet) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var errs []error
	for _, s := range f.Sites() {
		errs = append(errs, s.Reset(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, f.Close())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = append(g.free, f)
	return nil
}

// Close ends the fleets that are not lent.
func (g *Ground) Close() error {
	var errs []error
	for _, f := range g.free {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
