// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tributary.dev/tributary/e2e/cluster"
)

// The groups of bulk pods, by number: a fifth is not ready, and arrives while the
// ingress cluster is away, a fifth leaves, a tenth leaves and comes back.
func unready(i int) bool { return i%10 < 2 }
func removed(i int) bool { return i%10 >= 8 }
func shaken(i int) bool  { return i%10 == 7 }

// away stops the ingress cluster's API server under churn: memory depends on the
// number of Services, not of events; afterwards each changed object is written once,
// removals first.
func (w *world) away() {
	w.Helper()
	down := 3 * time.Second
	if full() {
		down = time.Minute
	}
	ctx, before := w.Context(), len(w.writes())
	w.fleet.Ingress.APIServer().Kill()
	end := time.Now().Add(down)
	w.churn(removed, false)
	w.churn(unready, true)
	w.churn(shaken, false)
	first, events := w.heap(), *services/2
	most := first
	for time.Now().Before(end) {
		w.churn(removed, true)
		w.churn(removed, false)
		events += *services * 2 / 5
		most = max(most, w.heap())
	}
	w.churn(shaken, true)
	w.figure("ingress cluster away under %d events of %d Services: heap %.1f MB after each had changed once, at most %.1f MB later", events, *services, first/1e6, most/1e6)
	if most > 2*first+16e6 {
		w.Errorf("the heap grew from %.1f to %.1f MB with the number of events", first/1e6, most/1e6)
	}
	back := time.Now()
	w.must(w.fleet.Ingress.APIServer().Start(ctx))
	want := count(func(i int) bool { return !removed(i) })
	w.eventually(3*time.Minute, "the bulk replicas are as the member demands", func(ctx context.Context) (bool, error) {
		_, ready, err := w.ready(ctx)
		if err == nil && ready != want {
			err = fmt.Errorf("%d are ready, want %d", ready, want)
		}
		if err != nil {
			return false, err
		}
		return w.caughtUp(ctx)
	})
	w.figure("caught up %.1f s after the API server was ready again", time.Since(back).Seconds())
	w.checkCatchUp(bulkWrites(w.writes()[before:]))
}

// churn makes the pods of a group ready or not ready.
func (w *world) churn(group func(int) bool, ready bool) {
	w.Helper()
	w.each(*services, func(ctx context.Context, i int) error {
		if !group(i) {
			return nil
		}
		return mark(ctx, w.bulk, bulkNamespace(i), bulkName(i), ready)
	})
}

// heap is tributary's heap in use, the least of a few samples, to exclude garbage.
func (w *world) heap() float64 {
	least := 0.0
	for range 5 {
		if now := w.metric("go_memstats_heap_alloc_bytes", ""); least == 0 || now < least {
			least = now
		}
	}
	return least
}

// caughtUp reports whether every change of the bulk member was written.
func (w *world) caughtUp(context.Context) (bool, error) {
	return w.is("tributary_sync_lag_seconds", `member_cluster="`+bulk+`"`, 0)
}

func (w *world) checkCatchUp(writes []cluster.Write) {
	w.Helper()
	objects, leaving := map[string]int{}, map[string]bool{}
	for i := range *services {
		leaving[bulkNamespace(i)+"/"+bulkName(i)] = removed(i)
	}
	var order []bool
	for _, one := range writes {
		if one.Code == 0 || one.Code >= 400 {
			continue
		}
		name, _, _ := strings.Cut(one.Name, "-"+bulk)
		objects[one.Resource+" "+one.Namespace+"/"+name]++
		order = append(order, leaving[one.Namespace+"/"+name])
	}
	changed := 0
	for i := range *services {
		want := 0
		if removed(i) || unready(i) {
			want = 1
			changed += 2
		}
		for _, resource := range []string{"endpoints", "endpointslices"} {
			if id := fmt.Sprintf("%s %s/%s", resource, bulkNamespace(i), bulkName(i)); objects[id] != want {
				w.Errorf("%s was written %d times, want %d", id, objects[id], want)
				return
			}
		}
	}
	removals := 0
	for _, leaves := range order {
		if leaves {
			removals++
		}
	}
	early := 0
	for _, leaves := range order[:removals] {
		if leaves {
			early++
		}
	}
	share := float64(early) / float64(max(1, removals))
	w.figure("%d objects changed, %d writes; of the first %d, %.1f %% were removals", changed, len(order), removals, 100*share)
	if share < 0.65 { // of sixteen requests four may be additions and one bulk (W4): 11/16, less where answers overtake each other
		w.Errorf("of the first %d writes only %.0f %% were removals", removals, 100*share)
	}
}
