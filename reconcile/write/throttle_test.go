// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/syncer"
)

func TestRepairsSlowDownAndAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewRepairThrottle()
		for i := range throttleRepairs {
			if f.Repaired(web, time.Now()) || f.Held(web, time.Now()) != 0 {
				t.Fatalf("repair %d counts as a fight", i+1)
			}
			time.Sleep(time.Second)
		}
		pause := throttleFirst
		for round := range 10 {
			if !f.Repaired(web, time.Now()) {
				t.Fatalf("round %d is no fight", round)
			}
			held := f.Held(web, time.Now())
			if held != pause {
				t.Fatalf("round %d pauses %v, want %v", round, held, pause)
			}
			time.Sleep(held)
			if f.Held(web, time.Now()) != 0 {
				t.Fatal("still held after the pause")
			}
			pause = min(2*pause, throttleMax)
		}
		time.Sleep(10 * time.Minute)
		if f.Repaired(web, time.Now()) || f.Held(web, time.Now()) != 0 {
			t.Error("a fight long past still counts")
		}
	})
}

func TestRareRepairsAreNoFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewRepairThrottle()
		for range 100 {
			if f.Repaired(web, time.Now()) {
				t.Fatal("a repair every quarter of a minute is no fight")
			}
			time.Sleep(throttleWindow / 4)
		}
	})
}

func TestThrottleMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewRepairThrottle()
		for i := range 10000 {
			f.Repaired(syncer.Key{Namespace: "shop", Name: strconv.Itoa(i)}, time.Now())
			time.Sleep(2 * time.Second)
		}
		if len(f.of) > 512 {
			t.Errorf("%d keys are remembered", len(f.of))
		}
	})
}

var web = syncer.Key{Namespace: "shop", Name: "web"}
