// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/e2e/cluster"
)

// Proxy is in front of a cluster's apiserver, ends TLS there with an authority of
// its own, and does to requests what its faults say. Only users with tokens can
// use it. It is safe for concurrent use.
type Proxy struct {
	cluster *cluster.Cluster
	ca      *authority
	backend *http.Transport
	server  *http.Server
	url     string
	running sync.WaitGroup

	mu      sync.Mutex
	dice    *rand.Rand
	faults  []*Fault
	watches map[*frames]bool
	// shows is what new connections are shown; open are those that are, with what they
	// were shown.
	shows *authority
	open  map[net.Conn]*authority
}

// authority is an authority with its server's certificate.
type authority struct {
	pem    []byte
	server tls.Certificate
}

func newAuthority(name string) (a *authority, err error) {
	a = &authority{}
	a.pem, a.server, err = cluster.NewServer(name)
	return a, err
}

// StartProxy starts a proxy without faults, which serves until Close. The seed
// decides which requests are met by a fault that meets only a share of them.
func StartProxy(c *cluster.Cluster, seed uint64) (*Proxy, error) {
	return startProxy(c, seed, nil)
}

// StartHTTP1Proxy starts one that speaks HTTP/1.1 alone: nobody can ping through it.
func StartHTTP1Proxy(c *cluster.Cluster, seed uint64) (*Proxy, error) {
	var only http.Protocols
	only.SetHTTP1(true)
	return startProxy(c, seed, &only)
}

func startProxy(c *cluster.Cluster, seed uint64, protocols *http.Protocols) (*Proxy, error) {
	fail := func(err error) (*Proxy, error) { return nil, fmt.Errorf("proxy of %s: %w", c.Name(), err) }
	target, err := url.Parse(c.URL())
	if err != nil {
		return fail(err)
	}
	ca, err := newAuthority(c.Name() + "-proxy")
	if err != nil {
		return fail(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.AdminConfig().CAData)
	p := &Proxy{
		cluster: c, ca: ca, dice: rand.New(rand.NewPCG(seed, 1)), watches: map[*frames]bool{},
		shows: ca, open: map[net.Conn]*authority{},
		backend: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, DisableCompression: true,
		},
	}
	listener, err := cluster.Listen()
	if err != nil {
		return fail(err)
	}
	p.url = "https://" + listener.Addr().String()
	silent := log.New(io.Discard, "", 0) // a client that went away is no news
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding")
		},
		Transport: p.backend, FlushInterval: -1, ErrorLog: silent, ModifyResponse: p.answer,
		// An apiserver that does not answer is a connection that breaks, not a 502.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{
		Protocols: protocols,
		Handler:   p.meet(forward), ErrorLog: silent, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{GetCertificate: p.certificate, MinVersion: tls.VersionTLS12},
		ConnState: p.connState,
	}
	p.running.Go(func() { _ = p.server.ServeTLS(listener, "", "") }) // says only that it was closed
	return p, nil
}

// Kubeconfig is the kubeconfig of a user with a token that leads to the proxy.
func (p *Proxy) Kubeconfig(u cluster.User) ([]byte, error) {
	if u.Token == "" {
		return nil, fmt.Errorf("proxy of %s: user %s has no token", p.cluster.Name(), u.Name)
	}
	return cluster.Kubeconfig(p.cluster.Name(), p.url, p.ca.pem, u)
}

// Renew has the proxy use another authority for new connections, and returns its
// certificate.
func (p *Proxy) Renew() ([]byte, error) {
	next, err := newAuthority(p.cluster.Name() + "-proxy-renewed")
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shows = next
	return next.pem, nil
}

// Connections counts those that were begun before the last Renew and go on, and those
// that were begun since.
func (p *Proxy) Connections() (former, current int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, shown := range p.open {
		if shown == p.shows {
			current++
		} else {
			former++
		}
	}
	return former, current
}

func (p *Proxy) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &p.shows.server, nil
}

func (p *Proxy) connState(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.open[c] = p.shows
	case http.StateClosed, http.StateHijacked:
		delete(p.open, c)
	}
}

// Set replaces all faults. Requests that the former ones hang go on hanging
// until their clients leave or Close.
func (p *Proxy) Set(faults ...*Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
}

// EndWatches ends all watches, as an apiserver does at their time limit.
func (p *Proxy) EndWatches() {
	p.mu.Lock()
	open := make([]*frames, 0, len(p.watches))
	for w := range p.watches {
		open = append(open, w)
	}
	p.mu.Unlock()
	for _, w := range open {
		w.end()
	}
}

// Freeze lets the watches that are open tell nothing any more, while everything else is
// answered: other watches, too.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.watches {
		w.frozen.Store(true)
	}
}

// Relist makes clients list these resources anew: their watches end, and cannot
// be resumed once each. It adds to the faults that are set.
func (p *Proxy) Relist(resources ...string) {
	p.mu.Lock()
	for _, r := range resources {
		p.faults = append([]*Fault{{Match: Resumes(r), Status: http.StatusGone, Times: 1}}, p.faults...)
	}
	p.mu.Unlock()
	p.EndWatches()
}

// Close cuts all connections.
func (p *Proxy) Close() {
	_ = p.server.Close()
	p.running.Wait()
	p.backend.CloseIdleConnections()
}

// pick returns the first fault that meets a request, nil if none does.
func (p *Proxy) pick(q Request) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.faults, func(f *Fault) bool {
		if f.Match != nil && !f.Match(q) || f.Times > 0 && f.met.Load() >= int64(f.Times) {
			return false
		}
		return f.Share == 0 || p.dice.Float64() < f.Share
	})
	if i < 0 {
		return nil
	}
	p.faults[i].met.Add(1)
	return p.faults[i]
}

// faultKey is under which a request carries its fault to the answer.
type faultKey struct{}

// meet does what a fault does to requests.
func (p *Proxy) meet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := parse(r)
		f := p.pick(q)
		switch {
		case f == nil:
		case f.Hang:
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		case f.CutBefore:
			panic(http.ErrAbortHandler)
		case f.Status != 0:
			f.refuse(w)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), faultKey{}, met{q, f})))
	})
}

// met is a request with the fault that meets it, nil if none does.
type met struct {
	Request
	fault *Fault
}

var errCut = errors.New("cut on purpose")

// answer does what a fault does to answers.
func (p *Proxy) answer(resp *http.Response) error {
	m, _ := resp.Request.Context().Value(faultKey{}).(met)
	if m.fault != nil && m.fault.CutAfter {
		return errCut
	}
	if resp.StatusCode != http.StatusOK || m.Verb != "list" && m.Verb != "watch" {
		return nil
	}
	if m.Verb == "watch" {
		return p.watch(resp, m.fault)
	}
	if m.fault == nil || m.fault.Hide == nil {
		return nil
	}
	return hideFromList(resp, m.fault.Hide)
}
