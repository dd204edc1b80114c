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

	mu              sync.Mutex
	session, former *Session      // former finishes what was under way
	changed         chan struct{} // closed by Swap and Close, and replaced
	closed          bool
}

// NewAccess returns an access that opens its first session when it is asked for.
func NewAccess(open func(context.Context) (*Session, error)) *Access {
	return &Access{open: open, turn: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Current returns the session in use; nil while there is none.
func (a *Access) Current() *Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// Get returns the session in use, and opens it if there is none. Who asks while it is being
// opened shares the outcome.
func (a *Access) Get(ctx context.Context) (*Session, error) {
	if s := a.Current(); s != nil {
		return s, nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s := a.Current(); s != nil {
		return s, nil
	}
	if time.Since(a.failed) < retryBase/2 {
		return nil, a.err
	}
	s, err := a.open(ctx)
	if err != nil {
		a.failed, a.err = time.Now(), err
		return nil, err
	}
	a.mu.Lock()
	if a.session == nil && !a.closed {
		a.session, s = s, nil
	}
	session := a.session
	a.mu.Unlock()
	if s != nil { // it is not needed any more
		s.Close()
	}
	if session == nil {
		return nil, errNoSession
	}
	return session, nil
}

// Swap goes over to another session of the same cluster: running watches resume through it
// at their revision, other requests of the old one are finished.
func (a *Access) Swap(s *Session) { a.exchange(s, false) }

// Close ends the session in use and the former one. Nothing is to be asked for any more.
func (a *Access) Close() {
	a.exchange(nil, true)
	a.exchange(nil, true)
}

func (a *Access) exchange(s *Session, closed bool) {
	a.mu.Lock()
	ends := a.former
	if a.closed = a.closed || closed; a.closed && s != nil {
		ends, s = s, nil
	} else {
		a.former, a.session = a.session, s
	}
	left := a.former
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	if left != nil {
		left.leave()
	}
	if ends != nil {
		ends.Close()
	}
}

// swapped is closed when the session is exchanged next.
func (a *Access) swapped() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}
