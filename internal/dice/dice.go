// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dice has the random numbers of tests, all drawn from one seed, so
// that a failure can be repeated and a change is not judged by luck.
//
// The seed is the flag -seed, by default the variable SEED, by default 1. With 0
// one is drawn for the run. A test that fails says which it was. What never
// happens here: a number that does not follow from the seed; and no program
// imports this package, only tests do.
package dice

import (
	"cmp"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var seedFlag = flag.String("seed", "", "seed of all random choices; 0 draws one, which a failing test prints (default $SEED, else 1)")

// drawn is the seed of this run. The environment is read when the first test
// asks, for only then does go test note it among what a cached result depends on.
var drawn = sync.OnceValues(func() (uint64, error) {
	seed, err := parse(cmp.Or(*seedFlag, os.Getenv("SEED"), "1"))
	for err == nil && seed == 0 {
		seed = rand.Uint64()
	}
	return seed, err
})

func parse(text string) (uint64, error) {
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("-seed or SEED is %q, want a number from 0 to 18446744073709551615", text)
	}
	return seed, nil
}

// Seed returns the seed of the run; if the test fails, it says how to repeat it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := drawn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with SEED=%d go test -count=1 -run '^%s$'", seed, strings.ReplaceAll(t.Name(), "/", "$/^"))
		}
	})
	return seed
}

// Seeds yields n numbers, the first of which is the seed of the run: the case
// that fails with number k is the first with SEED=k.
func Seeds(t testing.TB, n uint64) iter.Seq[uint64] {
	t.Helper()
	first := Seed(t)
	return func(yield func(uint64) bool) {
		for i := range n {
			if !yield(first + i) {
				return
			}
		}
	}
}

// New returns the dice of a test that has one history.
func New(t testing.TB) *rand.Rand {
	t.Helper()
	return From(Seed(t), 0)
}

// From returns the dice of the history with that number under a seed.
func From(seed, number uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, number)) }
