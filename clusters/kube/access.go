// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// renewalRetry is how long a new credential waits that does not work.
const renewalRetry = 5 * time.Second

// Access holds the session in use, and exchanges it for one with another credential. Safe for
// concurrent use.
type Access struct {
	open    func(context.Context) (*Session, error)
	first   singleflight.Group
	renewal *time.Timer
	ended   context.Context
	end     context.CancelFunc
	opening chan struct{} // is held by whoever changes session: the newest credential has to be the last
	session atomic.Pointer[Session]
	slots   atomic.Value // see detached; as a plugin may hang for ever, another credential has others
}

// NewAccess returns an access that opens its first session when it is asked for.
func NewAccess(open func(context.Context) (*Session, error)) *Access {
	a := &Access{open: open, opening: make(chan struct{}, 1)}
	a.slots.Store(make(chan struct{}, mostDetached))
	a.ended, a.end = context.WithCancel(context.Background())
	a.renewal = time.AfterFunc(math.MaxInt64, func() {
		if _, err := a.connect(true); err != nil && a.ended.Err() == nil {
			a.renewal.Reset(renewalRetry)
		}
	})
	a.renewal.Stop() // until there is one
	return a
}

// Current returns the session in use; nil while there is none.
func (a *Access) Current() *Session { return a.session.Load() }

// Get returns the session in use, and opens it if there is none. Callers that come while it is
// being opened share the outcome.
func (a *Access) Get(ctx context.Context) (*Session, error) {
	if s := a.Current(); s != nil {
		return s, nil
	}
	select {
	case opened := <-a.first.DoChan("", func() (any, error) { return a.connect(false) }):
		s, _ := opened.Val.(*Session)
		return s, opened.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Renew says that there is another credential, which is used as soon as it works.
func (a *Access) Renew() {
	a.slots.Store(make(chan struct{}, mostDetached))
	a.renewal.Reset(0)
}

// connect opens a session and uses it, instead of one in use only if that is to be replaced. What
// is under way continues over the former session until it ends: watches do so soon.
func (a *Access) connect(replace bool) (*Session, error) {
	a.opening <- struct{}{}
	defer func() { <-a.opening }()
	if a.ended.Err() != nil {
		return nil, errNoSession
	}
	if s := a.Current(); s != nil && !replace {
		return s, nil
	}
	s, err := a.open(context.WithValue(a.ended, slots{}, a.slots.Load()))
	if err != nil {
		return nil, err
	}
	a.session.Swap(s).retire(0)
	return s, nil
}

// Close ends the session in use and what is being opened, and opens no other. It may be called twice.
func (a *Access) Close() {
	a.end()
	a.opening <- struct{}{}
	defer func() { <-a.opening }()
	a.session.Swap(nil).Close()
}
