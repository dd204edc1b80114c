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
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// wanted is a replica of ten endpoints of a network, of which one is ready or not.
func wanted(k syncer.Key, network byte, ready bool) *plan.Desired {
	c := plan.Contribution{Cluster: "idc-a", Source: k, Contribution: syncer.Contribution{Service: &syncer.Service{Key: k}}}
	for n := range 10 {
		c.Endpoints = append(c.Endpoints, syncer.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, network, byte(n)}), Ready: ready || n > 0, Serving: true,
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
		replicas[0], replicas[1] = append(replicas[0], wanted(keys[i], 0, false)), append(replicas[1], wanted(keys[i], 0, true))
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

// TestMemoryOfADeadReceiver: what is kept for a receiver that took everything once, and never
// answers since, is bounded by what there is, however often it changes and is told in vain.
func TestMemoryOfADeadReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const services, endpoints, rounds = 500, 10, 20
		r, client := newReceiver(), fake.NewClientset()
		one := spec("dead")
		one.Changes, one.MaxServices = 0, 100
		p := newProcess(client, map[string]*receiver{"dead": r}, one).lead(t)
		defer p.stop()
		asked := map[string]bool{}
		round := func(n int) {
			clear(asked)
			for i := range services {
				k := key(fmt.Sprintf("s%d", i))
				p.set.Tell(k, wanted(k, byte(n), n%2 == 0))
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if len(asked) != services {
				t.Fatalf("round %d: the receiver was told of %d Services", n, len(asked))
			}
		}
		// heap leaves out what the receiver and the API server of this test remember.
		heap := func() uint64 {
			client.ClearActions()
			clear(r.has)
			r.requests, r.at = nil, nil
			var stats runtime.MemStats
			runtime.GC()
			runtime.GC() // what pools held at the first
			runtime.ReadMemStats(&stats)
			return stats.HeapAlloc
		}
		answer := outcome{result: resultOK}
		r.setAnswer(func(events []event) outcome {
			for _, e := range events {
				asked[e.Subject] = true
			}
			return answer
		})
		before := heap()
		round(0)
		if is := p.set.Status()[0]; is.Pending > 0 {
			t.Fatalf("not all is acknowledged: %+v", is)
		}
		answer = outcome{result: resultUnreachable, err: errors.New("refused")}
		round(1)
		once := heap()
		for n := range rounds {
			round(2 + n)
		}
		often := heap()
		if is := p.set.Status()[0]; is.Pending != services || !is.Failing {
			t.Errorf("the receiver is not dead: %+v", is)
		}
		perEndpoint := (float64(once) - float64(before)) / (services * endpoints)
		grown := (float64(often) - float64(once)) / (services * endpoints)
		t.Logf("%.0f B an endpoint, %.0f B after %d changes more", perEndpoint, perEndpoint+grown, rounds)
		if perEndpoint > 1024 {
			t.Errorf("an endpoint takes %.0f B", perEndpoint)
		}
		if grown > 400 { // a copy of each change would take ten times that
			t.Errorf("%d changes of each take %.0f B an endpoint more", rounds, grown)
		}
	})
}
