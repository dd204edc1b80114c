// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"tributary.dev/tributary/e2e/fleet"
)

// copier copies the Endpoints of all members into Endpoints of the ingress cluster, as soon as it sees them and without
// a client-side limit. Controllers do the rest.
type copier struct {
	fleet *fleet.Fleet
	group sync.WaitGroup

	mu    sync.Mutex
	known map[string][]*corev1.Endpoints // by namespace and name, by member
	locks map[string]*sync.Mutex         // one write of an object at a time
}

func startCopier(ctx context.Context, f *fleet.Fleet, namespaces ...string) (*copier, error) {
	c := &copier{fleet: f, known: map[string][]*corev1.Endpoints{}, locks: map[string]*sync.Mutex{}}
	for m, site := range f.Members {
		for _, namespace := range namespaces {
			source := cache.NewListWatchFromClient(site.Client.CoreV1().RESTClient(), "endpoints", namespace, fields.Everything())
			copy := func(o any) { // handlers of one informer run sequentially, the writes must not
				e := o.(*corev1.Endpoints)
				c.group.Go(func() { c.copy(ctx, m, e) })
			}
			_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
				ListerWatcher: source, ObjectType: &corev1.Endpoints{},
				Handler: cache.ResourceEventHandlerFuncs{AddFunc: copy, UpdateFunc: func(_, o any) { copy(o) }},
			})
			c.group.Go(func() { controller.RunWithContext(ctx) })
			if !cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
				return c, ctx.Err()
			}
		}
	}
	return c, nil
}

// copy writes what all members have of an object; the newest wins if writes overtake each other.
func (c *copier) copy(ctx context.Context, member int, e *corev1.Endpoints) {
	key := e.Namespace + "/" + e.Name
	c.mu.Lock()
	made := c.known[key] != nil
	if !made {
		c.known[key], c.locks[key] = make([]*corev1.Endpoints, len(c.fleet.Members)), &sync.Mutex{}
	}
	c.known[key][member] = e
	lock := c.locks[key]
	c.mu.Unlock()
	lock.Lock()
	defer lock.Unlock()
	want := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, Labels: map[string]string{}}}
	c.mu.Lock()
	for _, of := range c.known[key] {
		if of != nil {
			want.Subsets = append(want.Subsets, of.Subsets...)
			for k, v := range of.Labels {
				if k != "endpoints.kubernetes.io/managed-by" {
					want.Labels[k] = v
				}
			}
		}
	}
	c.mu.Unlock()
	core := c.fleet.Ingress.Client.CoreV1()
	if !made {
		s := fleet.NewService(want.Namespace, want.Name)
		s.Spec.Selector, s.Spec.ClusterIP = nil, corev1.ClusterIPNone
		_, _ = core.Services(want.Namespace).Create(ctx, s, metav1.CreateOptions{}) // it is there at the second member
	}
	_, _ = core.Endpoints(want.Namespace).Update(ctx, want, metav1.UpdateOptions{}) // this makes what is missing; the next event tries again
}
