// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memnet is a network in memory for tests in virtual time: a listener
// that can freeze, close and refuse, and connections whose waits a synctest bubble sees.
package memnet

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// Way is what happens to new connections.
type Way int

// The ways.
const (
	// Open connections lead to the listener.
	Open Way = iota
	// Closing accepts connections and closes them at once, as a load balancer without
	// backends does.
	Closing
	// Nobody listens at the address: connections are refused, as by a host without the process.
	Nobody
)

// Listener hands out connections through memory. It can freeze, as a
// stopped process does: connections are accepted, nothing is answered.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	flowing chan struct{} // closed while not frozen
	way     Way
	open    []net.Conn
	dialled int
	closing int
}

// New returns a listener that lets everything through.
func New() *Listener {
	l := &Listener{conns: make(chan net.Conn), closed: make(chan struct{}), flowing: make(chan struct{})}
	close(l.flowing)
	return l
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// Dial connects to the listener, whatever the address.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	l.mu.Lock()
	way := l.way
	if way != Nobody {
		l.dialled++
		l.open = append(l.open, server)
	}
	l.mu.Unlock()
	switch way {
	case Nobody:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	case Closing:
		_ = server.Close()
		return &countedConn{Conn: buffer(client), l: l}, nil
	}
	accepted := buffer(&freezingConn{Conn: server, l: l})
	err := error(nil)
	select {
	case l.conns <- accepted:
		return &countedConn{Conn: buffer(client), l: l}, nil
	case <-l.closed:
		err = &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = accepted.Close() // nothing else would end its writing goroutine
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing++ // the client has none to close
	return nil, err
}

// Dials is how many connections have been dialled.
func (l *Listener) Dials() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialled
}

// Open is how many connections have been dialled and not been closed by the
// client.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialled - l.closing
}

// Lead sets what happens to connections that are dialled from now on.
func (l *Listener) Lead(w Way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.way = w
}

// Cut closes all open connections.
func (l *Listener) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

// Freeze stops all connections without closing them.
func (l *Listener) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flowing = make(chan struct{})
}

// Thaw ends Freeze.
func (l *Listener) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.flowing:
	default:
		close(l.flowing)
	}
}

func (l *Listener) wait() {
	l.mu.Lock()
	flowing := l.flowing
	l.mu.Unlock()
	<-flowing
}

type freezingConn struct {
	net.Conn
	l *Listener
}

// Read implements net.Conn.
func (c *freezingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.l.wait()
	return n, err
}

// Write implements net.Conn.
func (c *freezingConn) Write(p []byte) (int, error) {
	c.l.wait()
	return c.Conn.Write(p)
}

// bufferedConn never blocks a writer, as a socket does not while its buffer has
// room: HTTP/2 holds a lock while it writes, and a goroutine that waits for a
// lock stops virtual time.
type bufferedConn struct {
	net.Conn
	mu     sync.Mutex
	more   sync.Cond
	queue  [][]byte
	closed bool
}

func buffer(c net.Conn) net.Conn {
	b := &bufferedConn{Conn: c}
	b.more.L = &b.mu
	go b.run()
	return b
}

func (b *bufferedConn) run() {
	for {
		b.mu.Lock()
		for len(b.queue) == 0 && !b.closed {
			b.more.Wait()
		}
		if b.closed {
			b.mu.Unlock()
			return
		}
		next := b.queue[0]
		b.queue = b.queue[1:]
		b.mu.Unlock()
		if _, err := b.Conn.Write(next); err != nil {
			return
		}
	}
}

// Write implements net.Conn.
func (b *bufferedConn) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, net.ErrClosed
	}
	b.queue = append(b.queue, append([]byte(nil), p...))
	b.more.Signal()
	return len(p), nil
}

// Close implements net.Conn.
func (b *bufferedConn) Close() error {
	b.mu.Lock()
	b.closed = true
	b.more.Signal()
	b.mu.Unlock()
	return b.Conn.Close()
}

type countedConn struct {
	net.Conn
	l    *Listener
	once sync.Once
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.l.closing++
	})
	return c.Conn.Close()
}
