// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package model

import (
	"cmp"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fill sets what a server fills in, where a client could notice. An update retains what was assigned
// to a Service.
func (s *Server) fill(before, after Object) {
	after.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // the store knows
	svc, ok := after.(*corev1.Service)
	if !ok {
		return
	}
	spec := &svc.Spec
	if was, ok := before.(*corev1.Service); ok {
		spec.ClusterIP = cmp.Or(spec.ClusterIP, was.Spec.ClusterIP)
		if spec.IPFamilies == nil && spec.IPFamilyPolicy == nil {
			spec.IPFamilies, spec.IPFamilyPolicy = was.Spec.IPFamilies, was.Spec.IPFamilyPolicy
		}
	}
	if spec.ClusterIP == "" {
		s.serial++
		spec.ClusterIP = fmt.Sprintf("172.20.%d.%d", s.serial>>8&255, s.serial&255)
	}
	spec.ClusterIPs = []string{spec.ClusterIP}
	families, policy := []corev1.IPFamily{corev1.IPv4Protocol}, corev1.IPFamilyPolicySingleStack
	if spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0 {
		families, policy = append(families, corev1.IPv6Protocol), corev1.IPFamilyPolicyRequireDualStack
	}
	if spec.IPFamilies == nil {
		spec.IPFamilies = families
	}
	spec.IPFamilyPolicy = cmp.Or(spec.IPFamilyPolicy, &policy)
	spec.SessionAffinity = cmp.Or(spec.SessionAffinity, corev1.ServiceAffinityNone)
	spec.InternalTrafficPolicy = cmp.Or(spec.InternalTrafficPolicy, new(corev1.ServiceInternalTrafficPolicyCluster))
	for i := range spec.Ports {
		p := &spec.Ports[i]
		p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
		p.TargetPort = cmp.Or(p.TargetPort, intstr.FromInt32(p.Port))
	}
}

// validate refuses what the product might get wrong. before is nil where an object is made.
func validate(id ID, before, after Object) error {
	var errs field.ErrorList
	switch o := after.(type) {
	case *corev1.Service:
		if o.Spec.ClusterIP != corev1.ClusterIPNone && len(o.Spec.Ports) == 0 {
			errs = append(errs, field.Required(field.NewPath("spec", "ports"), ""))
		}
		if was, ok := before.(*corev1.Service); ok && was.Spec.ClusterIP != o.Spec.ClusterIP {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs"), o.Spec.ClusterIP, "may not change once set"))
		}
	case *corev1.Endpoints:
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
	case *discoveryv1.EndpointSlice:
		if o.AddressType == "" {
			errs = append(errs, field.Required(field.NewPath("addressType"), ""))
		}
		if was, ok := before.(*discoveryv1.EndpointSlice); ok && was.AddressType != o.AddressType {
			errs = append(errs, field.Invalid(field.NewPath("addressType"), o.AddressType, "field is immutable"))
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
	}
	return Invalid(id, errs)
}

// Invalid refuses an object for errors in its fields; nil: there are none.
func Invalid(id ID, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(id.Kind.GroupVersionKind().GroupKind(), id.Name, errs)
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
