// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// benchPods are ready pods of one template in no particular order, as a store
// hands them over.
func benchPods(n int) []*Pod {
	ports := []ContainerPort{{"http", TCP, 8080}, {"metrics", TCP, 9100}}
	pods := make([]*Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("web-%d", i), fmt.Sprintf("10.%d.%d.%d", 1+i/65536, i/256%256, i%256),
			onNode(fmt.Sprintf("node-%d.example.com", i%200)), withPorts(ports...))
		pods[i].Ports = ports
	}
	dice.From(1, 1).Shuffle(n, func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return pods
}

var benchSizes = []int{10, 250, 5000}

// BenchmarkContribution is what one change of a Service costs: its pods in, the
// contribution out.
func BenchmarkContribution(b *testing.B) {
	for _, svc := range []struct {
		name string
		*Service
	}{
		{"numbered", newService()},
		{"named", newService(servicePorts(named("http", 80, "http"), named("metrics", 81, "metrics")))},
	} {
		for _, n := range benchSizes {
			pods := benchPods(n)
			b.Run(fmt.Sprintf("ports=%s/pods=%d", svc.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if c := Compute(svc.Service, slices.Values(pods), Options{}); len(c.Endpoints) != n {
						b.Fatal(len(c.Endpoints))
					}
				}
			})
		}
	}
}

// BenchmarkSubsets is the form of Endpoints; with two subsets the hashes count.
func BenchmarkSubsets(b *testing.B) {
	for _, n := range benchSizes {
		one := compute(newService(), benchPods(n)...).Endpoints
		two := compute(newService(servicePorts(numbered("http", 80, 8080), named("web", 81, "http"))), benchPods(n)...).Endpoints
		for i := range two {
			if i%2 == 0 {
				two[i].Ports = one[0].Ports
			}
		}
		for name, endpoints := range map[string][]Endpoint{"one": one, "two": two} {
			b.Run(fmt.Sprintf("subsets=%s/endpoints=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Subsets(endpoints)
				}
			})
		}
	}
}

// BenchmarkPackOneFlip packs after one endpoint changed, as most changes do.
func BenchmarkPackOneFlip(b *testing.B) {
	for _, n := range benchSizes {
		endpoints := compute(newService(), benchPods(n)...).Endpoints
		current := Pack(nil, endpoints, onlyIPv4, packFor)
		endpoints[n/2].Ready = false
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Pack(current, endpoints, onlyIPv4, packFor)
			}
		})
	}
}
