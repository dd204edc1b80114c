// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// What is forgiven, all of it in this file:
//
//   - Labels that mean something about the object they are on (reserved) are not
//     copied from Services, nor compared.
//   - The upstream slice controller puts pods without any of the Service's ports
//     in a slice without ports (portless); we omit them.
//   - Hand-written slices count for Services without a selector only. Slices that
//     the slice controller left of a Service that lost its selector (#105997) do
//     not count. A deleted owner's slices wait for a garbage collector that does
//     not run here (mirrored, ownedBy).
//   - Mirrored slices set ready only (readUnset).
//   - Families of slices without endpoints, for Services without a selector: the
//     mirroring controller makes an empty slice where there is nothing.
//   - The mirroring controller treats a port with an appProtocol that several
//     hand-written subsets have as several ports, because it compares pointers.
//     Such subsets are not made (someSubset).
//   - Hints: they are not compared.
//   - Upstream does not sync when only a pod's phase changes (D1, finishedListed).
//   - The trigger time from the second round on (see triggers_test.go).

// Controllers, as slices name them.
const (
	sliceController  = "endpointslice-controller.k8s.io"
	mirrorController = "endpointslicemirroring-controller.k8s.io"
)

// reserved are the labels that mean something about the object they are on.
var reserved = []string{
	corev1.IsHeadlessService, "endpoints.kubernetes.io/managed-by",
	discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, discoveryv1.LabelSkipMirror, sourceCluster, managedBy, instanceLabel,
}

// portless reports whether a slice has no ports, so that we omit its pods.
func portless(s *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	return len(slice.Ports) == 0 && (len(s.Spec.Ports) > 0 || s.Spec.ClusterIP != corev1.ClusterIPNone)
}

// byHand reports whether a slice is hand-written.
func byHand(slice *discoveryv1.EndpointSlice) bool {
	by := slice.Labels[discoveryv1.LabelManagedBy]
	return by != sliceController && by != mirrorController
}

// mirrored reports whether a slice mirrors the current Endpoints.
func mirrored(o *objects, k key, slice *discoveryv1.EndpointSlice) bool {
	e := o.endpoints[k]
	return slice.Labels[discoveryv1.LabelManagedBy] == mirrorController && e != nil && ownedBy(slice, e)
}

// readUnset sets unset conditions to what the API documents them to mean.
func readUnset(e *discoveryv1.Endpoint) {
	if e.Conditions.Ready == nil {
		e.Conditions.Ready = new(true)
	}
	if e.Conditions.Serving == nil {
		e.Conditions.Serving = new(*e.Conditions.Ready)
	}
	if e.Conditions.Terminating == nil {
		e.Conditions.Terminating = new(false)
	}
}

// finishedListed reports whether a cluster's objects of a Service still list a
// pod of the member that has finished.
func finishedListed(member, shown *objects, k key) bool {
	s := member.services[k]
	if s == nil || s.Spec.Selector == nil {
		return false
	}
	for _, p := range member.pods {
		if p.Namespace != k.namespace || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) ||
			p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			continue
		}
		is := func(r *corev1.ObjectReference) bool { return r != nil && r.UID == p.UID }
		listed := slices.ContainsFunc(shown.slices[k], func(slice *discoveryv1.EndpointSlice) bool {
			return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return is(e.TargetRef) })
		})
		if e := shown.endpoints[k]; e != nil {
			for _, subset := range e.Subsets {
				for _, a := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
					listed = listed || is(a.TargetRef)
				}
			}
		}
		if listed {
			return true
		}
	}
	return false
}
