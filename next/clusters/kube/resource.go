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
	Services = Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services"),
		New:                  func() runtime.Object { return new(corev1.Service) },
		NewList:              func() runtime.Object { return new(corev1.ServiceList) },
	}
	Pods = Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		New:                  func() runtime.Object { return new(corev1.Pod) },
		NewList:              func() runtime.Object { return new(corev1.PodList) },
	}
	Namespaces = Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), ClusterScoped: true,
		New:     func() runtime.Object { return new(corev1.Namespace) },
		NewList: func() runtime.Object { return new(corev1.NamespaceList) },
	}
	Secrets = Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"),
		New:                  func() runtime.Object { return new(corev1.Secret) },
		NewList:              func() runtime.Object { return new(corev1.SecretList) },
	}
	ConfigMaps = Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		New:                  func() runtime.Object { return new(corev1.ConfigMap) },
		NewList:              func() runtime.Object { return new(corev1.ConfigMapList) },
	}
	Endpoints = Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("endpoints"),
		New:                  func() runtime.Object { return new(corev1.Endpoints) },
		NewList:              func() runtime.Object { return new(corev1.EndpointsList) },
	}
	EndpointSlices = Resource{
		GroupVersionResource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		New:                  func() runtime.Object { return new(discoveryv1.EndpointSlice) },
		NewList:              func() runtime.Object { return new(discoveryv1.EndpointSliceList) },
	}
)
