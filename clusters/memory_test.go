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
	closing int
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
	case l.conns <- buffer(&freezingConn{Conn: server, l: l}):
		return &countedConn{Conn: buffer(client), l: l}, nil
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

// open is how many connections have been dialled and not been closed by the
// client.
func (l *memoryListener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialled - l.closing
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

// bufferedConn never blocks a writer, as a socket does not while its buffer has
// room: HTTP/2 holds a lock while it writes, and a goroutine that waits for a
// lock keeps virtual time from passing.
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

func (b *bufferedConn) Close() error {
	b.mu.Lock()
	b.closed = true
	b.more.Signal()
	b.mu.Unlock()
	return b.Conn.Close()
}

type countedConn struct {
	net.Conn
	l    *memoryListener
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.l.closing++
	})
	return c.Conn.Close()
}
