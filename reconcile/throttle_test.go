// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/syncer"
)

func TestRepairsSlowDownAndAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRepairThrottle()
		for i := range throttleRepairs {
			if f.repaired(web, time.Now()) || f.held(web, time.Now()) != 0 {
				t.Fatalf("repair %d counts as a fight", i+1)
			}
			time.Sleep(time.Second)
		}
		pause := throttleFirst
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
			pause = min(2*pause, throttleMax)
		}
		time.Sleep(10 * time.Minute)
		if f.repaired(web, time.Now()) || f.held(web, time.Now()) != 0 {
			t.Error("a fight long past still counts")
		}
	})
}

func TestRareRepairsAreNoFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRepairThrottle()
		for range 100 {
			if f.repaired(web, time.Now()) {
				t.Fatal("a repair every quarter of a minute is no fight")
			}
			time.Sleep(throttleWindow / 4)
		}
	})
}

func TestThrottleMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRepairThrottle()
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
	repair, live := metrics.Cause{Event: cache.EventRepair}, metrics.Cause{Event: "modified", Live: true}
	for _, test := range []struct {
		causes []metrics.Cause
		want   bool
	}{{nil, false}, {[]metrics.Cause{repair}, true}, {[]metrics.Cause{repair, live}, false}, {[]metrics.Cause{live}, false}} {
		if got := repairOnly(test.causes); got != test.want {
			t.Errorf("repairOnly(%v) = %v", test.causes, got)
		}
	}
}

// However many repairs there were before: what else asks for the work is not forgotten.
func TestRepairAmongOtherCauses(t *testing.T) {
	q := lanes.New(lanes.Options{Workers: 1})
	for range 40 {
		q.Add(web, lanes.Bulk, metrics.Cause{Event: cache.EventRepair})
	}
	q.Add(web, lanes.Bulk, metrics.Cause{Event: "config"})
	item, _ := q.Get(t.Context())
	if repairOnly(item.Causes) || item.Dropped == 0 {
		t.Errorf("a drain counts as a repair: %+v", item.Causes)
	}
	q.Done(web)
}
