// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

func TestFightsSlowDownAndAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFights()
		for i := range fightRepairs {
			if f.repaired(web, time.Now()) || f.held(web, time.Now()) != 0 {
				t.Fatalf("repair %d counts as a fight", i+1)
			}
			time.Sleep(time.Second)
		}
		pause := fightFirst
		for round := range 10 {
			if !f.repaired(web, time.Now()) {
				t.Fatalf("round %d is no fight", round)
			}
			held := f.held(web, time.Now())
			if held != pause {
				t.Fatalf("round %d pauses %v, want %v", round, held, pause)
			}
			time.Sleep(held)
			if f.held(web, time.Now()) != 0 {
				t.Fatal("still held after the pause")
			}
			pause = min(2*pause, fightMax)
		}
		time.Sleep(10 * time.Minute)
		if f.repaired(web, time.Now()) || f.held(web, time.Now()) != 0 {
			t.Error("a fight long past still counts")
		}
	})
}

func TestRareRepairsAreNoFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFights()
		for range 100 {
			if f.repaired(web, time.Now()) {
				t.Fatal("a repair every quarter of a minute is no fight")
			}
			time.Sleep(fightWindow / 4)
		}
	})
}

func TestFightsMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFights()
		for i := range 10000 {
			f.repaired(syncer.Key{Namespace: "shop", Name: strconv.Itoa(i)}, time.Now())
			time.Sleep(2 * time.Second)
		}
		if len(f.of) > 512 {
			t.Errorf("%d keys are remembered", len(f.of))
		}
	})
}

func TestRepairOnly(t *testing.T) {
	repair, live := metrics.Cause{Event: eventRepair}, metrics.Cause{Event: "modified", Live: true}
	for _, test := range []struct {
		causes []metrics.Cause
		want   bool
	}{{nil, false}, {[]metrics.Cause{repair}, true}, {[]metrics.Cause{repair, live}, false}, {[]metrics.Cause{live}, false}} {
		if got := repairOnly(test.causes); got != test.want {
			t.Errorf("repairOnly(%v) = %v", test.causes, got)
		}
	}
}
