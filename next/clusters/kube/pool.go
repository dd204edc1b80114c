// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// openingTimeout bounds making a connection, the question for the identity included.
	openingTimeout = 10 * time.Second
	// idleTimeout is how long a connection stays open over which nothing goes.
	idleTimeout = 90 * time.Second
	// believedFor is how long a connection is used whose cluster may not be asked for its
	// identity: a server that has just started refuses that for a moment.
	believedFor = time.Minute
	// justProved is how long the proof of a connection is as good as a new one.
	justProved = 2 * time.Second
)

// pool holds the connections of a session. It stands where http.Transport's own pool would,
// for two reasons: each connection may end in another cluster than the one before it, so
// each is proved before it is used; and one over which a watch has frozen must be closed.
// Safe for concurrent use.
type pool struct {
	transport *http.Transport
	// prove asks for the identity of the cluster, over the connection that is in the context.
	// told is false where that may not be asked.
	prove func(ctx context.Context) (told bool, err error)
	heard *heard

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	dials  sync.WaitGroup

	mu      sync.Mutex
	conns   []*conn // replaced, never edited
	opening *opening
	one     bool          // a connection takes many requests (HTTP/2): one is opened at a time
	changed chan struct{} // closed when a connection may be free; nil while nobody waits
	closed  bool
}

// conn is one connection.
type conn struct {
	*http.ClientConn
	made time.Time
	// until is when it is believed no longer; zero: as long as it lives.
	until time.Time
	// used is when it was used last, in nanoseconds of Unix time.
	used atomic.Int64
	// leaving: no new request is sent over it, and it is closed when none is under way.
	leaving atomic.Bool
}

// opening is a connection that is being made. err is set before done is closed.
type opening struct {
	done chan struct{}
	err  error
}

func newPool(transport *http.Transport, heard *heard) *pool {
	p := &pool{transport: transport, heard: heard, one: true}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// through and using are keys of contexts: the connection to use, and where to note the one
// that is used.
type (
	through struct{}
	using   struct{}
)

// RoundTrip implements http.RoundTripper.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	c, given := ctx.Value(through{}).(*conn)
	for attempt := 0; ; attempt++ {
		if !given {
			var err error
			if c, err = p.acquire(ctx, req.URL.Scheme, address(req.URL)); err != nil {
				if req.Body != nil {
					_ = req.Body.Close()
				}
				return nil, err
			}
		}
		if note, ok := ctx.Value(using{}).(*atomic.Pointer[conn]); ok {
			note.Store(c)
		}
		c.used.Store(time.Now().UnixNano())
		resp, err := c.RoundTrip(req)
		if err == nil {
			p.heard.answer(resp)
			return resp, nil
		}
		// A server closes what is idle, perhaps at the moment when it is used again.
		if given || attempt > 0 || req.Method != http.MethodGet || ctx.Err() != nil || c.Err() == nil {
			return nil, err
		}
	}
}

// acquire returns a connection with room for one request.
func (p *pool) acquire(ctx context.Context, scheme, address string) (*conn, error) {
	var mine *opening
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, errNoSession
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		if c := p.reserve(); c != nil {
			return c, nil
		}
		if mine == nil {
			mine = p.open(scheme, address)
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

// reserve takes room in a connection that has some, if any.
func (p *pool) reserve() *conn {
	p.mu.Lock()
	conns := p.conns
	p.mu.Unlock()
	for _, c := range conns {
		if c.leaving.Load() || c.Reserve() != nil {
			continue
		}
		if !c.leaving.Load() { // who has set it since may not have seen the reservation
			return c
		}
		c.Release()
	}
	return nil
}

// open makes a connection, or shares one that is being made and takes many requests.
func (p *pool) open(scheme, address string) *opening {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.one && p.opening != nil {
		return p.opening
	}
	o := &opening{done: make(chan struct{})}
	if p.closed {
		o.err = errNoSession
		close(o.done)
		return o
	}
	p.opening = o
	p.dials.Go(func() {
		c, err := p.connect(scheme, address)
		p.opened(o, c, err)
	})
	return o
}

// connect makes a connection to the cluster that is meant.
func (p *pool) connect(scheme, address string) (*conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, openingTimeout)
	defer cancel()
	made, err := p.transport.NewClientConn(ctx, scheme, address)
	if err != nil {
		return nil, err
	}
	c := &conn{ClientConn: made}
	told, err := p.prove(context.WithValue(ctx, through{}, c))
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	if c.made = time.Now(); !told {
		c.until = c.made.Add(believedFor)
	}
	return c, nil
}

// opened hands on what has come of making a connection.
func (p *pool) opened(o *opening, c *conn, err error) {
	p.mu.Lock()
	if p.opening == o {
		p.opening = nil
	}
	if err == nil {
		p.one = c.Available() > 1
		p.conns = append(slices.Clone(p.conns), c)
		if p.closed {
			defer c.Close()
		}
	}
	p.mu.Unlock()
	if o.err = err; err == nil {
		c.SetStateHook(func(*http.ClientConn) { p.settle() })
	}
	close(o.done)
}

// settle is called when a request has ended or a connection: it closes what has nothing more
// to do, forgets what is closed, and wakes who waits for a connection.
func (p *pool) settle() {
	now := time.Now()
	var idle []*conn
	p.mu.Lock()
	for _, c := range p.conns {
		expired := !c.until.IsZero() && now.After(c.until)
		unused := now.Sub(time.Unix(0, c.used.Load())) > idleTimeout
		if expired || unused && c.InFlight() == 0 {
			c.leaving.Store(true)
		}
		if c.leaving.Load() && c.InFlight() == 0 {
			idle = append(idle, c)
		}
	}
	ended := func(c *conn) bool { return c.Err() != nil || slices.Contains(idle, c) }
	if slices.ContainsFunc(p.conns, ended) {
		p.conns = slices.DeleteFunc(slices.Clone(p.conns), ended)
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	p.mu.Unlock()
	for _, c := range idle { // not under the lock: it calls settle
		_ = c.Close()
	}
}

// renew has no request sent any more over the connections that stand, those excepted that
// have just proved themselves, and closes each when nothing is under way over it.
func (p *pool) renew() {
	p.mu.Lock()
	for _, c := range p.conns {
		if time.Since(c.made) > justProved {
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
	conns := p.conns
	p.mu.Unlock()
	p.cancel()
	for _, c := range conns {
		_ = c.Close()
	}
	p.dials.Wait()
	p.settle()
}
