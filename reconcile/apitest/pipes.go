// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
)

// Way is what becomes of connections to a server that is reached over pipes.
type Way int

// The ways.
const (
	// Open connections lead to the server.
	Open Way = iota
	// Closing accepts connections and closes them at once, as a load balancer does
	// behind which nobody is.
	Closing
	// Nobody is at the address: connections are refused.
	Nobody
)

// NewPiped starts a server that is reached over pipes within the process, so that a
// synctest bubble can hold both ends: start it there.
func NewPiped(t testing.TB) *Server {
	t.Helper()
	s := &Server{store: newStore(), pipes: &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}}
	s.http = &httptest.Server{Listener: s.pipes, Config: &http.Server{Handler: s}}
	s.http.Start()
	t.Cleanup(s.Close)
	return s
}

// Lead sets what becomes of connections to a piped server. Those that stand are cut.
func (s *Server) Lead(w Way) { s.pipes.lead(w) }

// pipes is a listener whose connections are made within the process.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once

	mu    sync.Mutex
	way   Way
	conns []net.Conn
}

func (p *pipes) lead(w Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.way = w
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	p.mu.Lock()
	way := p.way
	if way == Open {
		p.conns = append(p.conns, far)
	}
	p.mu.Unlock()
	switch way {
	case Nobody:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}
	case Closing:
		_ = far.Close()
		return ended{near}, nil
	}
	select {
	case p.accepted <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ended is a connection that the other side has closed. Unlike a pipe's it takes what
// is written, as a socket does for a while.
type ended struct{ net.Conn }

// Read implements net.Conn.
func (ended) Read([]byte) (int, error) { return 0, io.EOF }

// Write implements net.Conn.
func (ended) Write(b []byte) (int, error) { return len(b), nil }

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "ingress.test", Net: "pipe"} }
