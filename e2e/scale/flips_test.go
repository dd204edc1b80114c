// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"time"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/latency"
	"tributary.dev/tributary/internal/dice"
)

// probe is the Service whose one pod is flipped.
const probe = "probe"

// flips are the times until a removal (a pod became not ready) or an addition was
// visible in Endpoints and slices.
type flips struct{ removals, additions []time.Duration }

// prepareProbe creates the probe in the quiet member.
func (w *world) prepareProbe() {
	w.Helper()
	ctx := w.Context()
	w.must(w.quiet.CreateNamespaces(ctx, probe))
	w.must(w.quiet.Create(ctx, fleet.NewService(probe, probe)))
	w.must(w.quiet.RunPods(ctx, fleet.NewPod(probe, "probe-0", probe)))
}

// session opens the observer's watches; the pod is ready and visible then. The
// caller closes it.
func (w *world) session() *latency.Session {
	w.Helper()
	w.shows(probe, true)
	observer := &latency.Observer{Member: w.quiet.Client, Ingress: w.fleet.Ingress.Client, Patience: time.Minute}
	s, err := observer.Open(w.Context(), latency.Arm{
		Name: "tributary", Namespace: probe, Pod: "probe-0", Object: probe, Kinds: []latency.Kind{latency.Endpoints, latency.EndpointSlices},
	})
	w.must(err)
	return s
}

// flip flips the probe for at least this number of removals, and until done closes (if it is
// not nil). It ends with the pod ready.
func (w *world) flip(s *latency.Session, removals int, done <-chan struct{}) (f flips) {
	w.Helper()
	pause := time.NewTicker(15 * time.Millisecond) // the probe itself must not be a load
	defer pause.Stop()
	for {
		for _, into := range []*[]time.Duration{&f.removals, &f.additions} {
			sample, err := s.Flip(w.Context())
			w.must(err)
			*into = append(*into, max(sample[latency.Endpoints], sample[latency.EndpointSlices]))
			<-pause.C
		}
		if len(f.removals) < removals {
			continue
		}
		select {
		case <-done:
			return f
		default:
			if done == nil {
				return f
			}
		}
	}
}

// compare prints the quantiles of two series and fails when the p99 of removals is
// beyond the limit by more than chance explains. A quick run has few samples, and often
// a busy machine: its limit is three times as high.
func (w *world) compare(what string, busy, idle flips, limit float64) {
	w.Helper()
	if !full() {
		limit *= 3
	}
	random := dice.New(w)
	ms := func(d []time.Duration, q float64) float64 {
		return float64(latency.Quantile(d, q)) / float64(time.Millisecond)
	}
	ratio := latency.CompareQuantile(busy.removals, idle.removals, 0.99, 2000, random)
	w.figure("removals while %s: n %d, p50 %.1f ms, p99 %.1f ms; idle: n %d, p50 %.1f ms, p99 %.1f ms; p99 ratio %.2f [%.2f, %.2f]", what,
		len(busy.removals), ms(busy.removals, 0.5), ms(busy.removals, 0.99), len(idle.removals), ms(idle.removals, 0.5), ms(idle.removals, 0.99),
		ratio.Value, ratio.Low, ratio.High)
	w.figure("additions while %s: p50 %.1f ms, p99 %.1f ms; idle: p50 %.1f ms, p99 %.1f ms", what,
		ms(busy.additions, 0.5), ms(busy.additions, 0.99), ms(idle.additions, 0.5), ms(idle.additions, 0.99))
	if ratio.Low > limit {
		w.Errorf("while %s the p99 of removals is %.2f times the idle one [%.2f, %.2f], want at most %.1f", what, ratio.Value, ratio.Low, ratio.High, limit)
	}
}
