// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Labels of the contract.
const (
	managedBy     = "app.kubernetes.io/managed-by"
	sourceCluster = "multicluster.kubernetes.io/source-cluster"
)

// endpointsLines renders an Endpoints object as sorted lines
// "ip:port/name ready|notready". A missing object is the line "none".
func endpointsLines(ctx context.Context, c kubernetes.Interface, namespace, name string) ([]string, error) {
	endpoints, err := c.CoreV1().Endpoints(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return []string{"none"}, nil
	}
	if err != nil {
		return nil, err
	}
	lines := []string{}
	for _, subset := range endpoints.Subsets {
		ports := subset.Ports
		if len(ports) == 0 {
			ports = []corev1.EndpointPort{{}}
		}
		for _, port := range ports {
			for _, a := range subset.Addresses {
				lines = append(lines, fmt.Sprintf("%s:%d/%s ready", a.IP, port.Port, port.Name))
			}
			for _, a := range subset.NotReadyAddresses {
				lines = append(lines, fmt.Sprintf("%s:%d/%s notready", a.IP, port.Port, port.Name))
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// sliceLines renders a Service's EndpointSlices as sorted lines
// "cluster ip:port/name conditions", where conditions are the true ones of
// ready, serving, terminating joined by "+", or "off". A condition that is not
// set at all is an error, since the contract sets every one.
func sliceLines(ctx context.Context, c kubernetes.Interface, namespace, name string) ([]string, error) {
	list, err := c.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return nil, err
	}
	lines := []string{}
	for i := range list.Items {
		got, err := oneSlice(&list.Items[i])
		if err != nil {
			return nil, err
		}
		lines = append(lines, got...)
	}
	slices.Sort(lines)
	return lines, nil
}

func oneSlice(slice *discoveryv1.EndpointSlice) (lines []string, err error) {
	for _, e := range slice.Endpoints {
		state, err := conditions(slice.Name, e.Conditions)
		if err != nil {
			return nil, err
		}
		for _, port := range slice.Ports {
			if port.Name == nil || port.Port == nil || port.Protocol == nil {
				return nil, fmt.Errorf("slice %s: a port without name, number or protocol: %v", slice.Name, port)
			}
			for _, address := range e.Addresses {
				lines = append(lines, fmt.Sprintf("%s %s:%d/%s %s", slice.Labels[sourceCluster], address, *port.Port, *port.Name, state))
			}
		}
		if len(slice.Ports) == 0 {
			lines = append(lines, fmt.Sprintf("%s %s:0/ %s", slice.Labels[sourceCluster], strings.Join(e.Addresses, ","), state))
		}
	}
	return lines, nil
}

func conditions(slice string, c discoveryv1.EndpointConditions) (string, error) {
	var set []string
	for _, condition := range []struct {
		name  string
		value *bool
	}{{"ready", c.Ready}, {"serving", c.Serving}, {"terminating", c.Terminating}} {
		if condition.value == nil {
			return "", fmt.Errorf("slice %s: condition %s is not set", slice, condition.name)
		}
		if *condition.value {
			set = append(set, condition.name)
		}
	}
	if len(set) == 0 {
		return "off", nil
	}
	return strings.Join(set, "+"), nil
}
