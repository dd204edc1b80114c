// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/e2e/fleet"
)

// TestR20HostileMember fills a member with large pods that no Service selects and
// rewrites their status as fast as its API server takes it. Tributary's memory
// does not follow, and the other member is served as before.
func TestR20HostileMember(t *testing.T) {
	w := newWorld(t, "r20")
	ctx := t.Context()
	w.service("web", 3, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	calm := w.latencies("calm", size(15, 100))
	before := w.memory("VmRSS")

	junk, weight := size(200, 2000), 100<<10
	filler := strings.Repeat("x", weight)
	var pods []*corev1.Pod
	for i := range junk {
		p := fleet.NewPod(w.ns, fmt.Sprintf("junk-%d", i), "junk")
		p.Annotations = map[string]string{"example.com/filler": filler}
		pods = append(pods, p)
	}
	for batch := range slices.Chunk(pods, 20) { // an apiserver needs memory for each at once
		w.must(w.a.StartPods(ctx, batch...))
	}
	flooding, stop := context.WithCancel(ctx)
	var flood sync.WaitGroup
	sent := make([]int, 4)
	for i := range sent {
		flood.Go(func() {
			for n := i; flooding.Err() == nil; n += len(sent) {
				p, flip := pods[n%junk], w.a.MarkReady
				if n/junk%2 == 1 {
					flip = w.a.MarkNotReady
				}
				if flip(flooding, w.ns, p.Name) == nil {
					sent[i]++
				}
			}
		})
	}
	began := time.Now()
	busy := w.latencies("busy", size(15, 100))
	w.seen(w.a, "of-the-hostile-one")
	stop()
	flood.Wait()
	rate := float64(sent[0]+sent[1]+sent[2]+sent[3]) / time.Since(began).Seconds()
	w.converges(10 * time.Second)
	after, peak := w.memory("VmRSS"), w.memory("VmHWM")
	total := junk * weight >> 20
	t.Logf("%d MB of junk, then %.0f events/s: the other member's pods were seen after %s, %s before (medians); memory %d MB before, %d MB after, %d MB at most",
		total, rate, median(busy), median(calm), before>>20, after>>20, peak>>20)
	if grown := peak - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MB for %d MB of junk", grown>>20, total)
	}
	// The machine is shared with the API server that is flooded; the bar itself is
	// the benchmarks' to hold.
	if limit := w.within(max(10*median(calm), 500*time.Millisecond)); median(busy) > limit {
		t.Errorf("the other member's pods were seen after %s (median), want at most %s", median(busy), limit)
	}
	w.judge()
}

// latencies makes pods in the second member, one after the other, and measures
// how long each takes to be seen.
func (w *world) latencies(name string, n int) (all []time.Duration) {
	w.Helper()
	for i := range n {
		all = append(all, w.seen(w.b, fmt.Sprintf("%s-%d", name, i)))
	}
	return all
}

func median(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// memory reads a line of tributary's /proc/PID/status, in bytes.
func (w *world) memory(line string) (bytes int) {
	w.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.proc.PID()))
	w.must(err)
	_, rest, _ := strings.Cut(string(text), line+":")
	_, err = fmt.Sscanf(rest, "%d kB", &bytes)
	w.must(err)
	return bytes << 10
}
