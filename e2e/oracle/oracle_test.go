// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/internal/dice"
)

var (
	caseCount = flag.Int("oracle.cases", 100_000, "number of random cases")
	onlyCase  = flag.Uint64("oracle.case", 0, "run only the case with this number")
	soak      = flag.Duration("oracle.soak", 0, "run fresh cases for this long")
)

// batchSize is how many cases share one run of upstream's controller.
const batchSize = 2000

// TestRulesEqualUpstream is the claim of this project: for random Services and
// pods, our subsets, in their order, and our slices' endpoints, ports and
// conditions are those of upstream's controllers, and an API server accepts
// them.
func TestRulesEqualUpstream(t *testing.T) {
	seed := dice.Seed(t)
	if *onlyCase != 0 {
		runBatch(t, seed, *onlyCase, 1)
		return
	}
	count := uint64(*caseCount)
	if testing.Short() {
		count /= 10
	}
	started := time.Now()
	var next uint64 = 1
	var mu sync.Mutex
	take := func() (from uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next > count && time.Since(started) >= *soak || t.Failed() {
			return 0, false
		}
		from = next
		next += batchSize
		return from, true
	}
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		workers.Go(func() {
			for from, ok := take(); ok; from, ok = take() {
				runBatch(t, seed, from, batchSize)
			}
		})
	}
	workers.Wait()
	t.Logf("%d cases in %v", next-1, time.Since(started).Round(time.Millisecond))
}

// runBatch compares n cases, and reports the first that differs.
func runBatch(t *testing.T, seed, from uint64, n int) {
	cases := make([]*Case, n)
	clean := make([]*Case, n)
	all := make([]*Ours, n)
	for i := range cases {
		cases[i] = NewCase(seed, from+uint64(i))
		all[i] = Compute(cases[i])
		clean[i] = cases[i].withoutRefusals().withSilentServing(all[i])
	}
	upstream, err := UpstreamEndpoints(t.Context(), clean)
	if err != nil {
		t.Errorf("seed %d, cases from %d: %v", seed, from, err)
		return
	}
	slices := NewSliceOracle()
	for i, c := range cases {
		ours := all[i]
		diff := DiffEndpoints(ours, upstream[c.Name()])
		if diff == "" {
			diff = diffSlices(slices, c, clean[i], ours)
		}
		if err := Validate(ours); diff == "" && err != nil {
			diff = err.Error()
		}
		if diff != "" {
			report(t, c, diff)
			return
		}
	}
}

func diffSlices(oracle *SliceOracle, c, clean *Case, ours *Ours) string {
	upstream, err := oracle.Slices(clean.withOneAddress())
	if err != nil {
		return fmt.Sprintf("upstream's reconciler: %v", err)
	}
	return DiffSlices(c, ours, upstream)
}

// diff runs one case through all comparisons.
func diff(t *testing.T, c *Case) string {
	ours := Compute(c)
	clean := c.withoutRefusals().withSilentServing(ours)
	upstream, err := UpstreamEndpoints(t.Context(), []*Case{clean})
	if err != nil {
		return err.Error()
	}
	if d := DiffEndpoints(ours, upstream[c.Name()]); d != "" {
		return d
	}
	if d := diffSlices(NewSliceOracle(), c, clean, ours); d != "" {
		return d
	}
	if err := Validate(ours); err != nil {
		return err.Error()
	}
	return ""
}

func report(t *testing.T, c *Case, difference string) {
	small := Shrink(c, func(c *Case) bool { return diff(t, c) != "" })
	if d := diff(t, small); d != "" {
		difference = d
	}
	text, err := yaml.Marshal(struct{ Service, Pods any }{small.Service, small.Pods})
	if err != nil {
		t.Errorf("render case: %v", err)
	}
	t.Errorf("case differs from upstream; repeat with -seed=%d -oracle.case=%d\n%s\nshrunk from %d to %d pods:\n%s",
		c.Seed, c.Number, difference, len(c.Pods), len(small.Pods), text)
}
