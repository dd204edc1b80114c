// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	// A server that is frozen, or that a silent network drop has cut off, is noticed
	// after pingAfter+pingTimeout where it speaks HTTP/2: client-go's defaults take 45 s.
	pingAfter   = 5 * time.Second
	pingTimeout = 3 * time.Second
	// answerBytes bounds what is read of an answer other than a watch. 500 ordinary pods have
	// 5 MB and the largest object that an API server stores by default has 1.5 MB; it is what
	// a member can make us hold at a time, in memory twice: as it came and decoded.
	answerBytes = 8 << 20
)

// newTransport builds a transport that nothing else uses. It is not client-go's usual way,
// which shares transports between all users of equal credentials: a member must not wait
// behind another's requests, and the ends of a connection must be ours to decide.
func newTransport(tc *transport.Config) (*http.Transport, error) {
	tls, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(len(tc.TLS.NextProtos) == 0 || slices.Contains(tc.TLS.NextProtos, "h2"))
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: 5 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  tc.DisableCompression,
		Protocols:           protocols,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: 10 * time.Second},
	}
	if tc.Proxy != nil {
		t.Proxy = tc.Proxy
	}
	if tc.DialHolder != nil {
		t.DialContext = tc.DialHolder.Dial
	}
	return t, nil
}

// newClient sends requests, from the inside out, through the session's pool, the credential, and what
// observes. A redirection is not followed: the credential is for nobody else.
func (s *Session) newClient(ctx context.Context, cfg *rest.Config, observe func(http.RoundTripper) http.RoundTripper) (*http.Client, error) {
	tc, err := cfg.TransportConfig()
	if err != nil {
		return nil, err
	}
	connections, err := newTransport(tc)
	if err != nil {
		return nil, err
	}
	s.pool = newPool(connections, s.prove)
	rt, err := transport.HTTPWrappersForConfig(tc, s.pool)
	if err != nil {
		return nil, err
	}
	if cfg.ExecProvider != nil || cfg.AuthProvider != nil {
		of, _ := ctx.Value(slots{}).(chan struct{})
		rt = detached{rt, cmp.Or(of, make(chan struct{}, mostDetached))}
	}
	if observe != nil {
		rt = observe(rt)
	}
	return &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the server redirects the request, and is not followed")
	}}, nil
}

// detached lets a request end with its context although a credential plugin hangs:
// client-go waits for the plugin without regard to the request. What is left behind ends
// with the plugin, and keeps one of the slots that all sessions of a credential share.
type detached struct {
	next  http.RoundTripper
	slots chan struct{}
}

// mostDetached is how many slots there are, of which each request has one until it is answered.
const mostDetached = 200

// slots is the key of a context in which they are.
type slots struct{}

// RoundTrip implements http.RoundTripper.
func (t detached) RoundTrip(req *http.Request) (*http.Response, error) {
	type answer struct {
		resp *http.Response
		err  error
	}
	answers, slots := make(chan answer), t.slots
	if req.Context().Value(through{}) != nil { // of the one proof of a connection, for which others wait with theirs
		slots = make(chan struct{}, 1)
	}
	select {
	case slots <- struct{}{}:
	case <-req.Context().Done():
		return nil, fmt.Errorf("wait for the answers to earlier requests: %w", req.Context().Err())
	}
	go func() {
		defer func() { <-slots }()
		resp, err := t.next.RoundTrip(req)
		select {
		case answers <- answer{resp, err}:
		case <-req.Context().Done():
			if err == nil {
				_ = resp.Body.Close()
			}
		}
	}()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-req.Context().Done():
		return nil, fmt.Errorf("wait for the credential plugin and the answer: %w", req.Context().Err())
	}
}

// heard is what the answers of a server say of it besides their content. Safe for concurrent use.
type heard struct {
	last   atomic.Int64 // when it last sent something, in nanoseconds of Unix time
	offset atomic.Int64 // of its clock, in nanoseconds
}

func (h *heard) now() { h.last.Store(time.Now().UnixNano()) }

// answer reads the clock of a server off an answer. As a Date tells whole seconds, only what
// differs by more counts.
func (h *heard) answer(resp *http.Response) {
	h.now()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	offset := max(-time.Hour, min(time.Until(date.Add(time.Second/2)), time.Hour))
	if (offset - time.Duration(h.offset.Load())).Abs() >= time.Second {
		h.offset.Store(int64(offset))
	}
}
