// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package model

import (
	"fmt"
	"reflect"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of object that a Server stores, by the name of its resource.
type Kind string

// The kinds.
const (
	Namespaces     Kind = "namespaces"
	Pods           Kind = "pods"
	Services       Kind = "services"
	Endpoints      Kind = "endpoints"
	EndpointSlices Kind = "endpointslices"
	Leases         Kind = "leases"
)

// kinds are all kinds with an empty object of each, those among them that no code names.
var kinds = map[Kind]struct {
	schema.GroupVersionKind
	empty Object
}{
	Namespaces:     {core("Namespace"), &corev1.Namespace{}},
	Pods:           {core("Pod"), &corev1.Pod{}},
	Services:       {core("Service"), &corev1.Service{}},
	Endpoints:      {core("Endpoints"), &corev1.Endpoints{}},
	EndpointSlices: {discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), &discoveryv1.EndpointSlice{}},
	Leases:         {coordinationv1.SchemeGroupVersion.WithKind("Lease"), &coordinationv1.Lease{}},
	"configmaps":   {core("ConfigMap"), &corev1.ConfigMap{}},
	"secrets":      {core("Secret"), &corev1.Secret{}},
	"events":       {core("Event"), &corev1.Event{}},
}

func core(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }

var byType = func() map[reflect.Type]Kind {
	all := map[reflect.Type]Kind{}
	for kind, of := range kinds {
		all[reflect.TypeOf(of.empty)] = kind
	}
	return all
}()

// GroupVersionKind is how an object of the kind calls itself; it is empty if there is no such kind.
func (k Kind) GroupVersionKind() schema.GroupVersionKind { return kinds[k].GroupVersionKind }

// New returns an empty object of the kind.
func (k Kind) New() Object { return kinds[k].empty.DeepCopyObject().(Object) }

func (k Kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: kinds[k].Group, Resource: string(k)}
}

// ID names an object of the kind.
func (k Kind) ID(namespace, name string) ID { return ID{k, namespace, name} }

// KindOf is the kind of an object.
func KindOf(o Object) Kind { return byType[reflect.TypeOf(o)] }

// Object is an API object. One that a Server stores or has shown is never changed.
type Object interface {
	metav1.Object
	runtime.Object
}

// ID names an object of a Server; that of a namespace has no namespace.
type ID struct {
	Kind            Kind
	Namespace, Name string
}

// String names the object for people.
func (i ID) String() string { return fmt.Sprintf("%s %s/%s", i.Kind, i.Namespace, i.Name) }

// IDOf names an object.
func IDOf(o Object) ID { return ID{KindOf(o), o.GetNamespace(), o.GetName()} }
