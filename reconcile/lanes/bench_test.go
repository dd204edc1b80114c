// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

// BenchmarkCycle is the price of one event that nothing else delays.
func BenchmarkCycle(b *testing.B) {
	q := New(Options{})
	k, cause := key("web"), live("a")
	b.ReportAllocs()
	for b.Loop() {
		q.Add(k, Removal, cause)
		item, _ := q.Get(b.Context())
		q.Done(item.Key)
	}
}

// BenchmarkRemovalOverBulk is the same while many bulk keys wait: the price must
// not depend on how many.
func BenchmarkRemovalOverBulk(b *testing.B) {
	for _, waiting := range []int{0, 5_000, 100_000} {
		b.Run(fmt.Sprint("bulk=", waiting), func(b *testing.B) {
			q := New(Options{})
			for i := range waiting {
				q.Add(syncer.Key{Namespace: "bulk", Name: fmt.Sprint(i)}, Bulk, bulk("a"))
			}
			k, cause := key("web"), live("a")
			b.ReportAllocs()
			for b.Loop() {
				q.Add(k, Removal, cause)
				item, _ := q.Get(b.Context())
				q.Done(item.Key)
			}
		})
	}
}

// BenchmarkContention has producers and workers meet at the lock, over 1,000 keys.
func BenchmarkContention(b *testing.B) {
	q := New(Options{})
	keys := make([]syncer.Key, 1000)
	for i := range keys {
		keys[i] = key(fmt.Sprint(i))
	}
	done := make(chan struct{})
	for range q.Workers() {
		go func() {
			for {
				item, ok := q.Get(b.Context())
				if !ok {
					done <- struct{}{}
					return
				}
				q.Done(item.Key)
			}
		}()
	}
	cause := live("a")
	cause.Arrival = time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			q.Add(keys[i%len(keys)], lanes[i%laneCount], cause)
		}
	})
	b.StopTimer()
	q.ShutDown()
	for range q.Workers() {
		<-done
	}
}
