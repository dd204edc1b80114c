// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// memoryListener hands out connections through memory. It can freeze, as a
// stopped process does (connections are accepted, nothing is answered), and
// refuse, as a host without the process does.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	flowing chan struct{} // closed while not frozen
	refuse  bool
	dialled int
}

func newMemoryListener() *memoryListener {
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{}), flowing: make(chan struct{})}
	close(l.flowing)
	return l
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (l *memoryListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l.mu.Lock()
	refuse := l.refuse
	if !refuse {
		l.dialled++
	}
	l.mu.Unlock()
	if refuse {
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	select {
	case l.conns <- &freezingConn{Conn: server, l: l}:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memoryListener) dials() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialled
}

func (l *memoryListener) setRefuse(refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
}

func (l *memoryListener) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flowing = make(chan struct{})
}

func (l *memoryListener) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.flowing:
	default:
		close(l.flowing)
	}
}

func (l *memoryListener) wait() {
	l.mu.Lock()
	flowing := l.flowing
	l.mu.Unlock()
	<-flowing
}

type freezingConn struct {
	net.Conn
	l *memoryListener
}

func (c *freezingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.l.wait()
	return n, err
}

func (c *freezingConn) Write(p []byte) (int, error) {
	c.l.wait()
	return c.Conn.Write(p)
}
