// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package apitest

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is any of the served objects.
type Object interface {
	runtime.Object
	metav1.Object
}

// kind is what the server knows about one resource.
type kind struct {
	schema.GroupVersionKind
	resource   string
	namespaced bool
	// createOnUpdate: a PUT to a missing object creates it, as the real server
	// does for core Services and Endpoints.
	createOnUpdate bool
	empty          func() Object
}

var core = schema.GroupVersion{Version: "v1"}

var kinds = []*kind{
	{core.WithKind("Namespace"), "namespaces", false, false, func() Object { return &corev1.Namespace{} }},
	{core.WithKind("Service"), "services", true, true, func() Object { return &corev1.Service{} }},
	{core.WithKind("Endpoints"), "endpoints", true, true, func() Object { return &corev1.Endpoints{} }},
	{discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), "endpointslices", true, false,
		func() Object { return &discoveryv1.EndpointSlice{} }},
	{core.WithKind("Event"), "events", true, false, func() Object { return &corev1.Event{} }},
}

func kindOf(resource string) *kind {
	for _, k := range kinds {
		if k.resource == resource {
			return k
		}
	}
	return nil
}

func kindOfObject(obj Object) *kind {
	switch obj.(type) {
	case *corev1.Namespace:
		return kinds[0]
	case *corev1.Service:
		return kinds[1]
	case *corev1.Endpoints:
		return kinds[2]
	case *discoveryv1.EndpointSlice:
		return kinds[3]
	case *corev1.Event:
		return kinds[4]
	}
	return nil
}
