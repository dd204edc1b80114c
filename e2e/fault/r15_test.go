// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/history"
)

// TestR15WritesFail lets a fifth of all writes fail in every way an API server
// has, under churn. No key is given up, and nothing else is delayed by it.
func TestR15WritesFail(t *testing.T) {
	w := newWorld(t, "r15")
	proxy := w.proxyTo(w.ingress)
	faults := []*Fault{
		{Match: Writes(), Share: 0.05, Status: http.StatusTooManyRequests, RetryAfter: 1},
		{Match: Writes(), Share: 0.05, Status: http.StatusInternalServerError},
		{Match: Writes(), Share: 0.05, Status: http.StatusServiceUnavailable},
		{Match: Writes(), Share: 0.05, CutBefore: true},
		{Match: Writes("endpoints", "endpointslices"), Times: size(3, 20), Hang: true},
	}
	w.throughFaults(proxy, size(150, 2000), faults...)
}

// TestR16AmbiguousWrites cuts connections after the write was done: whoever sent
// it cannot know. The truth is read, not guessed, and nothing is there twice.
func TestR16AmbiguousWrites(t *testing.T) {
	w := newWorld(t, "r16")
	proxy := w.proxyTo(w.ingress)
	w.throughFaults(proxy, size(150, 2000), &Fault{Match: Writes(), Share: 0.3, CutAfter: true})
}

// throughFaults churns both members while the proxy of the ingress cluster has
// faults, then lets it be.
func (w *world) throughFaults(proxy *Proxy, changes int, faults ...*Fault) {
	w.Helper()
	ctx := w.Context()
	a, b := NewChurn(w.a, w.ns, 6, 30, w.seed), NewChurn(w.b, w.ns, 6, 30, w.seed+1)
	w.must(a.Fill(ctx))
	w.must(b.Fill(ctx))
	w.start()
	w.converges(10 * time.Second)
	shaky := w.rec.Begin(history.IngressDown, "")
	proxy.Set(faults...)
	for range changes {
		a.Step(ctx)
		b.Step(ctx)
	}
	// Even while writes fail, everything gets through in the end.
	while := w.converges(60 * time.Second)
	proxy.Set()
	after := w.converges(5 * time.Second)
	shaky.End()
	var met []int
	for _, f := range faults {
		met = append(met, f.Met())
	}
	w.Logf("%d changes, faults met by %v requests; converged %s after the last change, %s after the faults", a.Done+b.Done, met, while, after)
	w.unchanged()
	w.judge()
}
