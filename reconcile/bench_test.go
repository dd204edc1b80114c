// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// BenchmarkDecide is one look at a replica that is as it should be: what a
// resync costs for each key, and what precedes every write.
func BenchmarkDecide(b *testing.B) {
	for _, pods := range []int{5, 250, 2500} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			source := newMembers("a", "b")
			svc := service(web, 1, 8080)
			var list []*syncer.Pod
			for i := range pods {
				list = append(list, pod(web, fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250), true))
			}
			source.set("a", svc, list...)
			r := &Reconciler{opts: Options{Source: source}, cache: cache.New(func([]cache.Change) {}, nil)}
			p := &attempt{item: lanes.Item{Key: web}}
			stand(r, p)
			b.ReportAllocs()
			for b.Loop() {
				r.decide(p, source.Peek)
				if !p.plan.Empty() {
					b.Fatalf("something to write: %+v", p.plan)
				}
			}
		})
	}
}

// stand puts into the cache what a first fill would write.
func stand(r *Reconciler, p *attempt) {
	r.cache.Upsert(&cache.Object{ID: cache.NamespaceID(web.Namespace), Revision: 1, Namespace: plan.NamespaceActive}, p.rec.Time)
	r.decide(p, r.opts.Source.Peek)
	for _, stage := range p.plan.Sequence() {
		for _, a := range stage {
			switch a.Kind {
			case plan.KindService:
				svc := write.ServiceObject(web, a.Service, nil, nil, corev1.ServiceSpec{})
				svc.UID, svc.ResourceVersion = "uid", "2"
				r.cache.Upsert((cache.Decoder{}).Service(svc), p.rec.Time)
			case plan.KindEndpoints:
				r.cache.Upsert((cache.Decoder{}).Endpoints(write.EndpointsObject(web, a.Endpoints, nil, nil)), p.rec.Time)
			case plan.KindEndpointSlice:
				r.cache.Upsert((cache.Decoder{}).Slice(write.SliceObject(web, "uid", a.Slice, nil, nil)), p.rec.Time)
			}
		}
	}
}
