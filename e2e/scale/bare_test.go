// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bareFill writes what a cold fill of n replicas has to write, and nothing else:
// 16 workers, objects made beforehand. It returns replicas a second.
func (w *world) bareFill(n int) float64 {
	w.Helper()
	ctx := w.Context()
	client := w.fleet.Ingress.Client
	w.must(w.fleet.Ingress.CreateNamespaces(ctx, "bare"))
	type replica struct {
		service   *corev1.Service
		slice     *discoveryv1.EndpointSlice
		endpoints *corev1.Endpoints
	}
	all := make([]replica, n)
	for i := range all {
		all[i].service, all[i].slice, all[i].endpoints = bareReplica(i)
	}
	start := time.Now()
	w.each(n, func(ctx context.Context, i int) error {
		if _, err := client.CoreV1().Services("bare").Create(ctx, all[i].service, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := client.DiscoveryV1().EndpointSlices("bare").Create(ctx, all[i].slice, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := client.CoreV1().Endpoints("bare").Create(ctx, all[i].endpoints, metav1.CreateOptions{})
		return err
	})
	return float64(n) / time.Since(start).Seconds()
}

// bareReplica is about as large as a replica of one pod.
func bareReplica(i int) (*corev1.Service, *discoveryv1.EndpointSlice, *corev1.Endpoints) {
	name, ip := bulkName(i), fmt.Sprintf("10.200.%d.%d", i/250, 1+i%250)
	meta := func(name string, more map[string]string) metav1.ObjectMeta {
		labels := map[string]string{"app.kubernetes.io/managed-by": "bare", "service.kubernetes.io/headless": ""}
		for k, v := range more {
			labels[k] = v
		}
		return metav1.ObjectMeta{Namespace: "bare", Name: name, Labels: labels}
	}
	target := &corev1.ObjectReference{Kind: "Pod", Namespace: "bare", Name: name, UID: "00000000-0000-0000-0000-000000000000"}
	service := &corev1.Service{ObjectMeta: meta(name, nil), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	service.Annotations = map[string]string{"tributary.dev/sources": `[{"cluster":"idc-b","service":"bare/` + name + `","created":"2026-01-01T00:00:00Z","ports":["http"],"family":"IPv4"}]`}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta(name+"-idc-b-0000000000-0", map[string]string{
			discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: "bare", "multicluster.kubernetes.io/source-cluster": "idc-b"}),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}, NodeName: new("node-0"), TargetRef: target,
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}}},
	}
	endpoints := &corev1.Endpoints{
		ObjectMeta: meta(name, map[string]string{discoveryv1.LabelSkipMirror: "true"}),
		Subsets: []corev1.EndpointSubset{{Ports: []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}},
			Addresses: []corev1.EndpointAddress{{IP: ip, NodeName: new("node-0"), TargetRef: target}}}},
	}
	return service, slice, endpoints
}
