// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

//lint:file-ignore SA1019 v1 Endpoints are what old clusters hold

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource names what is read.
type Resource struct {
	schema.GroupVersionResource
	object runtime.Object // an empty one
}

// kind is what one of it is called.
func (r Resource) kind() string { return reflect.TypeOf(r.object).Elem().Name() }

// What clusters are asked for.
var (
	Services       = Resource{corev1.SchemeGroupVersion.WithResource("services"), &corev1.Service{}}
	Pods           = Resource{corev1.SchemeGroupVersion.WithResource("pods"), &corev1.Pod{}}
	Namespaces     = Resource{corev1.SchemeGroupVersion.WithResource("namespaces"), &corev1.Namespace{}}
	Secrets        = Resource{corev1.SchemeGroupVersion.WithResource("secrets"), &corev1.Secret{}}
	ConfigMaps     = Resource{corev1.SchemeGroupVersion.WithResource("configmaps"), &corev1.ConfigMap{}}
	Endpoints      = Resource{corev1.SchemeGroupVersion.WithResource("endpoints"), &corev1.Endpoints{}}
	EndpointSlices = Resource{discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), &discoveryv1.EndpointSlice{}}
)
