// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package write

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// objectMeta is the metadata of an object to write. For an update the standing
// UID goes with it: a server creates a missing Endpoints on PUT, but not one
// whose UID it does not know.
func objectMeta(key syncer.Key, labels, annotations map[string]string, standing *plan.Meta, kept *cache.Extra) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels, Annotations: annotations}
	if standing != nil {
		m.UID = types.UID(standing.UID)
		m.ResourceVersion = standing.ResourceVersion
	}
	if kept != nil {
		m.Finalizers = kept.Finalizers
		m.OwnerReferences = kept.Owners
	}
	return m
}

// stamped returns annotations with the trigger time as upstream writes it: set
// when there is one, absent otherwise. The input is not changed.
func stamped(annotations map[string]string, trigger time.Time) map[string]string {
	_, has := annotations[plan.AnnotationTrigger]
	if trigger.IsZero() && !has {
		return annotations
	}
	out := make(map[string]string, len(annotations)+1)
	maps.Copy(out, annotations)
	delete(out, plan.AnnotationTrigger)
	if !trigger.IsZero() {
		out[plan.AnnotationTrigger] = trigger.UTC().Format(time.RFC3339Nano)
	}
	return out
}

// ServiceObject renders a replica Service; standing is nil for creation. former is the spec
// that stands: what a server has filled in, such as families, an update repeats.
func ServiceObject(key syncer.Key, spec *plan.ServiceSpec, standing *plan.Meta, kept *cache.Extra, former corev1.ServiceSpec) *corev1.Service {
	out := &corev1.Service{ObjectMeta: objectMeta(key, spec.Labels, spec.Annotations, standing, kept), Spec: former}
	cache.ClearStray(&out.Spec)
	out.Spec.Type = corev1.ServiceTypeClusterIP
	out.Spec.ClusterIP = corev1.ClusterIPNone
	out.Spec.Selector = nil
	out.Spec.Ports = make([]corev1.ServicePort, len(spec.Ports))
	for i, p := range spec.Ports {
		out.Spec.Ports[i] = corev1.ServicePort{
			Name: p.Name, Protocol: corev1.Protocol(p.Protocol), AppProtocol: p.AppProtocol,
			Port: p.Port, TargetPort: targetPort(p.Target),
		}
	}
	return out
}

func targetPort(t syncer.TargetPort) intstr.IntOrString {
	if t.Name != "" {
		return intstr.FromString(t.Name)
	}
	return intstr.FromInt32(t.Number)
}

// EndpointsObject renders Endpoints; standing is nil for creation.
func EndpointsObject(key syncer.Key, spec *plan.EndpointsSpec, standing *plan.Meta, kept *cache.Extra) *corev1.Endpoints {
	annotations := stamped(spec.Annotations, spec.Trigger)
	out := &corev1.Endpoints{
		ObjectMeta: objectMeta(key, spec.Labels, annotations, standing, kept),
		Subsets:    make([]corev1.EndpointSubset, len(spec.Subsets)),
	}
	for i, subset := range spec.Subsets {
		out.Subsets[i] = corev1.EndpointSubset{
			Addresses:         addresses(subset.Ready),
			NotReadyAddresses: addresses(subset.NotReady),
			Ports:             endpointPorts(subset.Ports),
		}
	}
	return out
}

func addresses(in []syncer.Address) []corev1.EndpointAddress {
	if len(in) == 0 {
		return nil
	}
	out := make([]corev1.EndpointAddress, len(in))
	for i := range in {
		a := &in[i]
		out[i] = corev1.EndpointAddress{
			IP: a.Addr.String(), Hostname: a.Hostname, NodeName: optional(a.NodeName), TargetRef: objectReference(a.Target),
		}
	}
	return out
}

func endpointPorts(in []syncer.Port) []corev1.EndpointPort {
	if len(in) == 0 {
		return nil
	}
	out := make([]corev1.EndpointPort, len(in))
	for i, p := range in {
		out[i] = corev1.EndpointPort{
			Name: p.Name, Port: p.Number, Protocol: corev1.Protocol(p.Protocol), AppProtocol: appProtocol(p.AppProtocol),
		}
	}
	return out
}

// SliceObject renders an EndpointSlice; standing is nil for creation. owner is
// the UID of the replica Service, which takes its slices along when it goes.
func SliceObject(replica syncer.Key, owner string, spec *plan.SliceSpec, standing *plan.Meta, kept *cache.Extra) *discoveryv1.EndpointSlice {
	key := syncer.Key{Namespace: replica.Namespace, Name: spec.Name}
	out := &discoveryv1.EndpointSlice{
		ObjectMeta:  objectMeta(key, spec.Labels, stamped(spec.Annotations, spec.Trigger), standing, kept),
		AddressType: discoveryv1.AddressType(spec.Family),
		Endpoints:   make([]discoveryv1.Endpoint, len(spec.Endpoints)),
		Ports:       make([]discoveryv1.EndpointPort, len(spec.Ports)),
	}
	if owner != "" {
		out.OwnerReferences = append([]metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Service", Name: replica.Name, UID: types.UID(owner), Controller: new(true),
		}}, out.OwnerReferences...)
	}
	for i := range spec.Endpoints {
		out.Endpoints[i] = sliceEndpoint(&spec.Endpoints[i])
	}
	for i, p := range spec.Ports {
		out.Ports[i] = discoveryv1.EndpointPort{
			Name: new(p.Name), Protocol: new(corev1.Protocol(p.Protocol)), Port: new(p.Number), AppProtocol: appProtocol(p.AppProtocol),
		}
	}
	return out
}

// sliceEndpoint sets all three conditions: consumers disagree about what a
// missing one means.
func sliceEndpoint(e *syncer.Endpoint) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{e.Addr.String()},
		Conditions: discoveryv1.EndpointConditions{
			Ready: new(e.Ready), Serving: new(e.Serving), Terminating: new(e.Terminating),
		},
		Hostname: optional(e.Hostname), NodeName: optional(e.NodeName), Zone: optional(e.Zone),
		TargetRef: objectReference(e.Target),
	}
}

func objectReference(t syncer.TargetRef) *corev1.ObjectReference {
	if t == (syncer.TargetRef{}) {
		return nil
	}
	return &corev1.ObjectReference{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, UID: types.UID(t.UID)}
}

func appProtocol(p syncer.AppProtocol) *string {
	if !p.Set {
		return nil
	}
	return new(p.Value)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return new(s)
}
