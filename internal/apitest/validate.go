// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package apitest

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func equal(a, b Object) bool { return apiequality.Semantic.DeepEqual(a, b) }

// prepare copies an object as it came in and defaults what a diff may see.
func prepare(k *kind, obj Object) Object {
	obj = obj.DeepCopyObject().(Object)
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	switch o := obj.(type) {
	case *corev1.Namespace:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.NamespaceActive
		}
	case *corev1.Service:
		if o.Spec.SessionAffinity == "" {
			o.Spec.SessionAffinity = corev1.ServiceAffinityNone
		}
		for i := range o.Spec.Ports {
			p := &o.Spec.Ports[i]
			if p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
			if p.TargetPort == (intstr.IntOrString{}) {
				p.TargetPort = intstr.FromInt32(p.Port)
			}
		}
	}
	return obj
}

// validate refuses what the product might get wrong.
func validate(k *kind, obj, old Object) error {
	var errs field.ErrorList
	switch o := obj.(type) {
	case *corev1.Service:
		if o.Spec.ClusterIP != corev1.ClusterIPNone && len(o.Spec.Ports) == 0 {
			errs = append(errs, field.Required(field.NewPath("spec", "ports"), ""))
		}
	case *corev1.Endpoints:
		errs = endpointsErrors(o)
	case *discoveryv1.EndpointSlice:
		errs = sliceErrors(o)
		if was, ok := old.(*discoveryv1.EndpointSlice); ok && was.AddressType != o.AddressType {
			errs = append(errs, field.Invalid(field.NewPath("addressType"), o.AddressType, "field is immutable"))
		}
	}
	return invalid(k, obj, errs)
}

func invalid(k *kind, obj Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(k.GroupKind(), obj.GetName(), errs)
}

func endpointsErrors(o *corev1.Endpoints) (errs field.ErrorList) {
	for i, subset := range o.Subsets {
		path := field.NewPath("subsets").Index(i)
		if len(subset.Addresses)+len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j, a := range subset.Addresses {
			errs = append(errs, addressErrors(a.IP, path.Child("addresses").Index(j).Child("ip"))...)
		}
		for j, a := range subset.NotReadyAddresses {
			errs = append(errs, addressErrors(a.IP, path.Child("notReadyAddresses").Index(j).Child("ip"))...)
		}
	}
	return errs
}

func sliceErrors(o *discoveryv1.EndpointSlice) (errs field.ErrorList) {
	if o.AddressType == "" {
		errs = append(errs, field.Required(field.NewPath("addressType"), ""))
	}
	for i, e := range o.Endpoints {
		path := field.NewPath("endpoints").Index(i)
		if len(e.Addresses) == 0 {
			errs = append(errs, field.Required(path.Child("addresses"), ""))
		}
		for j, a := range e.Addresses {
			errs = append(errs, addressErrors(a, path.Child("addresses").Index(j))...)
		}
	}
	return errs
}

func addressErrors(text string, path *field.Path) field.ErrorList {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return field.ErrorList{field.Invalid(path, text, "must be a valid IP address")}
	}
	if addr.IsLoopback() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() {
		return field.ErrorList{field.Invalid(path, text, "may not be in a reserved range")}
	}
	return nil
}
