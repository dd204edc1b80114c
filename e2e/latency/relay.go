// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Kind is the kind of object an arm writes or waits for.
type Kind string

// The kinds that are measured.
const (
	Endpoints      Kind = "Endpoints"
	EndpointSlices Kind = "EndpointSlices"
)

// NullRelay copies the readiness of one pod into one prebuilt object.
type NullRelay struct {
	Member  kubernetes.Interface
	Ingress kubernetes.Interface
	// Pod is watched in Namespace of the member; the object named Object is
	// overwritten in the same namespace of the ingress cluster.
	Namespace, Pod, Object string
	Kind                   Kind
}

// Run relays until the context ends or the watch breaks. ready is called once
// the watch is open.
func (r *NullRelay) Run(ctx context.Context, ready func()) error {
	stream, err := r.Member.CoreV1().Pods(r.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Pod})
	if err != nil {
		return fmt.Errorf("null relay: watch pod %s/%s: %w", r.Namespace, r.Pod, err)
	}
	defer stream.Stop()
	put := r.prebuilt()
	ready()
	for event := range stream.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("null relay: watch pod %s/%s: %v", r.Namespace, r.Pod, event.Object)
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type != watch.Modified {
			continue
		}
		if err := put(ctx, podReady(pod)); err != nil && ctx.Err() == nil {
			return fmt.Errorf("null relay: put %s %s/%s: %w", r.Kind, r.Namespace, r.Object, err)
		}
	}
	return ctx.Err()
}

// prebuilt returns the write, with both of its bodies encoded in advance.
func (r *NullRelay) prebuilt() func(context.Context, bool) error {
	if r.Kind == Endpoints {
		bodies := map[bool]*corev1.Endpoints{true: r.endpoints(true), false: r.endpoints(false)}
		return func(ctx context.Context, ready bool) error {
			_, err := r.Ingress.CoreV1().Endpoints(r.Namespace).Update(ctx, bodies[ready], metav1.UpdateOptions{})
			return err
		}
	}
	bodies := map[bool]*discoveryv1.EndpointSlice{true: r.slice(true), false: r.slice(false)}
	return func(ctx context.Context, ready bool) error {
		_, err := r.Ingress.DiscoveryV1().EndpointSlices(r.Namespace).Update(ctx, bodies[ready], metav1.UpdateOptions{})
		return err
	}
}

// Create makes the objects that the relay overwrites.
func (r *NullRelay) Create(ctx context.Context) error {
	var err error
	if r.Kind == Endpoints {
		_, err = r.Ingress.CoreV1().Endpoints(r.Namespace).Create(ctx, r.endpoints(true), metav1.CreateOptions{})
	} else {
		_, err = r.Ingress.DiscoveryV1().EndpointSlices(r.Namespace).Create(ctx, r.slice(true), metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("null relay: create %s %s/%s: %w", r.Kind, r.Namespace, r.Object, err)
	}
	return nil
}

const relayAddress = "10.250.0.1"

func (r *NullRelay) endpoints(ready bool) *corev1.Endpoints {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}}
	addresses := []corev1.EndpointAddress{{IP: relayAddress, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: r.Namespace, Name: r.Pod}}}
	if ready {
		subset.Addresses = addresses
	} else {
		subset.NotReadyAddresses = addresses
	}
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Object, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
		Subsets:    []corev1.EndpointSubset{subset},
	}
}

func (r *NullRelay) slice(ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Object, Labels: map[string]string{discoveryv1.LabelServiceName: r.Object, discoveryv1.LabelManagedBy: "null-relay"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{relayAddress},
			Conditions: discoveryv1.EndpointConditions{Ready: new(ready), Serving: new(ready), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: r.Namespace, Name: r.Pod},
		}},
	}
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
