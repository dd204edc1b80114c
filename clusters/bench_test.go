// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

// countingSink counts what it is told.
type countingSink struct{ dirty int }

func (s *countingSink) Dirty(_ string, dirty []store.Dirty, _ record.Cause, _ bool) {
	s.dirty += len(dirty)
}

// BenchmarkPodEvent is a pod that turns not ready and ready again, from the handler of
// the watch to the sink, evidence judged: in a small member and in a large one. Bar: the
// large one within twice the small one.
func BenchmarkPodEvent(b *testing.B) {
	for _, size := range []struct{ services, pods int }{{1, 10}, {1000, 10}} {
		b.Run(fmt.Sprintf("pods=%d/services=%d", size.services*size.pods, size.services), func(b *testing.B) {
			sink := &countingSink{}
			cluster := config.Cluster{Name: "a"}
			cluster.SetDefaults()
			alone := &Set{}
			m := newMember(sessionSpec{cluster: cluster}, &Options{Sink: sink, peers: alone})
			alone.applied.Store(&applied{members: []*Member{m}})
			handler := listedMember(m, size.services, size.pods)
			if sink.dirty == 0 || !m.synced() {
				b.Fatal("the member was not read whole")
			}
			pod := store.Versioned[syncer.Pod]{Object: benchPod(size.services-1, 3), RV: 1_000_000}
			arrival := time.Now()
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				pod.RV++
				pod.Object.Ready = !pod.Object.Ready
				before := sink.dirty
				handler.Upserted(pod, kube.EventMeta{Type: "modified", Arrival: arrival})
				if sink.dirty != before+1 {
					b.Fatal("not one replica is dirty")
				}
			}
		})
	}
}

// listedMember hands a member its first lists, and returns what takes in its pods.
func listedMember(m *Member, services, pods int) handler[syncer.Pod] {
	read := kube.Replacement{Reason: kube.FirstFill, ResourceVersion: "1000000", Finished: time.Now()}
	var svcs []store.Versioned[syncer.Service]
	var all []store.Versioned[syncer.Pod]
	for i := range services {
		svcs = append(svcs, store.Versioned[syncer.Service]{Object: benchService(i), RV: uint64(i + 1)})
		for n := range pods {
			all = append(all, store.Versioned[syncer.Pod]{Object: benchPod(i, n), RV: uint64(i + 1)})
		}
	}
	m.step(evidence.Connected{}, time.Now())
	handler[syncer.Service]{intake: m.intake, kind: evidence.Services}.Replaced(svcs, read)
	handler[store.Node]{intake: m.intake, kind: evidence.Nodes}.Replaced(nil, read)
	h := handler[syncer.Pod]{intake: m.intake, kind: evidence.Pods}
	h.Replaced(all, read)
	for _, kind := range []evidence.Kind{evidence.Services, evidence.Pods, evidence.Nodes} {
		m.step(evidence.Watched{Kind: kind, Phase: evidence.Following}, time.Now())
	}
	return h
}

func benchService(i int) syncer.Service {
	return syncer.Service{
		Key: syncer.Key{Namespace: "shop", Name: fmt.Sprintf("app-%d", i)}, UID: fmt.Sprintf("s-%d", i),
		Selector: map[string]string{"app": fmt.Sprintf("app-%d", i)},
		Ports:    []syncer.ServicePort{{Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: 8080}}},
	}
}

func benchPod(app, n int) syncer.Pod {
	return syncer.Pod{
		Key: syncer.Key{Namespace: "shop", Name: fmt.Sprintf("app-%d-%d", app, n)}, UID: fmt.Sprintf("p-%d-%d", app, n),
		Labels: map[string]string{"app": fmt.Sprintf("app-%d", app), "tier": "web"}, NodeName: "node-1", Ready: true,
		IPs: []syncer.PodIP{{Addr: netip.AddrFrom4([4]byte{10, byte(app >> 8), byte(app), byte(n)})}},
	}
}
