// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readyAddresses returns the ready addresses of a replica, by its Endpoints and
// by its slices, sorted.
func (w *world) readyAddresses(ctx context.Context, service string) (inEndpoints, inSlices []string, err error) {
	return w.readyIn(ctx, w.ns, service)
}

// readyIn does the same in another namespace.
func (w *world) readyIn(ctx context.Context, namespace, service string) (inEndpoints, inSlices []string, err error) {
	endpoints, err := w.ingress.Client.CoreV1().Endpoints(namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	for _, s := range endpoints.Subsets {
		for _, a := range s.Addresses {
			inEndpoints = append(inEndpoints, a.IP)
		}
	}
	list, err := w.ingress.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				inSlices = append(inSlices, e.Addresses...)
			}
		}
	}
	slices.Sort(inEndpoints)
	slices.Sort(inSlices)
	return slices.Compact(inEndpoints), slices.Compact(inSlices), nil
}

// hasReady returns nil when an address is ready in both kinds.
func (w *world) hasReady(ctx context.Context, service, ip string) error {
	inEndpoints, inSlices, err := w.readyAddresses(ctx, service)
	if err != nil {
		return err
	}
	if !slices.Contains(inEndpoints, ip) || !slices.Contains(inSlices, ip) {
		return fmt.Errorf("%s is not ready yet: endpoints %q, slices %q", ip, inEndpoints, inSlices)
	}
	return nil
}

// counts returns nil when a replica has so many ready addresses in both kinds.
func (w *world) counts(service string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		inEndpoints, inSlices, err := w.readyAddresses(ctx, service)
		if err != nil {
			return err
		}
		if len(inEndpoints) != n || len(inSlices) != n {
			return fmt.Errorf("%s has %d ready addresses in Endpoints and %d in slices, want %d", service, len(inEndpoints), len(inSlices), n)
		}
		return nil
	}
}

// metAtLeast returns nil when a fault has met so many requests.
func metAtLeast(f *Fault, n int) func(context.Context) error {
	return func(context.Context) error {
		if f.Met() < n {
			return fmt.Errorf("%d requests so far, want %d", f.Met(), n)
		}
		return nil
	}
}

// everything is the options of a list of all.
var everything = metav1.ListOptions{}
