// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"

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
// Endpoints, one to a namespace, and returns the slices it creates by namespace.
func UpstreamMirror(ctx context.Context, list []HandWritten) (map[string][]*discoveryv1.EndpointSlice, error) {
	created := map[string][]*discoveryv1.EndpointSlice{}
	client := fake.NewSimpleClientset()
	client.PrependReactor("create", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		slice := a.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice).DeepCopy()
		slice.Namespace = a.GetNamespace()
		slice.Name = fmt.Sprintf("%s%d", slice.GenerateName, len(created[slice.Namespace]))
		created[slice.Namespace] = append(created[slice.Namespace], slice)
		return true, slice, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	endpoints, services, slices := factory.Core().V1().Endpoints(), factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	for _, h := range list {
		if err := services.Informer().GetStore().Add(h.Service); err != nil {
			return nil, err
		}
		if err := endpoints.Informer().GetStore().Add(h.Endpoints); err != nil {
			return nil, err
		}
	}
	controller := endpointslicemirroring.NewController(ctx, endpoints, slices, services, 1000, client, 0)
	defer stop(ctx, controller)
	for _, h := range list {
		if err := syncEndpoints(controller, ctx, h.Endpoints.Namespace+"/"+h.Endpoints.Name); err != nil {
			return nil, fmt.Errorf("%s: upstream's mirroring controller: %w", h.Endpoints.Namespace, err)
		}
	}
	return created, nil
}
