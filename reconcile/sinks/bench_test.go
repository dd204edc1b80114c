// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// wanted is a replica of ten endpoints, of which one is ready or not.
func wanted(k syncer.Key, ready bool) *plan.Desired {
	c := plan.Contribution{Cluster: "idc-a", Source: k, Contribution: syncer.Contribution{Service: &syncer.Service{Key: k}}}
	for n := range 10 {
		c.Endpoints = append(c.Endpoints, syncer.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), Ready: ready || n > 0, Serving: true,
			Ports: []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 80}}})
	}
	replica := plan.Merge(k, []plan.Contribution{c}, plan.Current{}, plan.Settings{WriteSlices: true, MaxEndpointsPerSlice: 100})
	return &replica
}

// BenchmarkTell is all that a sink adds to the way of a change to Kubernetes: to be told,
// between the decision and the write, of one of 1,000 Services. Bar: a receiver that is dead
// adds no more than one that is well.
func BenchmarkTell(b *testing.B) {
	const services = 1000
	var replicas [2][]*plan.Desired
	keys := make([]syncer.Key, services)
	for i := range services {
		keys[i] = key(fmt.Sprintf("s%d", i))
		replicas[0], replicas[1] = append(replicas[0], wanted(keys[i], false)), append(replicas[1], wanted(keys[i], true))
	}
	well := 0.0
	for _, name := range []string{"well", "dead"} {
		b.Run(name, func(b *testing.B) {
			r := newReceiver()
			if name == "dead" {
				r.answer = func([]event) outcome {
					return outcome{result: resultTimeout, err: errors.New("it does not answer in time")}
				}
			}
			p := newProcess(fake.NewClientset(), map[string]*receiver{name: r}, spec(name))
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan struct{})
			go func() { defer close(done); p.set.Run(ctx, p.term) }()
			b.ReportAllocs()
			began := time.Now()
			n := 0
			for b.Loop() {
				p.set.Tell(keys[n%services], replicas[n/services%2][n%services])
				n++
			}
			took := float64(time.Since(began)) / float64(n)
			cancel()
			<-done
			if name == "well" {
				well = took
			} else if well > 0 {
				b.ReportMetric(took/well, "dead/well")
			}
		})
	}
}

// TestMemoryOfADeadReceiver: what is kept for a receiver that never answers is bounded by what
// there is, however often it changes.
func TestMemoryOfADeadReceiver(t *testing.T) {
	const services, endpoints = 500, 10
	r := newReceiver()
	r.answer = func([]event) outcome {
		return outcome{result: resultUnreachable, err: errors.New("refused")}
	}
	p := newProcess(fake.NewClientset(), map[string]*receiver{"dead": r}, spec("dead"))
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	tell := func(round int) {
		for i := range services {
			k := key(fmt.Sprintf("s%d", i))
			p.set.Tell(k, wanted(k, round%2 == 0))
		}
	}
	before := heap()
	tell(0)
	once := heap()
	for round := range 20 {
		tell(1 + round)
	}
	often := heap()
	runtime.KeepAlive(p)
	perEndpoint := (float64(once) - float64(before)) / (services * endpoints)
	t.Logf("%.0f B an endpoint", perEndpoint)
	if perEndpoint > 1024 {
		t.Errorf("an endpoint takes %.0f B", perEndpoint)
	}
	if grown := float64(often) - float64(once); grown > 0.5*(float64(once)-float64(before)) {
		t.Errorf("20 changes of each take %.0f B more", grown)
	}
}
