// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// filled returns a store with apps applications of size pods in one namespace.
func filled(tb testing.TB, apps, size int) (*store.Store, *Decoder) {
	s, d := store.New(store.Options{}), New(Options{})
	for app := range apps {
		s.SetService(d.Service(overTheWire(tb, realisticService("shop", app))))
		for n := range size {
			s.SetPod(d.Pod(overTheWire(tb, realisticPod("shop", app, n))))
		}
	}
	return s, d
}

// BenchmarkMemoryPerPod compares the heap of a store of 50,000 pods in 50
// namespaces, with a Service for each ten pods, its indexes and the what
// computing contributions leaves, with that of decoded pods.
func BenchmarkMemoryPerPod(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		const pods = 2000
		for b.Loop() {
			before := heap()
			held := make([]*corev1.Pod, pods)
			for i := range held {
				held[i] = overTheWire(b, realisticPod("shop", i/10, i%10))
			}
			b.ReportMetric(float64(heap()-before)/pods, "B/pod")
			runtime.KeepAlive(held)
		}
	})
	b.Run("store", func(b *testing.B) {
		const namespaces, apps, size = 50, 100, 10
		for b.Loop() {
			before := heap()
			s, d := store.New(store.Options{}), New(Options{})
			for ns := range namespaces {
				namespace := fmt.Sprintf("team-%d", ns)
				for app := range apps {
					s.SetService(d.Service(overTheWire(b, realisticService(namespace, app))))
					for n := range size {
						s.SetPod(d.Pod(overTheWire(b, realisticPod(namespace, app, n))))
					}
				}
			}
			for replica := range s.Replicas() {
				s.Contribution(replica, time.Time{})
			}
			b.ReportMetric(float64(heap()-before)/(namespaces*apps*size), "B/pod")
			runtime.KeepAlive(s)
			runtime.KeepAlive(d)
		}
	})
}

// BenchmarkPodEvent is the cost of the event that matters, a pod of a Service
// of ten becomes not ready and ready, in a small and in a large namespace. Bar: the
// large one within twice the small one.
func BenchmarkPodEvent(b *testing.B) {
	for _, size := range []struct{ services, pods int }{{1, 10}, {1000, 10}} {
		b.Run(fmt.Sprintf("pods=%d/services=%d", size.services*size.pods, size.services), func(b *testing.B) {
			s, d := filled(b, size.services, size.pods)
			p := d.Pod(realisticPod("shop", size.services-1, 3))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				p.Revision++
				p.Object.Ready = !p.Object.Ready
				if len(s.SetPod(p)) != 1 {
					b.Fatal("not one replica is dirty")
				}
			}
		})
	}
}

// BenchmarkPodComesAndGoes deletes and creates the pod instead, so that its
// labels are looked up.
func BenchmarkPodComesAndGoes(b *testing.B) {
	for _, size := range []struct{ services, pods int }{{1, 10}, {1000, 10}} {
		b.Run(fmt.Sprintf("pods=%d/services=%d", size.services*size.pods, size.services), func(b *testing.B) {
			s, d := filled(b, size.services, size.pods)
			p := d.Pod(realisticPod("shop", size.services-1, 3))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				p.Revision++
				s.RemovePod(p.Object.Key)
				p.Revision++
				s.SetPod(p)
			}
		})
	}
}

// BenchmarkIrrelevantEvent is a pod update that changes nothing the rules look at, from its bytes
// on, beside making a typed pod of them and nothing else.
func BenchmarkIrrelevantEvent(b *testing.B) {
	s, d := filled(b, 1000, 10)
	raw, err := realisticPod("shop", 7, 3).Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("slim", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if v, err := d.ReadPod(raw); err != nil || len(s.SetPod(v)) != 0 {
				b.Fatal("dirty")
			}
		}
	})
	b.Run("typed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := new(corev1.Pod).Unmarshal(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkContribution is what a worker asks for after one event.
func BenchmarkContribution(b *testing.B) {
	for _, pods := range []int{10, 250, 5000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			s, _ := filled(b, 2, pods)
			replica := syncer.Key{Namespace: "shop", Name: "checkout-api-001"}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if _, ok := s.Contribution(replica, time.Time{}); !ok {
					b.Fatal("nothing")
				}
			}
		})
	}
}

// BenchmarkNewService enters and removes a Service of ten pods.
func BenchmarkNewService(b *testing.B) {
	for _, services := range []int{1, 1000} {
		b.Run(fmt.Sprintf("pods=%d/services=%d", services*10, services), func(b *testing.B) {
			s, d := filled(b, services, 10)
			svc := d.Service(realisticService("shop", services-1))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				svc.Revision++
				s.RemoveService(svc.Object.Key)
				svc.Revision++
				s.SetService(svc)
			}
		})
	}
}

// BenchmarkRelist applies a list of 10,000 pods that brings no news.
func BenchmarkRelist(b *testing.B) {
	const services, pods = 1000, 10
	s, d := filled(b, services, pods)
	var list []store.Versioned[syncer.Pod]
	for app := range services {
		for n := range pods {
			list = append(list, d.Pod(realisticPod("shop", app, n)))
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		for _, v := range list {
			if len(s.SetPod(v)) != 0 {
				b.Fatal("dirty")
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(services*pods), "ns/pod")
}
