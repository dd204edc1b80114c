// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestWanted states the rules of the oracle by example: the dual-stack Service
// shop/web with a named and a numbered port, and one pod of it.
func TestWanted(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector:   map[string]string{"app": "web"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("web")},
			},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "u", Labels: map[string]string{"app": "web", "x": "y"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "web", Protocol: corev1.ProtocolTCP, ContainerPort: 8080}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	const (
		endpoints = "Endpoints shop/web: a 10.0.0.1:8080/http/TCP "
		slice4    = "EndpointSlice shop/web: a 10.0.0.1:8080/http/TCP "
		slice6    = "EndpointSlice shop/web: a fd00::1:8080/http/TCP "
		end       = " (pod u)"
	)
	all := func(inEndpoints, inSlices string) []string {
		lines := []string{slice4 + inSlices + end, slice6 + inSlices + end}
		if inEndpoints != "" {
			lines = append(lines, endpoints+inEndpoints+end)
		}
		return lines
	}
	for _, c := range []struct {
		name string
		edit func(*corev1.Service, *corev1.Pod)
		want []string
	}{
		{"ready", func(*corev1.Service, *corev1.Pod) {}, all("ready", "ready+serving")},
		{"not ready", func(_ *corev1.Service, p *corev1.Pod) { p.Status.Conditions = nil }, all("notready", "off")},
		{"terminating", func(_ *corev1.Service, p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, all("", "serving+terminating")},
		{"not ready, published", func(s *corev1.Service, p *corev1.Pod) {
			p.Status.Conditions, s.Spec.PublishNotReadyAddresses = nil, true
		}, all("ready", "ready")},
		{"terminating, published", func(s *corev1.Service, p *corev1.Pod) {
			p.DeletionTimestamp, s.Spec.PublishNotReadyAddresses = new(metav1.Now()), true
		}, all("ready", "ready+serving+terminating")},
		{"failed", func(_ *corev1.Service, p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, nil},
		{"other labels", func(_ *corev1.Service, p *corev1.Pod) { p.Labels = map[string]string{"x": "y"} }, nil},
		{"other namespace", func(_ *corev1.Service, p *corev1.Pod) { p.Namespace = "other" }, nil},
		{"no such port", func(s *corev1.Service, _ *corev1.Pod) { s.Spec.Ports[0].TargetPort = intstr.FromString("other") }, nil},
		{"a port of a sidecar", func(s *corev1.Service, p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
			p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}, all("ready", "ready+serving")},
		{"a numbered port", func(s *corev1.Service, _ *corev1.Pod) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) }, all("ready", "ready+serving")},
		{"no ports", func(s *corev1.Service, _ *corev1.Pod) { s.Spec.Ports, s.Spec.IPFamilies = nil, nil },
			[]string{"Endpoints shop/web: a 10.0.0.1: ready (pod u)", "EndpointSlice shop/web: a 10.0.0.1: ready+serving (pod u)"}},
		{"a poisonous address", func(_ *corev1.Service, p *corev1.Pod) { p.Status.PodIPs[0].IP = "169.254.169.254" }, []string{slice6 + "ready+serving" + end}},
		{"an ExternalName", func(s *corev1.Service, _ *corev1.Pod) { s.Spec.Type = corev1.ServiceTypeExternalName }, nil},
		{"without a selector", func(s *corev1.Service, _ *corev1.Pod) { s.Spec.Selector = nil }, nil},
		{"opted out", func(s *corev1.Service, _ *corev1.Pod) { s.Annotations = map[string]string{optOut: "false"} }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, p := service.DeepCopy(), pod.DeepCopy()
			c.edit(s, p)
			var got []string
			for f := range Wanted("a", s, slices.Values([]*corev1.Pod{p})) {
				got = append(got, f.String())
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestShown checks the reading of objects against their writing in newStory.
func TestShown(t *testing.T) {
	s := newStory().shows(1, "p1", "!p2", "q1")
	clusterOf := func(uid string) string { return memberOf(uid) }
	var got []string
	for _, e := range s.h.Events {
		for f := range maps.Keys(Installation("").Shown(e.Object, clusterOf)) {
			got = append(got, f.String())
		}
	}
	slices.Sort(got)
	want := []string{
		"EndpointSlice shop/web: a 10.0.0.1:8080/http/TCP ready+serving (pod p1)",
		"EndpointSlice shop/web: a 10.0.0.2:8080/http/TCP off (pod p2)",
		"EndpointSlice shop/web: b 10.1.0.1:8080/http/TCP ready+serving (pod q1)",
		"Endpoints shop/web: a 10.0.0.1:8080/http/TCP ready (pod p1)",
		"Endpoints shop/web: a 10.0.0.2:8080/http/TCP notready (pod p2)",
		"Endpoints shop/web: b 10.1.0.1:8080/http/TCP ready (pod q1)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
