// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// view is one Service's endpoints as text. Each part must be equal on both sides.
type view struct {
	// ports are those of the Service, in its order.
	ports []string
	// endpoints has a line for each subset and each address, in their order.
	endpoints []string
	// endpointsLabels and sliceLabels are without reserved keys. All slices must have
	// the same.
	endpointsLabels, sliceLabels string
	// slices has a line for each endpoint with its ports, sorted; families are those
	// that have a slice at all.
	slices, families []string
	// The trigger times in annotations, "" if there is none; those of slices are sorted.
	endpointsTrigger string
	sliceTriggers    []string
}

// familyPart is compared for Services with a selector only.
const familyPart = "families of EndpointSlices"

// parts returns what is compared, by name.
func (v *view) parts() map[string][]string {
	return map[string][]string{
		"ports of the Service": v.ports, "Endpoints": v.endpoints, "labels of Endpoints": {v.endpointsLabels},
		"EndpointSlices": v.slices, "labels of EndpointSlices": {v.sliceLabels}, familyPart: v.families,
	}
}

// text formats everything but the trigger times.
func (v *view) text() string {
	return fmt.Sprint(v.ports, v.endpoints, v.endpointsLabels, v.sliceLabels, v.slices, v.families)
}

func subsetLines(subsets []corev1.EndpointSubset) []string {
	var out []string
	address := func(state string, a *corev1.EndpointAddress) {
		out = append(out, fmt.Sprintf("  %s %s%s%s%s", state, a.IP, field("node", a.NodeName), field("host", &a.Hostname), target(a.TargetRef)))
	}
	for i := range subsets {
		s := &subsets[i]
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, portText(p.Name, p.Port, p.Protocol, p.AppProtocol))
		}
		out = append(out, "subset ["+strings.Join(ports, " ")+"]")
		for j := range s.Addresses {
			address("ready", &s.Addresses[j])
		}
		for j := range s.NotReadyAddresses {
			address("not ready", &s.NotReadyAddresses[j])
		}
	}
	return out
}

// slicePorts formats the ports of a slice, whose order has no meaning.
func slicePorts(s *discoveryv1.EndpointSlice) string {
	var ports []string
	for _, p := range s.Ports {
		if p.Name == nil || p.Port == nil || p.Protocol == nil {
			ports = append(ports, "a port without name, number or protocol")
			continue
		}
		ports = append(ports, portText(*p.Name, *p.Port, *p.Protocol, p.AppProtocol))
	}
	slices.Sort(ports)
	return string(s.AddressType) + " [" + strings.Join(ports, " ") + "]"
}

// endpointIdentity formats the ports, address and target of an endpoint of a slice.
func endpointIdentity(ports, address string, e *discoveryv1.Endpoint) string {
	return ports + " " + address + target(e.TargetRef)
}

func endpointDetails(e *discoveryv1.Endpoint) string {
	return fmt.Sprintf(" ready=%s serving=%s terminating=%s%s%s%s", condition(e.Conditions.Ready), condition(e.Conditions.Serving),
		condition(e.Conditions.Terminating), field("node", e.NodeName), field("zone", e.Zone), field("host", e.Hostname))
}

func condition(b *bool) string {
	if b == nil {
		return "unset"
	}
	return fmt.Sprint(*b)
}

func portText(name string, number int32, protocol corev1.Protocol, app *string) string {
	return fmt.Sprintf("%s:%d/%s%s", name, number, protocol, strings.TrimPrefix(field("~", app), " "))
}

// field formats a name with a value, "" if there is none.
func field(name string, value *string) string {
	if value == nil || *value == "" {
		return ""
	}
	return " " + name + "=" + *value
}

func target(r *corev1.ObjectReference) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf(" %s/%s/%s#%s", r.Kind, r.Namespace, r.Name, r.UID)
}

func servicePorts(s *corev1.Service) []string {
	var out []string
	for _, p := range s.Spec.Ports {
		out = append(out, portText(p.Name, p.Port, p.Protocol, p.AppProtocol))
	}
	return out
}

// labelText formats labels without the reserved keys.
func labelText(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if !slices.Contains(reserved, k) {
			out = append(out, k+"="+labels[k])
		}
	}
	return strings.Join(out, " ")
}
