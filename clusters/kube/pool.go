// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// connectTimeout bounds making a connection, the question for the identity included.
	connectTimeout = 10 * time.Second
	// justProved is the age up to which a connection counts as just proved.
	justProved = 2 * time.Second
)

// pool holds the connections of a session. It takes the place of http.Transport's own pool, for
// two reasons: each connection may end in another cluster than the one before it, so each is
// proved before it is used; and one over which a watch has frozen must be closed.
// Safe for concurrent use.
type pool struct {
	transport *http.Transport
	// prove returns nil unless the connection in the context leads to another cluster, or
	// could not be asked.
	prove func(ctx context.Context) error
	heard heard
	ended context.Context
	end   context.CancelFunc

	making singleflight.Group // of connections, one at a time

	mu    sync.Mutex
	conns []*conn // replaced, never edited
}

// conn is one connection.
type conn struct {
	*http.ClientConn
	made    time.Time
	leaving atomic.Bool // no new request is sent over it, and it is closed when none is under way
}

func newPool(transport *http.Transport, prove func(context.Context) error) *pool {
	p := &pool{transport: transport, prove: prove}
	p.ended, p.end = context.WithCancel(context.Background())
	return p
}

// through is the key of a context that names the *conn to use.
type through struct{}

// RoundTrip implements http.RoundTripper.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if c, ok := ctx.Value(through{}).(*conn); ok {
		return p.send(c, req)
	}
	for attempt := 0; ; attempt++ {
		c, err := p.acquire(ctx, req.URL)
		if p.ended.Err() != nil {
			err = errNoSession
		}
		if err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, err
		}
		resp, err := p.send(c, req)
		// A server closes what is idle, perhaps at the moment when it is used again.
		if err == nil || attempt > 0 || req.Method != http.MethodGet || ctx.Err() != nil || c.Err() == nil {
			return resp, err
		}
	}
}

// send bounds the size of answers, other than those to watches.
func (p *pool) send(c *conn, req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	p.heard.answer(resp)
	if req.URL.Query().Get("watch") == "" || resp.StatusCode != http.StatusOK {
		resp.Body = http.MaxBytesReader(nil, resp.Body, answerBytes)
	}
	return resp, nil
}

// acquire returns a connection in which room for one request has been reserved. One is made
// at a time, and all who wait for it share a failure.
func (p *pool) acquire(ctx context.Context, to *url.URL) (*conn, error) {
	for {
		if c := p.reserve(); c != nil {
			return c, nil
		}
		select {
		case made := <-p.making.DoChan("", func() (any, error) { return nil, p.connect(to) }):
			if made.Err != nil {
				return nil, made.Err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// reserve reserves room for a request in a connection; nil: none has room.
func (p *pool) reserve() *conn {
	p.mu.Lock()
	conns := p.conns
	p.mu.Unlock()
	for _, c := range conns { // not under the lock: Reserve calls settle
		if c.leaving.Load() || c.Reserve() != nil {
			continue
		}
		if !c.leaving.Load() { // whoever has set it since may not have seen the reservation
			return c
		}
		c.Release()
	}
	return nil
}

// connect makes a connection to the cluster that is meant, for whoever reserves room in it first,
// unless there is room by now.
func (p *pool) connect(to *url.URL) error {
	if c := p.reserve(); c != nil {
		c.Release()
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ended, connectTimeout)
	defer cancel()
	port := cmp.Or(to.Port(), map[string]string{"http": "80", "https": "443"}[to.Scheme])
	made, err := p.transport.NewClientConn(ctx, to.Scheme, net.JoinHostPort(to.Hostname(), port))
	if err != nil {
		return err
	}
	c := &conn{ClientConn: made}
	if err = p.prove(context.WithValue(ctx, through{}, c)); err == nil {
		err = c.Reserve() // it fails where the server takes no second request
	}
	if err != nil {
		_ = c.Close()
		return err
	}
	c.Release()
	c.made = time.Now()
	p.mu.Lock()
	p.conns = append(slices.Clone(p.conns), c)
	p.mu.Unlock()
	c.SetStateHook(func(*http.ClientConn) { p.settle() })
	p.settle() // the pool may have been closed
	return nil
}

// settle closes leaving connections that have no request under way, and drops closed ones.
func (p *pool) settle() {
	var remaining, over []*conn
	p.mu.Lock()
	for _, c := range p.conns {
		if c.Err() != nil || p.ended.Err() != nil || c.leaving.Load() && c.InFlight() == 0 {
			over = append(over, c)
		} else {
			remaining = append(remaining, c)
		}
	}
	p.conns = remaining
	p.mu.Unlock()
	for _, c := range over { // not under the lock: it calls settle
		_ = c.Close()
	}
}

// retire implements Session.retire.
func (p *pool) retire(age time.Duration) {
	p.mu.Lock()
	for _, c := range p.conns {
		if time.Since(c.made) >= age {
			c.leaving.Store(true)
		}
	}
	p.mu.Unlock()
	p.settle()
}

// close ends all requests and connections.
func (p *pool) close() {
	p.end()
	p.settle()
}
