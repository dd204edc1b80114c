// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the contract.
const (
	managedBy     = "app.kubernetes.io/managed-by"
	instanceLabel = "tributary.dev/instance"
	sourceCluster = "multicluster.kubernetes.io/source-cluster"
	ourController = "tributary.dev"
)

// ours is what the ingress cluster shows of a Service. Breaches of the contract
// become lines that the member's view never has.
func (w *world) ours(o *objects, k key) *view {
	s := o.services[k]
	if s == nil {
		return nil
	}
	v := &view{ports: servicePorts(s), endpointsLabels: labelText(s.Labels), sliceLabels: labelText(s.Labels)}
	if s.Spec.ClusterIP != corev1.ClusterIPNone || s.Spec.Selector != nil || s.Labels[managedBy] != "tributary" {
		v.ports = append(v.ports, "no replica: "+s.Spec.String())
	}
	if e := o.endpoints[k]; e == nil {
		v.endpoints = []string{"no Endpoints"}
	} else {
		v.endpoints, v.endpointsLabels = subsetLines(e.Subsets), labelText(e.Labels)
		v.endpointsTrigger = e.Annotations[corev1.EndpointsLastChangeTriggerTime]
		if e.Labels[discoveryv1.LabelSkipMirror] != "true" || e.Labels[managedBy] != "tributary" {
			v.endpoints = append(v.endpoints, fmt.Sprintf("labels against the contract: %v", e.Labels))
		}
	}
	for _, slice := range o.slices[k] {
		v.addSlice(slice, labelText(slice.Labels))
		if _, headless := slice.Labels[corev1.IsHeadlessService]; !headless || slice.Labels[discoveryv1.LabelManagedBy] != ourController ||
			slice.Labels[sourceCluster] != w.member.Name() || !ownedBy(slice, s) {
			v.slices = append(v.slices, fmt.Sprintf("%s: labels or owner against the contract: %v %v", slice.Name, slice.Labels, slice.OwnerReferences))
		}
		ports := slicePorts(slice)
		for i := range slice.Endpoints {
			for _, a := range slice.Endpoints[i].Addresses {
				v.slices = append(v.slices, endpointIdentity(ports, a, &slice.Endpoints[i])+endpointDetails(&slice.Endpoints[i]))
			}
		}
	}
	v.sort()
	return v
}

// theirs is what the ingress cluster must show of a Service of the member, nil if it
// must not exist there.
func theirs(o *objects, k key) *view {
	s := o.services[k]
	if s == nil || s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	v := &view{ports: servicePorts(s), endpointsLabels: labelText(s.Labels), sliceLabels: labelText(s.Labels)}
	e := o.endpoints[k]
	if e != nil {
		v.endpoints = subsetLines(e.Subsets)
	}
	if s.Spec.Selector == nil {
		v.written(o, k)
		v.sort()
		return v
	}
	if e == nil {
		v.endpoints = []string{"no Endpoints"}
	} else {
		v.endpointsLabels = labelText(e.Labels)
		v.endpointsTrigger = e.Annotations[corev1.EndpointsLastChangeTriggerTime]
	}
	for _, slice := range o.slices[k] {
		if slice.Labels[discoveryv1.LabelManagedBy] != sliceController || !ownedBy(slice, s) {
			continue // see forgive_test.go
		}
		v.addSlice(slice, labelText(slice.Labels))
		if portless(s, slice) {
			continue
		}
		ports := slicePorts(slice)
		for i := range slice.Endpoints {
			for _, a := range slice.Endpoints[i].Addresses {
				v.slices = append(v.slices, endpointIdentity(ports, a, &slice.Endpoints[i])+endpointDetails(&slice.Endpoints[i]))
			}
		}
	}
	v.sort()
	return v
}

// written adds the endpoints of the slices of a Service without a selector: of
// hand-written slices, with unset conditions as the API documents them, and of those
// by the mirroring controller, except for endpoints in a hand-written one.
func (v *view) written(o *objects, k key) {
	said := map[string]bool{}
	for _, slice := range o.slices[k] {
		if !byHand(slice) {
			continue
		}
		ports := slicePorts(slice)
		for i := range slice.Endpoints {
			e := slice.Endpoints[i].DeepCopy()
			readUnset(e)
			for _, a := range e.Addresses {
				id := endpointIdentity(ports, a, e)
				said[id] = true
				v.slices = append(v.slices, id+endpointDetails(e))
			}
		}
	}
	for _, slice := range o.slices[k] {
		if !mirrored(o, k, slice) {
			continue
		}
		ports := slicePorts(slice)
		for i := range slice.Endpoints {
			e := slice.Endpoints[i].DeepCopy()
			readUnset(e)
			for _, a := range e.Addresses {
				if id := endpointIdentity(ports, a, e); !said[id] {
					v.slices = append(v.slices, id+endpointDetails(e))
				}
			}
		}
	}
}

// addSlice adds what a slice has beside endpoints.
func (v *view) addSlice(s *discoveryv1.EndpointSlice, labels string) {
	v.sliceTriggers = append(v.sliceTriggers, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	v.families = append(v.families, string(s.AddressType))
	if labels != v.sliceLabels {
		v.slices = append(v.slices, fmt.Sprintf("labels %q instead of %q", labels, v.sliceLabels))
	}
}

func (v *view) sort() {
	slices.Sort(v.slices)
	slices.Sort(v.families)
	v.families = slices.Compact(v.families)
	slices.Sort(v.sliceTriggers)
	v.sliceTriggers = slices.Compact(v.sliceTriggers)
}

func ownedBy(slice *discoveryv1.EndpointSlice, owner metav1.Object) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
}
