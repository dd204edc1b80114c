// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Clock is what a server says of the time in its answers. It is safe for concurrent use;
// the zero value has seen nothing.
type Clock struct{ behind atomic.Pointer[time.Duration] }

// Wrap listens to the answers to requests.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper { return clockReader{wrapped{next}, c} }

// Behind is how far the server's clock is behind ours, by its last answer, at most: an
// answer takes its time, and tells whole seconds. Negative is ahead. known is false if
// no answer has said.
func (c *Clock) Behind() (behind time.Duration, known bool) {
	if is := c.behind.Load(); is != nil {
		return *is, true
	}
	return 0, false
}

type clockReader struct {
	wrapped
	clock *Clock
}

// RoundTrip implements http.RoundTripper.
func (t clockReader) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if told, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		behind := time.Since(told)
		t.clock.behind.Store(&behind)
	}
	return resp, nil
}
