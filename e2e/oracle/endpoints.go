// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/endpoint"
)

// UpstreamEndpoints runs upstream's endpoints controller over cases that no
// Endpoints exist for, and returns what it creates, by namespace. It checks that
// upstream ignores the Services that it must ignore.
func UpstreamEndpoints(ctx context.Context, cases []*Case) (map[string]*corev1.Endpoints, error) {
	created := map[string]*corev1.Endpoints{}
	client := fake.NewSimpleClientset()
	client.PrependReactor("create", "endpoints", func(a clienttesting.Action) (bool, runtime.Object, error) {
		object := a.(clienttesting.CreateAction).GetObject().(*corev1.Endpoints).DeepCopy()
		object.Namespace = a.GetNamespace()
		created[object.Namespace] = object
		return true, object, nil
	})
	core := informers.NewSharedInformerFactory(client, 0).Core().V1()
	for _, c := range cases {
		if err := core.Services().Informer().GetStore().Add(c.Service); err != nil {
			return nil, err
		}
		for _, p := range c.Pods {
			if err := core.Pods().Informer().GetStore().Add(p); err != nil {
				return nil, err
			}
		}
	}
	controller := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
	defer stop(ctx, controller)
	for _, c := range cases {
		if err := syncService(controller, ctx, c.Name()+"/"+c.Service.Name); err != nil {
			return nil, fmt.Errorf("%s: upstream's endpoints controller: %w", c.Name(), err)
		}
		if _, made := created[c.Name()]; made != hasController(c.Service) {
			return nil, fmt.Errorf("%s: upstream created Endpoints: %v, want %v", c.Name(), made, !made)
		}
	}
	return created, nil
}

// hasController reports whether upstream computes the Service's endpoints.
func hasController(s *corev1.Service) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.Selector != nil
}
