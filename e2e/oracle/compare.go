// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

func uid(text string) types.UID { return types.UID(text) }

// DiffEndpoints compares our Endpoints with what upstream created for the case
// without refusals, order included. It returns "" when they are equal.
func DiffEndpoints(o *Ours, upstream *corev1.Endpoints) string {
	var want []corev1.EndpointSubset
	var truncated, trigger string
	if upstream != nil {
		want = forgiveSubsets(upstream.Subsets)
		truncated = upstream.Annotations[corev1.EndpointsOverCapacity]
		trigger = upstream.Annotations[corev1.EndpointsLastChangeTriggerTime]
	}
	got := endpointSubsets(o.Subsets)
	switch {
	case !apiequality.Semantic.DeepEqual(got, want):
		return sideBySide(showSubsets(got), showSubsets(want))
	case o.Truncated != (truncated == "truncated"):
		return fmt.Sprintf("ours truncated: %v, upstream's annotation: %q", o.Truncated, truncated)
	case upstream != nil && o.Trigger != trigger:
		return fmt.Sprintf("trigger time: ours %q, upstream %q", o.Trigger, trigger)
	}
	return ""
}

// DiffSlices compares our slices with upstream's: the same endpoints under the
// same ports, and as many slices for each family and ports. How endpoints
// spread over slices of a kind is arbitrary upstream.
func DiffSlices(c *Case, o *Ours, upstream []*discoveryv1.EndpointSlice) string {
	ours := make([]*discoveryv1.EndpointSlice, len(o.Slices))
	for i := range o.Slices {
		ours[i] = endpointSlice(&o.Slices[i])
	}
	got, want := flatten(ours), flatten(forgiveSlices(c.Service, upstream))
	if slices.Equal(got, want) {
		return ""
	}
	return sideBySide(got, want)
}

// flatten formats slices as one line for each slice without its endpoints and
// one for each endpoint with its ports, sorted.
func flatten(list []*discoveryv1.EndpointSlice) []string {
	var out []string
	for _, s := range list {
		ports := make([]string, len(s.Ports))
		for i, p := range s.Ports {
			ports[i] = fmt.Sprintf("%s:%d/%s%s", *p.Name, *p.Port, *p.Protocol, text("~", p.AppProtocol))
		}
		slices.Sort(ports)
		key := string(s.AddressType) + " [" + strings.Join(ports, " ") + "]"
		out = append(out, "slice "+key)
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			out = append(out, fmt.Sprintf("%s %s ready=%v serving=%v terminating=%v%s%s%s%s", key, strings.Join(e.Addresses, ","),
				*e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating, text(" node=", e.NodeName), text(" zone=", e.Zone),
				text(" host=", e.Hostname), target(e.TargetRef)))
		}
	}
	slices.Sort(out)
	return out
}

func target(r *corev1.ObjectReference) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf(" %s/%s/%s#%s", r.Kind, r.Namespace, r.Name, r.UID)
}

func text(label string, s *string) string {
	if s == nil {
		return ""
	}
	return label + *s
}

func showSubsets(subsets []corev1.EndpointSubset) []string {
	var out []string
	address := func(state string, a *corev1.EndpointAddress) {
		out = append(out, fmt.Sprintf("  %s %s%s%s %+v", state, a.IP, text(" node=", a.NodeName), " host="+a.Hostname, a.TargetRef))
	}
	for i := range subsets {
		var ports []string
		for _, p := range subsets[i].Ports {
			ports = append(ports, fmt.Sprintf("%s:%d/%s%s", p.Name, p.Port, p.Protocol, text("~", p.AppProtocol)))
		}
		out = append(out, "subset ["+strings.Join(ports, " ")+"]")
		for j := range subsets[i].Addresses {
			address("ready", &subsets[i].Addresses[j])
		}
		for j := range subsets[i].NotReadyAddresses {
			address("not ready", &subsets[i].NotReadyAddresses[j])
		}
	}
	return out
}

// sideBySide formats what differs: both lists without their common beginning and
// end, shortened to what a person would read.
func sideBySide(ours, upstream []string) string {
	start := 0
	for start < min(len(ours), len(upstream)) && ours[start] == upstream[start] {
		start++
	}
	ours, upstream = ours[start:], upstream[start:]
	for n := min(len(ours), len(upstream)); n > 0 && ours[len(ours)-1] == upstream[len(upstream)-1]; n-- {
		ours, upstream = ours[:len(ours)-1], upstream[:len(upstream)-1]
	}
	return fmt.Sprintf("from line %d on\n", start+1) + lines("ours", ours) + lines("upstream", upstream)
}

func lines(title string, list []string) string {
	const most = 30
	more := ""
	if len(list) > most {
		more = fmt.Sprintf("    and %d more\n", len(list)-most)
		list = list[:most]
	}
	return title + ":\n    " + strings.Join(list, "\n    ") + "\n" + more
}
