// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync"
	"time"
)

// Access holds the session in use, and lets it be exchanged for one with other credentials.
// Safe for concurrent use.
type Access struct {
	open func(context.Context) (*Session, error)
	// turn is held by who opens the first session, and failed is when and how that last did.
	turn   chan struct{}
	failed time.Time
	err    error

	mu      sync.Mutex
	session *Session      // nil: none
	swap    chan struct{} // closed by Swap, and replaced
	closed  bool
}

// NewAccess returns an access that opens its first session when it is asked for.
func NewAccess(open func(context.Context) (*Session, error)) *Access {
	return &Access{open: open, turn: make(chan struct{}, 1), swap: make(chan struct{})}
}

// Current returns the session in use; nil while there is none.
func (a *Access) Current() *Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// held returns the session in use, or why there never will be one.
func (a *Access) held() (*Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errNoSession
	}
	return a.session, nil
}

// Get returns the session in use, and opens it if there is none. Who asks while it is being
// opened shares the outcome.
func (a *Access) Get(ctx context.Context) (*Session, error) {
	if s, err := a.held(); s != nil || err != nil {
		return s, err
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s, err := a.held(); s != nil || err != nil {
		return s, err
	}
	if time.Since(a.failed) < retryBase/2 {
		return nil, a.err
	}
	s, err := a.open(ctx)
	if err != nil {
		if ctx.Err() == nil { // else it is nothing to the others
			a.failed, a.err = time.Now(), err
		}
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		s.Close()
		return nil, errNoSession
	case a.session != nil: // it was exchanged meanwhile
		s.Close()
	default:
		a.session = s
	}
	return a.session, nil
}

// Swap goes over to another session of the same cluster: running watches resume through it
// at their revision, other requests of the old one are finished.
func (a *Access) Swap(s *Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		s.Close()
		return
	}
	a.session.leave()
	a.session = s
	close(a.swap)
	a.swap = make(chan struct{})
}

// Close ends the session in use. It may be called more than once.
func (a *Access) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.session.Close()
	a.session = nil
}

// swapped is closed by the next Swap.
func (a *Access) swapped() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.swap
}
