// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// connectTimeout bounds making a connection, the question for the identity included.
	connectTimeout = 10 * time.Second
	// justProved is how long the proof of a connection is as good as a new one.
	justProved = 2 * time.Second
)

// pool holds the connections of a session. It stands where http.Transport's own pool would,
// for two reasons: each connection may end in another cluster than the one before it, so
// each is proved before it is used; and one over which a watch has frozen must be closed.
// Safe for concurrent use.
type pool struct {
	transport *http.Transport
	// prove returns nil unless the connection in the context leads to another cluster, or
	// could not be asked.
	prove func(ctx context.Context) error
	heard *heard

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	dials  sync.WaitGroup

	mu      sync.Mutex
	conns   []*conn // replaced, never edited
	dial    *dial   // the last; nil when it has ended
	shared  bool    // a connection takes many requests (HTTP/2): one is made at a time
	changed chan struct{}
	closed  bool
}

// conn is one connection.
type conn struct {
	*http.ClientConn
	made time.Time
	// leaving: no new request is sent over it, and it is closed when none is under way.
	leaving atomic.Bool
}

// dial is a connection that is being made. err is set before done is closed.
type dial struct {
	done chan struct{}
	err  error
}

func newPool(transport *http.Transport, heard *heard) *pool {
	p := &pool{transport: transport, heard: heard, shared: true, changed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Keys of contexts: the *conn to use, and where to note the one that is used, an
// *atomic.Pointer[conn].
type (
	through struct{}
	using   struct{}
)

// RoundTrip implements http.RoundTripper.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if c, ok := ctx.Value(through{}).(*conn); ok {
		return p.send(c, req)
	}
	for attempt := 0; ; attempt++ {
		c, err := p.acquire(ctx, req.URL)
		if err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, err
		}
		if note, ok := ctx.Value(using{}).(*atomic.Pointer[conn]); ok {
			note.Store(c)
		}
		resp, err := p.send(c, req)
		// A server closes what is idle, perhaps at the moment when it is used again.
		if err == nil || attempt > 0 || req.Method != http.MethodGet || ctx.Err() != nil || c.Err() == nil {
			return resp, err
		}
	}
}

func (p *pool) send(c *conn, req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTrip(req)
	if err == nil {
		p.heard.answer(resp)
	}
	return resp, err
}

// acquire returns a connection in which room for one request has been reserved.
func (p *pool) acquire(ctx context.Context, to *url.URL) (*conn, error) {
	var mine *dial
	for {
		p.mu.Lock()
		conns, changed := p.conns, p.changed
		p.mu.Unlock()
		for _, c := range conns {
			if c.leaving.Load() || c.Reserve() != nil {
				continue
			}
			if !c.leaving.Load() { // who has set it since may not have seen the reservation
				return c, nil
			}
			c.Release()
		}
		if mine == nil {
			mine = p.connect(to)
		}
		select {
		case <-mine.done:
			if mine.err != nil {
				return nil, mine.err
			}
			mine = nil
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// connect begins to make a connection, or shares one that is being made.
func (p *pool) connect(to *url.URL) *dial {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared && p.dial != nil {
		return p.dial
	}
	d := &dial{done: make(chan struct{})}
	if p.closed {
		d.err = errNoSession
		close(d.done)
		return d
	}
	p.dial = d
	p.dials.Go(func() {
		defer close(d.done)
		c, err := p.proved(to)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.dial == d {
			p.dial = nil
		}
		if d.err = err; err == nil {
			p.shared = c.Available() > 1
			p.conns = append(slices.Clone(p.conns), c)
		}
	})
	return d
}

// proved makes a connection to the cluster that is meant.
func (p *pool) proved(to *url.URL) (*conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, connectTimeout)
	defer cancel()
	port := to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[to.Scheme]
	}
	made, err := p.transport.NewClientConn(ctx, to.Scheme, net.JoinHostPort(to.Hostname(), port))
	if err != nil {
		return nil, err
	}
	c := &conn{ClientConn: made}
	if err := p.prove(context.WithValue(ctx, through{}, c)); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.made = time.Now()
	c.SetStateHook(func(*http.ClientConn) { p.settle() })
	return c, nil
}

// settle is called when a request has ended or a connection: it closes those that are to
// leave, forgets those that are closed, and wakes who waits for one.
func (p *pool) settle() {
	p.mu.Lock()
	ended := func(c *conn) bool { return c.Err() != nil || c.leaving.Load() && c.InFlight() == 0 }
	var left []*conn
	if slices.ContainsFunc(p.conns, ended) {
		all := p.conns
		p.conns = slices.DeleteFunc(slices.Clone(all), ended)
		left = slices.DeleteFunc(slices.Clone(all), func(c *conn) bool { return slices.Contains(p.conns, c) })
	}
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	for _, c := range left { // not under the lock: it calls settle
		_ = c.Close()
	}
}

// renew has no request sent any more over connections that were made that long ago, and
// closes each when nothing is under way over it.
func (p *pool) renew(age time.Duration) {
	p.mu.Lock()
	for _, c := range p.conns {
		if time.Since(c.made) >= age {
			c.leaving.Store(true)
		}
	}
	p.mu.Unlock()
	p.settle()
}

// close ends all requests and connections, and returns when nothing runs any more.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.dials.Wait()
	p.mu.Lock()
	conns := p.conns
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}
