// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// tripper answers requests as it is told, and counts them.
type tripper struct {
	calls  int
	answer func(*http.Request) (*http.Response, error)
}

func (t *tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	t.calls++
	return t.answer(req)
}

func answered(status int, text string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
}

// unanswered is a server that says nothing until the client gives up.
func unanswered(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func request(t *testing.T, method, url string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

const services = "https://api/api/v1/namespaces/shop/services"

func TestOnlyReadingPassesWithoutThePermit(t *testing.T) {
	for _, c := range []struct {
		method, url string
		passes      bool
	}{
		{http.MethodGet, services, true},
		{http.MethodHead, services, true},
		{http.MethodPost, services, false},
		{http.MethodPut, services + "/web", false},
		{http.MethodPatch, services + "/web", false},
		{http.MethodDelete, services + "/web", false},
		{http.MethodPost, services + "?dryRun=All", false},
		{http.MethodPost, "https://api/apis/coordination.k8s.io/v1/namespaces/own/leases", false},
		{http.MethodPost, "https://api/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
	} {
		next := &tripper{answer: answered(http.StatusOK, "{}")}
		p := &Permit{}
		resp, err := p.RoundTripper(next).RoundTrip(request(t, c.method, c.url))
		if (err == nil) != c.passes || (next.calls == 1) != c.passes || err != nil && !errors.Is(err, ErrNotLeading) {
			t.Errorf("%s %s: %d sent, %v", c.method, c.url, next.calls, err)
		}
		if err == nil {
			resp.Body.Close()
		}
		p.open()
		p.extend(time.Now().Add(time.Hour))
		if resp, err = p.RoundTripper(next).RoundTrip(request(t, c.method, c.url)); err != nil {
			t.Errorf("%s %s with the permit: %v", c.method, c.url, err)
		} else {
			resp.Body.Close()
		}
		p.Revoke()
	}
}

// TestTrialChangesNothing: who only tries out may read and have dry runs made.
func TestTrialChangesNothing(t *testing.T) {
	for _, c := range []struct {
		method, url string
		passes      bool
	}{
		{http.MethodGet, services, true},
		{http.MethodPost, services, false},
		{http.MethodPost, services + "?dryRun=All", true},
		{http.MethodPut, services + "/web?dryRun=", false},
		{http.MethodDelete, services + "/web?dryRun=None", false},
		{http.MethodDelete, services + "/web?dryRun=All", true},
	} {
		next := &tripper{answer: answered(http.StatusOK, "{}")}
		resp, err := Trial(next).RoundTrip(request(t, c.method, c.url))
		if (err == nil) != c.passes || (next.calls == 1) != c.passes || err != nil && !errors.Is(err, ErrNotLeading) {
			t.Errorf("%s %s: %d sent, %v", c.method, c.url, next.calls, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}

// A request under way ends with the permit, by time or because it is revoked.
func TestRequestEndsWithThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Permit
		send := func() (took time.Duration, err error) {
			began := time.Now()
			_, err = p.RoundTripper(&tripper{answer: unanswered}).RoundTrip(request(t, http.MethodPut, services))
			return time.Since(began), err
		}
		p.open()
		p.extend(time.Now().Add(3 * time.Second))
		if took, err := send(); took != 3*time.Second || !errors.Is(err, ErrNotLeading) {
			t.Errorf("ended after %s: %v", took, err)
		}
		p.extend(time.Now().Add(time.Minute))
		time.AfterFunc(time.Second, p.Revoke)
		if took, err := send(); took != time.Second || !errors.Is(err, ErrNotLeading) {
			t.Errorf("ended after %s: %v", took, err)
		}
		p.extend(time.Now().Add(time.Minute)) // acknowledged late
		if p.MayWrite() {
			t.Error("held again after it was revoked")
		}
		p.holdAlone()
		if !p.MayWrite() {
			t.Error("not held alone")
		}
		p.Revoke()
	})
}

// What a woken process still has in its buffers never leaves it; what is read before
// anybody leads does.
func TestConnectionSendsNothingAfterThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Permit
		connect := func() (net.Conn, net.Conn) {
			near, far := net.Pipe()
			c, err := p.Dial(func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "tcp", "")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, far) }()
			return c, far
		}
		first, far := connect()
		defer far.Close()
		p.open()
		if _, err := first.Write([]byte("GET")); err != nil {
			t.Fatalf("before anybody leads: %v", err)
		}
		p.extend(time.Now().Add(time.Second))
		if _, err := first.Write([]byte("PUT")); err != nil {
			t.Fatalf("with the permit: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := first.Write([]byte("PUT")); !errors.Is(err, ErrNotLeading) {
			t.Errorf("after it has lapsed: %v", err)
		}
		if _, err := first.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still open")
		}
		second, far := connect()
		defer far.Close()
		p.extend(time.Now().Add(time.Second))
		p.Revoke()
		if _, err := second.Write([]byte("PUT")); err == nil {
			t.Error("sent after the permit was revoked")
		}
		third, far := connect()
		defer far.Close()
		if _, err := third.Write([]byte("GET")); err != nil {
			t.Errorf("a standby cannot read: %v", err)
		}
		third.Close()
	})
}

func TestRefusalOfTheAdmissionPolicyIsUnderstood(t *testing.T) {
	const said = `services "web" is forbidden: ValidatingAdmissionPolicy 'p' denied request: ` + FencedMark + ` not the leader`
	for text, fenced := range map[string]bool{said: true, "quota exceeded": false,
		`services "web" is forbidden: ValidatingAdmissionPolicy 'p' denied request: not allowed: tributary.dev/fenced: x`: false,
		`admission webhook "w" denied the request: tributary.dev/fenced: x`:                                               false} {
		var p Permit
		p.open()
		p.extend(time.Now().Add(time.Hour))
		resp, err := p.RoundTripper(&tripper{answer: answered(http.StatusForbidden, text)}).RoundTrip(request(t, http.MethodPut, services))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != text || err != nil {
			t.Errorf("read %q, %v", body, err)
		}
		resp.Body.Close()
		select {
		case <-p.refusals():
			if !fenced {
				t.Errorf("%q ends leadership", text)
			}
		default:
			if fenced {
				t.Errorf("%q does not", text)
			}
		}
		p.Revoke()
	}
}

// A machine that sleeps stops the monotonic clock: by the wall clock the Permit has passed.
func TestPermitPassesWhileTheMachineSleeps(t *testing.T) {
	p := &Permit{}
	p.open()
	p.extend(time.Now().Add(8 * time.Second))
	if !p.MayWrite() {
		t.Fatal("not held")
	}
	p.wall = p.wall.Add(-time.Minute)
	if p.MayWrite() || !p.lapsed() {
		t.Error("held after a sleep of a minute")
	}
	p.extend(time.Now().Add(9 * time.Second))
	if !p.MayWrite() {
		t.Error("a renewal does not hold it again")
	}
	p.Revoke()
}
