// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

//lint:file-ignore SA1019 v1 Endpoints are what old clusters hold

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource names what is read.
type Resource struct {
	schema.GroupVersionResource
	// ClusterScoped objects are in no namespace.
	ClusterScoped bool
	// New returns an empty object, NewList an empty list of the resource's type.
	New, NewList func() runtime.Object
}

// What clusters are asked for.
var (
	Services       = of[corev1.Service, corev1.ServiceList](corev1.SchemeGroupVersion, "services")
	Pods           = of[corev1.Pod, corev1.PodList](corev1.SchemeGroupVersion, "pods")
	Namespaces     = clusterScoped(of[corev1.Namespace, corev1.NamespaceList](corev1.SchemeGroupVersion, "namespaces"))
	Secrets        = of[corev1.Secret, corev1.SecretList](corev1.SchemeGroupVersion, "secrets")
	ConfigMaps     = of[corev1.ConfigMap, corev1.ConfigMapList](corev1.SchemeGroupVersion, "configmaps")
	Endpoints      = of[corev1.Endpoints, corev1.EndpointsList](corev1.SchemeGroupVersion, "endpoints")
	EndpointSlices = of[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](discoveryv1.SchemeGroupVersion, "endpointslices")
)

// object is a pointer to an API type.
type object[T any] interface {
	*T
	runtime.Object
}

func of[O, L any, PO object[O], PL object[L]](group schema.GroupVersion, name string) Resource {
	return Resource{
		GroupVersionResource: group.WithResource(name),
		New:                  func() runtime.Object { return PO(new(O)) },
		NewList:              func() runtime.Object { return PL(new(L)) },
	}
}

func clusterScoped(r Resource) Resource {
	r.ClusterScoped = true
	return r
}
