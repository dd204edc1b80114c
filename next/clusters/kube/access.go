// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync"
)

// Access holds the session in use, and lets it be exchanged for one with other credentials.
// Safe for concurrent use.
type Access struct {
	open func(context.Context) (*Session, error)

	mu      sync.Mutex
	session *Session
	former  *Session      // finishes what was under way
	call    *call         // nil while no session is being opened
	changed chan struct{} // closed by Swap, and replaced
	closed  bool
}

// call is a session that is being opened. The others are set before done is closed.
type call struct {
	done    chan struct{}
	session *Session
	err     error
}

// NewAccess returns an access that opens its first session when it is asked for.
func NewAccess(open func(context.Context) (*Session, error)) *Access {
	return &Access{open: open, changed: make(chan struct{})}
}

// Get returns the session in use, and opens it if there is none. Who asks while it is being
// opened shares the outcome.
func (a *Access) Get(ctx context.Context) (*Session, error) {
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		return nil, errNoSession
	case a.session != nil:
		defer a.mu.Unlock()
		return a.session, nil
	case a.call != nil:
		c := a.call
		a.mu.Unlock()
		select {
		case <-c.done:
			return c.session, c.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c := &call{done: make(chan struct{})}
	a.call = c
	a.mu.Unlock()
	c.session, c.err = a.open(ctx)
	a.opened(c)
	return c.session, c.err
}

// opened takes the session that was opened, unless there is another by now.
func (a *Access) opened(c *call) {
	a.mu.Lock()
	defer close(c.done)
	defer a.mu.Unlock()
	a.call = nil
	switch {
	case a.session == nil && !a.closed:
		a.session = c.session
	case c.session != nil:
		defer c.session.Close()
		if c.session = a.session; a.closed {
			c.session, c.err = nil, errNoSession
		}
	case a.session != nil:
		c.session, c.err = a.session, nil
	}
}

// Current returns the session in use; nil while there is none.
func (a *Access) Current() *Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// Swap goes over to another session of the same cluster: running watches resume through it
// at their revision, other requests of the old one are finished.
func (a *Access) Swap(s *Session) {
	a.mu.Lock()
	older := a.former
	if a.closed {
		older = s
	} else {
		a.former, a.session = a.session, s
		close(a.changed)
		a.changed = make(chan struct{})
	}
	former := a.former
	a.mu.Unlock()
	if former != nil {
		former.leave()
	}
	if older != nil {
		older.Close()
	}
}

// swapped is closed by the next Swap.
func (a *Access) swapped() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// Close ends the session in use and the former one. Get fails from then on.
func (a *Access) Close() {
	a.mu.Lock()
	a.closed = true
	sessions := []*Session{a.session, a.former}
	a.session, a.former = nil, nil
	a.mu.Unlock()
	for _, s := range sessions {
		if s != nil {
			s.Close()
		}
	}
}
