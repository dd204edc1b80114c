// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Differences lists what the members want in a namespace and what an installation shows
// in the ingress cluster, and returns one line for each fact and each Service that is
// missing or left over. Replicas with more pods than fit into Endpoints are compared by
// their slices alone, those whose Service is somebody else's only for what is left over.
func Differences(ctx context.Context, namespace string, of Installation, ingress Source, members ...Source) ([]string, error) {
	want, origin, services := map[Fact]bool{}, map[string]string{}, map[Key][]string{} // the members that have the Service
	pods := map[Key]int{}
	for _, m := range members {
		list, err := m.Client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		all, err := podsOf(ctx, m.Client, namespace)
		if err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		for _, p := range all {
			origin[string(p.UID)] = m.Name
		}
		for i := range list.Items {
			s := &list.Items[i]
			if replicated(s) {
				key := Key{s.Namespace, s.Name}
				services[key] = append(services[key], m.Name)
			}
			for f := range Wanted(m.Name, s, slices.Values(all)) {
				want[f] = true
				pods[f.Replica]++
			}
		}
	}
	shown, err := shownIn(ctx, namespace, of, ingress.Client, origin, services)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	var lines []string
	for f := range want {
		if !shown.facts[f] && !shown.foreign[f.Replica] && (f.Kind != Endpoints || pods[f.Replica] <= capacity) {
			lines = append(lines, "missing: "+f.String())
		}
	}
	for f := range shown.facts {
		if !want[f] && f.UID != "" && (f.Kind != Endpoints || pods[f.Replica] <= capacity) {
			lines = append(lines, "left over: "+f.String())
		}
	}
	lines = append(lines, shown.others...)
	slices.Sort(lines)
	return lines, nil
}

func podsOf(ctx context.Context, c kubernetes.Interface, namespace string) ([]*corev1.Pod, error) {
	list, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}

// published is what the ingress cluster shows.
type published struct {
	facts map[Fact]bool
	// foreign are the Services that are somebody else's.
	foreign map[Key]bool
	// others describes objects that are left over or missing.
	others []string
}

func shownIn(ctx context.Context, namespace string, of Installation, c kubernetes.Interface, origin map[string]string, services map[Key][]string) (*published, error) {
	s := &published{facts: map[Fact]bool{}, foreign: map[Key]bool{}}
	add := func(o metav1.Object) {
		for f := range of.Shown(o, func(uid string) string { return origin[uid] }) {
			s.facts[f] = true
		}
	}
	endpoints, err := c.CoreV1().Endpoints(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range endpoints.Items {
		e := &endpoints.Items[i]
		add(e)
		if of.owns(e) && services[Key{e.Namespace, e.Name}] == nil {
			s.others = append(s.others, "left over: Endpoints "+e.Namespace+"/"+e.Name)
		}
	}
	sliceList, err := c.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range sliceList.Items {
		e := &sliceList.Items[i]
		add(e)
		if of.owns(e) && !slices.Contains(services[Key{e.Namespace, e.Labels[discoveryv1.LabelServiceName]}], e.Labels[sourceCluster]) {
			s.others = append(s.others, "left over: EndpointSlice "+e.Namespace+"/"+e.Name)
		}
	}
	list, err := c.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	have := map[Key]bool{}
	for i := range list.Items {
		o := &list.Items[i]
		key := Key{o.Namespace, o.Name}
		have[key] = true
		s.foreign[key] = !of.owns(o) // a conflict, not a gap
		if of.owns(o) && services[key] == nil {
			s.others = append(s.others, "left over: Service "+key.String())
		}
	}
	for key := range services {
		if !have[key] {
			s.others = append(s.others, "missing: Service "+key.String())
		}
	}
	return s, nil
}
