// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"net"
)

// Dial wraps a dialer: nothing is sent through its connections once the Permit has
// lapsed. The RoundTripper asks before a request is begun; a process that is frozen
// between that and the system call would send it when it wakes.
func (p *Permit) Dial(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, permit: p}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.conns == nil {
			p.conns = map[*conn]struct{}{}
		}
		p.conns[c] = struct{}{}
		return c, nil
	}
}

// conn sends only while the Permit that it was used under has not lapsed.
type conn struct {
	net.Conn
	permit *Permit
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if c.permit.lapsed() {
		c.abort()
		return 0, ErrNotLeading
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.permit.mu.Lock()
	delete(c.permit.conns, c)
	c.permit.mu.Unlock()
	return c.Conn.Close()
}

// abort closes the connection and drops what the kernel has not sent yet: it would send
// that when the network is back.
func (c *conn) abort() {
	if tcp, ok := c.Conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // of a connection that is closed already
	}
	_ = c.Close()
}
