// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file writes endpoints by hand, as an etcd operator does.

func (w *world) writeEndpoints(ctx context.Context, s *service) error {
	o := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name, Labels: map[string]string{"written-by": "hand"}},
	}
	if w.chance(15) {
		o.Labels[discoveryv1.LabelSkipMirror] = "true"
	}
	for i := range w.rng.IntN(3) {
		o.Subsets = append(o.Subsets, w.someSubset(i))
	}
	client := w.member.Client.CoreV1().Endpoints(s.namespace)
	s.endpoints = true
	// Endpoints from when the Service had a selector are overwritten.
	if _, err := client.Update(ctx, o, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	_, err := client.Create(ctx, o, metav1.CreateOptions{})
	return err
}

// someSubset draws a subset that is not in canonical order, and shares addresses with
// others.
func (w *world) someSubset(i int) corev1.EndpointSubset {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "client", Port: 2379 + int32(i), Protocol: corev1.ProtocolTCP}}}
	switch n := w.rng.IntN(100); {
	case n < 30:
		subset.Ports = append(subset.Ports, corev1.EndpointPort{Name: "admin", Port: 2385, Protocol: corev1.ProtocolTCP})
	case n < 60: // a port of its own for each subset: see forgive_test.go
		subset.Ports = append(subset.Ports, corev1.EndpointPort{
			Name: "admin", Port: 2390 + int32(i), Protocol: corev1.ProtocolTCP, AppProtocol: new("http")})
	}
	for j := range 1 + w.rng.IntN(4) {
		a := corev1.EndpointAddress{IP: fmt.Sprintf("192.168.%d.%d", w.rng.IntN(3), 20-j)}
		switch n := w.rng.IntN(100); {
		case n < 15:
			a.IP = fmt.Sprintf("fd00:99::%x", 1+w.rng.IntN(20))
		case n < 30:
			a.Hostname = fmt.Sprintf("etcd-%d", j)
		case n < 45:
			a.NodeName = new(nodeName(w.rng.IntN(nodes)))
		case n < 60:
			a.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: fmt.Sprintf("etcd-%d", j), UID: "by-hand"}
		}
		if w.chance(25) {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, a)
		} else {
			subset.Addresses = append(subset.Addresses, a)
		}
	}
	return subset
}

func (w *world) writeSlice(ctx context.Context, s *service) error {
	w.next++
	o := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: fmt.Sprintf("%s-hand-%d", s.name, w.next),
			Labels: map[string]string{discoveryv1.LabelServiceName: s.name},
		},
	}
	if w.chance(50) {
		o.Labels[discoveryv1.LabelManagedBy] = "hand.example.com"
	}
	w.fillSlice(o)
	if _, err := w.member.Client.DiscoveryV1().EndpointSlices(s.namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return err
	}
	s.slices = append(s.slices, o.Name)
	return nil
}

func (w *world) rewriteSlice(ctx context.Context, s *service) error {
	client := w.member.Client.DiscoveryV1().EndpointSlices(s.namespace)
	o, err := client.Get(ctx, s.slices[w.rng.IntN(len(s.slices))], metav1.GetOptions{})
	if err != nil {
		return err
	}
	w.fillSlice(o)
	_, err = client.Update(ctx, o, metav1.UpdateOptions{})
	return err
}

func (w *world) deleteSlice(ctx context.Context, s *service) error {
	i := w.rng.IntN(len(s.slices))
	name := s.slices[i]
	s.slices = append(s.slices[:i:i], s.slices[i+1:]...)
	return w.member.Client.DiscoveryV1().EndpointSlices(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// fillSlice draws the contents of a slice; its family stays.
func (w *world) fillSlice(o *discoveryv1.EndpointSlice) {
	if o.AddressType == "" {
		o.AddressType = discoveryv1.AddressTypeIPv4
		if w.chance(25) {
			o.AddressType = discoveryv1.AddressTypeIPv6
		}
	}
	o.Ports = []discoveryv1.EndpointPort{{Name: new("db"), Port: new(5432 + int32(w.rng.IntN(2))), Protocol: new(corev1.ProtocolTCP)}}
	if w.chance(30) {
		o.Ports = append(o.Ports, discoveryv1.EndpointPort{
			Name: new("metrics"), Port: new(int32(9187)), Protocol: new(corev1.ProtocolTCP), AppProtocol: new("http")})
	}
	o.Endpoints = nil
	for range w.rng.IntN(4) {
		e := discoveryv1.Endpoint{Addresses: []string{w.writtenAddress(o.AddressType)}}
		if w.chance(20) {
			e.Addresses = append(e.Addresses, w.writtenAddress(o.AddressType))
		}
		e.Conditions = discoveryv1.EndpointConditions{Ready: w.maybe(), Serving: w.maybe(), Terminating: w.maybe()}
		if w.chance(30) {
			e.Hostname, e.Zone, e.NodeName = new("db"), new("zone-9"), new("elsewhere")
		}
		o.Endpoints = append(o.Endpoints, e)
	}
}

func (w *world) writtenAddress(family discoveryv1.AddressType) string {
	w.next++
	if family == discoveryv1.AddressTypeIPv6 {
		return fmt.Sprintf("fd00:98::%x", w.next)
	}
	return fmt.Sprintf("192.168.%d.%d", 100+w.next/250%100, 1+w.next%250)
}

func (w *world) maybe() *bool {
	switch w.rng.IntN(4) {
	case 0, 1:
		return nil
	case 2:
		return new(true)
	default:
		return new(false)
	}
}
