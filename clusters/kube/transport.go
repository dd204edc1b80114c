// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/transport"
)

// A server that is frozen, or that a silent network drop has cut off, is noticed
// after pingAfter+pingTimeout: client-go's defaults take 45 s.
const (
	pingAfter    = 5 * time.Second
	pingTimeout  = 3 * time.Second
	dialTimeout  = 5 * time.Second
	tlsTimeout   = 5 * time.Second
	idleTimeout  = 90 * time.Second
	idlePerHost  = 25
	keepAlive    = 30 * time.Second
	writeTimeout = 10 * time.Second
	// requestTimeout bounds requests other than watches that have no deadline of
	// their own. An API server gives up after 60 s.
	requestTimeout = 60 * time.Second
)

// newTransport builds a transport that nothing else uses.
func newTransport(tc *transport.Config) (*http.Transport, error) {
	tls, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(len(tc.TLS.NextProtos) == 0 || slices.Contains(tc.TLS.NextProtos, "h2"))
	proxy := http.ProxyFromEnvironment
	if tc.Proxy != nil {
		proxy = tc.Proxy
	}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         tc.DialHolder.Dial,
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: tlsTimeout,
		MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  tc.DisableCompression,
		Protocols:           protocols,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:  pingAfter,
			PingTimeout:      pingTimeout,
			WriteByteTimeout: writeTimeout,
		},
	}, nil
}

// DialFunc makes one connection.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dial counts what it dials. next is the configuration's own dialer, wrap what stands
// around it; usually nil.
func (c *Connection) dial(next DialFunc, wrap func(DialFunc) DialFunc) DialFunc {
	if next == nil {
		next = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
	}
	if wrap != nil {
		next = wrap(next)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err == nil {
			c.dials.Add(1)
		}
		return conn, err
	}
}

// wrapped lets client-go find the transport below another.
type wrapped struct{ next http.RoundTripper }

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (w wrapped) WrappedRoundTripper() http.RoundTripper { return w.next }

// roundTripper gives requests without a deadline one, watches excepted.
type roundTripper struct{ wrapped }

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	_, bounded := ctx.Deadline()
	if bounded || isWatch(req) {
		return t.next.RoundTrip(req)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = cancelBody{resp.Body, cancel}
	return resp, nil
}

// pluginRequests bounds the requests that may wait for a credential plugin at once.
const pluginRequests = 64

// detached lets a request end with its context although a credential plugin hangs:
// client-go waits for the plugin without regard to the request. What is left behind ends
// with the plugin.
type detached struct {
	wrapped
	slots *semaphore.Weighted
}

func newDetached(next http.RoundTripper) detached {
	return detached{wrapped{next}, semaphore.NewWeighted(pluginRequests)}
}

// RoundTrip implements http.RoundTripper.
func (t detached) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := t.slots.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("the credential plugin does not answer: %w", err)
	}
	type answer struct {
		resp *http.Response
		err  error
	}
	answers := make(chan answer)
	go func() {
		defer t.slots.Release(1)
		resp, err := t.next.RoundTrip(req)
		select {
		case answers <- answer{resp, err}:
		case <-ctx.Done():
			if err == nil {
				_ = resp.Body.Close()
			}
		}
	}()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func isWatch(req *http.Request) bool {
	watch := req.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// cancelBody ends the request's context when its body has been read.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b cancelBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}
