// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
)

var (
	cases  = flag.Uint64("cases", 200, "how many cases are drawn")
	hours  = flag.Float64("hours", 0, "go on for as many hours, however many cases that is")
	tries  = flag.Int("tries", 400, "how often a case that fails is run to make it shorter")
	most   = flag.Int("most", 20, "end after as many failures")
	saveIn = flag.String("save", "", "directory for transcripts of failures")
	tell   = flag.Bool("coverage", false, "print which faults and pairs of faults were met")
)

// TestCases draws cases and plays them. A failure is told as the shortest script that fails;
// saved under testdata it is a test of its own.
func TestCases(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	began, steps, virtual, count, failed := time.Now(), 0, time.Duration(0), 0, 0
	met := map[string]int{}
	for seed := dice.Seed(t); failed < *most; seed++ {
		if *hours > 0 && time.Since(began).Hours() > *hours || *hours == 0 && uint64(count) >= *cases {
			break
		}
		c := Draw(seed)
		r := Run(c, nil)
		count, steps, virtual = count+1, steps+r.Steps, virtual+r.Time
		for what, n := range r.Met {
			met[what] += n
		}
		if r.Broken != nil {
			failed++
			t.Error(explain(seed, c, r.Broken))
		}
	}
	took := time.Since(began).Seconds()
	fmt.Printf("%d cases, %d failed; %.1f cases a second, %d steps a case, %.0f x real time\n",
		count, failed, float64(count)/took, steps/count, virtual.Seconds()/took)
	if *tell {
		for _, what := range slices.Sorted(maps.Keys(met)) {
			fmt.Printf("%8d %s\n", met[what], what)
		}
	}
}

// explain makes a failure short, and tells it.
func explain(seed uint64, c *Case, broken *Broken) string {
	small := Shrink(c, broken.Law, *tries)
	var notes strings.Builder
	again := Run(small, &notes)
	if *saveIn != "" {
		name := filepath.Join(*saveIn, fmt.Sprintf("%s-%d.txt", strings.ToLower(string(broken.Law)), seed))
		if err := os.WriteFile(name, []byte(fmt.Sprintf("# %v\n%s\n%s", again.Broken, small, notes.String())), 0o644); err != nil {
			return err.Error()
		}
	}
	return fmt.Sprintf("seed %d: %v\nin short: %v\n%s", seed, broken, again.Broken, small)
}

// Every transcript under testdata broke a law once.
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

// A case is the same each time, and as the transcript that it is written as.
func TestACaseFollowsFromItsSeed(t *testing.T) {
	for seed := range dice.Seeds(t, 20) {
		var first, second strings.Builder
		c := Draw(seed)
		Run(c, &first)
		again, err := Parse(c.String())
		if err != nil {
			t.Fatal(err)
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
