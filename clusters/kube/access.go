// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// renewalRetry is how long a new credential waits that does not work.
const renewalRetry = 5 * time.Second

// Access holds the session in use, and exchanges it for one with another credential. Safe for
// concurrent use.
type Access struct {
	open    func(context.Context) (*Session, error)
	opening singleflight.Group
	renewed chan struct{} // has a signal while there is another credential
	ended   context.Context
	end     context.CancelFunc

	mu      sync.Mutex
	session *Session // nil: none
}

// NewAccess returns an access that opens its first session when it is asked for.
func NewAccess(open func(context.Context) (*Session, error)) *Access {
	a := &Access{open: open, renewed: make(chan struct{}, 1)}
	a.ended, a.end = context.WithCancel(context.Background())
	return a
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
	case opened := <-a.opening.DoChan("", func() (any, error) { return a.connect(false) }):
		s, _ := opened.Val.(*Session)
		return s, opened.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect takes a session into use that is opened now; one that is in use only if it is to be
// replaced. What runs goes on over the former one until it ends: watches do so soon.
func (a *Access) connect(replace bool) (*Session, error) {
	s, err := a.open(a.ended)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended.Err() != nil:
		s.Close()
		return nil, errNoSession
	case a.session != nil && !replace: // it was replaced meanwhile, by one with a newer credential
		s.Close()
	default:
		a.session.leave()
		a.session = s
	}
	return a.session, nil
}

// Renew says that there is another credential.
func (a *Access) Renew() {
	select {
	case a.renewed <- struct{}{}:
	default:
	}
}

// Run takes other credentials into use until ctx ends, and then closes the access: what runs goes
// on as it was until a session could be opened. failed is told each time that one does not work.
func (a *Access) Run(ctx context.Context, failed func(error)) {
	defer a.Close()
	for again := (<-chan time.Time)(nil); ; {
		select {
		case <-ctx.Done():
			return
		case <-a.renewed:
		case <-again:
		}
		again = nil
		if _, err := a.connect(true); err != nil && ctx.Err() == nil {
			failed(err)
			again = time.After(renewalRetry)
		}
	}
}

// Close ends the session in use. It may be called more than once.
func (a *Access) Close() {
	a.end()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session.Close()
	a.session = nil
}
