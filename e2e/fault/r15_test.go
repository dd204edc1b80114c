// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
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
		{Match: unspared, Share: 0.05, Status: http.StatusTooManyRequests, RetryAfter: 1},
		{Match: unspared, Share: 0.05, Status: http.StatusInternalServerError},
		{Match: unspared, Share: 0.05, Status: http.StatusServiceUnavailable},
		{Match: unspared, Share: 0.05, CutBefore: true},
		{Match: unspared, Share: 0.1, Times: size(20, 60), Hang: true},
	}
	w.throughFaults(proxy, size(150, 2000), faults...)
}

// TestR16AmbiguousWrites cuts connections after the write was done: whoever sent
// it cannot know. The truth is read, not guessed, and nothing is there twice.
func TestR16AmbiguousWrites(t *testing.T) {
	w := newWorld(t, "r16")
	proxy := w.proxyTo(w.ingress)
	w.throughFaults(proxy, size(150, 2000), &Fault{Match: unspared, Share: 0.3, CutAfter: true})
}

// spared is a Service that no fault meets.
const spared = "spared"

// unspared matches the writes of all other replicas. It does not know the names of
// objects that are made: the spared replica exists before.
func unspared(q Request) bool { return Writes()(q) && !strings.HasPrefix(q.Name, spared) }

// throughFaults churns both members while the proxy of the ingress cluster has
// faults, then lets it be. A replica that they spare is watched meanwhile.
func (w *world) throughFaults(proxy *Proxy, changes int, faults ...*Fault) {
	w.Helper()
	ctx := w.Context()
	a, b := NewChurn(w.a, w.ns, 6, 30, w.seed), NewChurn(w.b, w.ns, 6, 30, w.seed+1)
	w.must(a.Fill(ctx))
	w.must(b.Fill(ctx))
	w.service(spared, 3, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	var calm, during []time.Duration
	for i := range 20 {
		calm = append(calm, w.added(w.a, spared, fmt.Sprintf("calm-%d", i)))
	}
	shaky := w.rec.Begin(history.IngressDown, "")
	proxy.Set(faults...)
	for i := range changes {
		a.Step(ctx)
		b.Step(ctx)
		if i%10 == 0 {
			during = append(during, w.added(w.a, spared, fmt.Sprintf("during-%d", i)))
		}
	}
	// Even while writes fail, everything gets through in the end: one that hangs costs
	// its replica ten seconds, and the next may hang too.
	while := w.converges(90 * time.Second)
	proxy.Set()
	after := w.converges(5 * time.Second)
	shaky.End()
	var met []int
	for _, f := range faults {
		met = append(met, f.Met())
	}
	w.Logf("%d changes, faults met by %v requests; converged %s after the last change, %s after the faults", a.Done+b.Done, met, while, after)
	slowest := slices.Max(during)
	w.Logf("pods of a replica that no fault met were seen after %s (median), %s at most; before it %s", median(during), slowest, median(calm))
	// The churn takes its share of the machine; what must not be is to wait for others' retries.
	if median(during) > w.within(max(2*median(calm), 50*time.Millisecond)) || slowest > w.within(2*time.Second) {
		w.Errorf("a replica that no fault met was delayed: %s (median), %s at most", median(during), slowest)
	}
	w.unchanged()
	w.judge()
}
