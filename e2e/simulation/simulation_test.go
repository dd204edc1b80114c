// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
)

var (
	cases  = flag.Uint64("cases", 200, "how many cases are drawn")
	hours  = flag.Float64("hours", 0, "play cases for this many hours instead")
	tries  = flag.Int("tries", 400, "how often a failing case is run to shrink it")
	most   = flag.Int("most", 20, "end after this many failures")
	saveIn = flag.String("save", "", "directory for transcripts of failures")
	tell   = flag.Bool("coverage", false, "print which faults and pairs of faults were met")
)

// TestCases draws cases and plays them, one on each processor. A failure is reported as the shortest
// script that fails; saved under testdata, that is a test of its own.
func TestCases(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	began, from := time.Now(), dice.Seed(t)
	sum := summary{met: map[string]int{}}
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for n := next.Add(1) - 1; sum.failures() < *most; n = next.Add(1) - 1 {
				if *hours > 0 && time.Since(began).Hours() > *hours || *hours == 0 && n >= *cases {
					return
				}
				c := Draw(from + n)
				r := Run(c, nil)
				if sum.add(&r); r.Broken != nil {
					t.Error(explain(c, r.Broken))
				}
			}
		})
	}
	workers.Wait()
	took := time.Since(began).Seconds()
	fmt.Printf("%d cases, %d failed; %.1f cases a second, %d steps a case, %.0f x real time\n",
		sum.count, sum.failed, float64(sum.count)/took, sum.steps/max(1, sum.count), sum.time.Seconds()/took)
	if *tell {
		for _, what := range slices.Sorted(maps.Keys(sum.met)) {
			fmt.Printf("%8d %s\n", sum.met[what], what)
		}
	}
}

// summary sums up the results of many cases.
type summary struct {
	sync.Mutex
	count, failed, steps int
	time                 time.Duration
	met                  map[string]int
}

func (s *summary) add(r *Result) {
	s.Lock()
	defer s.Unlock()
	s.count, s.steps, s.time = s.count+1, s.steps+r.Steps, s.time+r.Time
	if r.Broken != nil {
		s.failed++
	}
	for what, n := range r.Met {
		s.met[what] += n
	}
}

func (s *summary) failures() int {
	s.Lock()
	defer s.Unlock()
	return s.failed
}

// explain shrinks a failure, and describes it.
func explain(c *Case, broken *Broken) string {
	small := Shrink(c, broken.Law, *tries)
	var notes strings.Builder
	again := Run(small, &notes)
	if *saveIn != "" {
		name := filepath.Join(*saveIn, fmt.Sprintf("%s-%d.txt", strings.ToLower(string(broken.Law)), c.Seed))
		if err := os.WriteFile(name, []byte(transcript(small, fmt.Sprintf("%v\n%s", again.Broken, notes.String()))), 0o644); err != nil {
			return err.Error()
		}
	}
	return fmt.Sprintf("seed %d: %v\nin short: %v\n%s", c.Seed, broken, again.Broken, small)
}

// transcript is a case, and as comments what happened in it.
func transcript(c *Case, what string) string {
	return fmt.Sprintf("%s\n# %s\n", c, strings.ReplaceAll(strings.TrimSpace(what), "\n", "\n# "))
}

// Every transcript under testdata once broke a law.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			var notes strings.Builder
			if r := Run(c, &notes); r.Broken != nil {
				t.Errorf("%v\n%s", r.Broken, notes.String())
			}
		})
	}
}

// A case plays the same each time, also when it is parsed from its transcript.
func TestACaseFollowsFromItsSeed(t *testing.T) {
	for seed := range dice.Seeds(t, 20) {
		var first, second strings.Builder
		c := Draw(seed)
		Run(c, &first)
		again, err := Parse(transcript(c, first.String()))
		if err != nil {
			t.Fatal(err)
		}
		if again.String() != c.String() {
			t.Fatalf("%s\nis read as\n%s", c, again)
		}
		Run(again, &second)
		a, b := strings.Split(first.String(), "\n"), strings.Split(second.String(), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("seed %d, line %d: first %q, then %q", seed, i, a[i], b[i])
			}
		}
	}
}
