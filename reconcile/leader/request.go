// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FencedMark begins what the admission policy of deploy/kubernetes/fencing.yaml says
// when it refuses a writer that does not hold the Lease.
const FencedMark = "tributary.dev/fenced:"

// denied is what API servers put before the message of a ValidatingAdmissionPolicy
// (k8s.io/apiserver, admission/plugin/policy/validating). What an object holds that is
// refused can be in the message alone.
const denied = " denied request: "

// maxRefusal bounds how much of a refusal is searched for FencedMark.
const maxRefusal = 64 << 10

// Hold binds a context to the Permit: it is done, with ErrNotLeading as its cause, when the
// Permit ends. free must be called when that does not matter any more; held is false, and
// the others are nil, where the Permit is not held.
func (p *Permit) Hold(parent context.Context) (ctx context.Context, free func(), held bool) {
	until, reign, held := p.held()
	if !held {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(parent)
	end := func() { cancel(nil) }
	if !until.IsZero() {
		timed, stop := context.WithDeadlineCause(ctx, until, ErrNotLeading)
		ctx, end = timed, func() { stop(); cancel(nil) }
	}
	detach := context.AfterFunc(reign, func() { cancel(ErrNotLeading) })
	return ctx, func() { detach(); end() }, true
}

// RoundTripper wraps a transport: requests that change something are sent only while
// the Permit is held, and given up when it ends, also by time. Others pass.
func (p *Permit) RoundTripper(next http.RoundTripper) http.RoundTripper {
	return permitted{p, next}
}

type permitted struct {
	permit *Permit
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t permitted) RoundTrip(req *http.Request) (*http.Response, error) {
	if !changes(req) {
		return t.next.RoundTrip(req)
	}
	ctx, end, held := t.permit.Hold(req.Context())
	if !held {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, ErrNotLeading
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = body{resp.Body, end}
	if resp.StatusCode == http.StatusForbidden {
		t.refused(resp)
	}
	return resp, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t permitted) WrappedRoundTripper() http.RoundTripper { return t.next }

// refused looks into a refusal, of whatever encoding, for the mark of fencing.
func (t permitted) refused(resp *http.Response) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), rest}
	if _, message, _ := bytes.Cut(text, []byte(denied)); err == nil && bytes.HasPrefix(message, []byte(FencedMark)) {
		t.permit.refusedAsStranger(FencedMark)
	}
}

// changes reports whether a request may change what is stored. Reviews of one's own
// rights are posted and stored nowhere.
func changes(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	case http.MethodPost:
		return !strings.Contains(req.URL.Path, "/apis/authorization.k8s.io/")
	}
	return true
}

// Trial is a transport for who only tries out: no change passes but dry runs. The others
// fail with ErrNotLeading.
func Trial(next http.RoundTripper) http.RoundTripper {
	none := (&Permit{}).RoundTripper(next)
	return trial(func(req *http.Request) (*http.Response, error) {
		if req.URL.Query().Get("dryRun") == metav1.DryRunAll {
			return next.RoundTrip(req)
		}
		return none.RoundTrip(req)
	})
}

type trial func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t trial) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// body calls end when it has been read.
type body struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
