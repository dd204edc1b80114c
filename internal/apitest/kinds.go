// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package apitest

import (
	"reflect"

	coordinationv1 "k8s.io/api/coordination/v1"
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
	{core.WithKind("Pod"), "pods", true, false, func() Object { return &corev1.Pod{} }},
	{core.WithKind("ConfigMap"), "configmaps", true, false, func() Object { return &corev1.ConfigMap{} }},
	{core.WithKind("Secret"), "secrets", true, false, func() Object { return &corev1.Secret{} }},
	{coordinationv1.SchemeGroupVersion.WithKind("Lease"), "leases", true, false, func() Object { return &coordinationv1.Lease{} }},
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
	for _, k := range kinds {
		if reflect.TypeOf(k.empty()) == reflect.TypeOf(obj) {
			return k
		}
	}
	return nil
}
