// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// ErrNotLeading is why a request was not sent, or was cancelled.
var ErrNotLeading = errors.New("this process does not lead: it writes nothing")

// Permit is the right to write to the ingress cluster until a moment. The zero value permits
// nothing. All methods are safe for concurrent use.
type Permit struct {
	mu sync.Mutex
	// until is when it ends by time; zero: it is revoked, which ends granted.
	until   time.Time
	granted context.Context
	end     context.CancelFunc
}

// extend holds the Permit until a moment.
func (p *Permit) extend(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until.IsZero() {
		p.granted, p.end = context.WithCancel(context.Background())
	}
	p.until = until
}

// revoke ends the Permit: requests under way are cancelled. A second call does nothing.
func (p *Permit) revoke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.IsZero() {
		p.end()
		p.until = time.Time{}
	}
}

// state tells whether the Permit is held, or has ended by time and was not revoked yet.
func (p *Permit) state() (held, lapsed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held = lasts(p.until, time.Now())
	return held, !held && !p.until.IsZero()
}

// Hold binds a context to the Permit: it is done, with ErrNotLeading as its cause, when the
// Permit as it is now ends. release must be called after the request. ok is false, and the
// others are nil, where the Permit is not held.
func (p *Permit) Hold(parent context.Context) (bounded context.Context, release func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !lasts(p.until, time.Now()) {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(parent)
	bounded, stop := context.WithDeadlineCause(ctx, p.until, ErrNotLeading)
	detach := context.AfterFunc(p.granted, func() { cancel(ErrNotLeading) })
	return bounded, func() { detach(); stop(); cancel(nil) }, true
}

// Dialer makes connections.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Dial wraps a dialer: nothing is sent through its connections once the Permit has ended by
// time. Hold is called before a request is begun; a process that is frozen between that and the
// system call would send it when it wakes. A connection that is closed drops what the kernel has
// not sent yet: it would send that when the network is back.
func (p *Permit) Dial(next Dialer) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if tcp, ok := inner.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // of a connection that is closed already
		}
		return &conn{inner, p}, nil
	}
}

// conn sends nothing while its Permit has lapsed: what a cancelled request writes closes it. A
// standby reads through it.
type conn struct {
	net.Conn
	permit *Permit
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if _, lapsed := c.permit.state(); lapsed {
		_ = c.Close()
		return 0, ErrNotLeading
	}
	return c.Conn.Write(b)
}
