// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

// key names a Service.
type key struct{ namespace, name string }

func (k key) String() string { return k.namespace + "/" + k.name }

// objects are the relevant objects of one cluster.
type objects struct {
	services  map[key]*corev1.Service
	endpoints map[key]*corev1.Endpoints
	// slices are by Service; a deleted one may still have some.
	slices map[key][]*discoveryv1.EndpointSlice
	// pods are nil for the ingress cluster.
	pods []*corev1.Pod
	// print is a fingerprint that changes with every write.
	print uint64
}

// observe lists a cluster.
func observe(ctx context.Context, site *fleet.Site, withPods bool, namespaces []string) (*objects, error) {
	o := &objects{services: map[key]*corev1.Service{}, endpoints: map[key]*corev1.Endpoints{}, slices: map[key][]*discoveryv1.EndpointSlice{}}
	hash := fnv.New64a()
	seen := func(meta *metav1.ObjectMeta) key {
		fmt.Fprintln(hash, meta.UID, meta.ResourceVersion)
		return key{meta.Namespace, meta.Name}
	}
	for _, namespace := range namespaces {
		services, err := site.Client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range services.Items {
			o.services[seen(&services.Items[i].ObjectMeta)] = &services.Items[i]
		}
		endpoints, err := site.Client.CoreV1().Endpoints(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range endpoints.Items {
			o.endpoints[seen(&endpoints.Items[i].ObjectMeta)] = &endpoints.Items[i]
		}
		list, err := site.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			s := &list.Items[i]
			seen(&s.ObjectMeta)
			k := key{s.Namespace, s.Labels[discoveryv1.LabelServiceName]}
			o.slices[k] = append(o.slices[k], s)
		}
		if !withPods {
			continue
		}
		pods, err := site.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range pods.Items {
			seen(&pods.Items[i].ObjectMeta)
			o.pods = append(o.pods, &pods.Items[i])
		}
	}
	o.print = hash.Sum64()
	return o, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
