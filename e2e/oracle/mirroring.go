// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints and the plain fake clientset are what is tested with

package oracle

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
)

// HandWritten is a Service without selector with its hand-written Endpoints.
type HandWritten struct {
	Service   *corev1.Service
	Endpoints *corev1.Endpoints
}

// UpstreamMirror runs upstream's mirroring controller over hand-written
// Endpoints, and returns the slices it creates by namespace once there are that
// many. It makes no slice for Endpoints that ask not to be mirrored: more than
// expected is an error.
func UpstreamMirror(ctx context.Context, list []HandWritten, expected int) (map[string][]*discoveryv1.EndpointSlice, error) {
	ctx, cancel := context.WithCancel(ctx)
	var objects []runtime.Object
	for _, h := range list {
		objects = append(objects, h.Service, h.Endpoints)
	}
	client := fake.NewSimpleClientset(objects...)
	var mu sync.Mutex
	created := map[string][]*discoveryv1.EndpointSlice{}
	total := 0
	enough := make(chan struct{})
	client.PrependReactor("create", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		slice := a.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice).DeepCopy()
		mu.Lock()
		defer mu.Unlock()
		total++
		slice.Name, slice.Namespace = fmt.Sprintf("%s%d", slice.GenerateName, total), a.GetNamespace()
		created[slice.Namespace] = append(created[slice.Namespace], slice)
		if total == expected {
			close(enough)
		}
		return true, slice, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	controller := endpointslicemirroring.NewController(ctx, factory.Core().V1().Endpoints(), factory.Discovery().V1().EndpointSlices(),
		factory.Core().V1().Services(), 1000, client, 0)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { controller.Run(ctx, 4) })
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-enough:
	case <-timeout.C:
	}
	cancel()
	running.Wait()
	factory.Shutdown()
	if total != expected {
		return created, fmt.Errorf("upstream's mirroring controller made %d slices in at most %v, we expect %d", total, patience, expected)
	}
	return created, nil
}
