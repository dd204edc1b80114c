// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// realisticPod is pod n of an application as production clusters have them: two
// containers, 28 environment variables, managed fields; about 9 kB. One
// application in eight is a StatefulSet, whose pods share no label set.
func realisticPod(namespace string, app, n int) *corev1.Pod {
	name := fmt.Sprintf("checkout-api-%03d-7d9f8b6c5d-%05d", app, n)
	labels := map[string]string{
		"app.kubernetes.io/name":       "checkout-api",
		"app.kubernetes.io/instance":   fmt.Sprintf("checkout-api-%03d", app),
		"app.kubernetes.io/version":    "1.27.3",
		"app.kubernetes.io/part-of":    "shop",
		"app.kubernetes.io/managed-by": "Helm",
		"team":                         "payments",
		"pod-template-hash":            fmt.Sprintf("%010d", app),
	}
	spec := corev1.PodSpec{NodeName: fmt.Sprintf("ip-10-0-%d-17.eu-west-1.compute.internal", (app+n)%500), ServiceAccountName: "checkout"}
	if app%8 == 0 {
		name = fmt.Sprintf("checkout-db-%03d-%d", app, n)
		delete(labels, "pod-template-hash")
		labels["statefulset.kubernetes.io/pod-name"] = name
		labels["apps.kubernetes.io/pod-index"] = fmt.Sprint(n)
		labels["controller-revision-hash"] = fmt.Sprintf("checkout-db-%03d-6c5d7d9f8b", app)
		spec.Hostname, spec.Subdomain = name, "checkout-db"
	}
	for c := range 2 {
		container := corev1.Container{
			Name: fmt.Sprintf("c%d", c), Image: "registry.example.com/shop/checkout@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			Ports: []corev1.ContainerPort{{Name: fmt.Sprintf("http%d", c), ContainerPort: int32(8080 + c), Protocol: corev1.ProtocolTCP}, {Name: fmt.Sprintf("metrics%d", c), ContainerPort: int32(9090 + c), Protocol: corev1.ProtocolTCP}},
		}
		for e := range 14 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("CHECKOUT_SETTING_NUMBER_%d", e), Value: fmt.Sprintf("a value that says something about %d, and a bit more", e)})
		}
		spec.Containers = append(spec.Containers, container)
	}
	ip := fmt.Sprintf("10.%d.%d.%d", app%250, n/250%250, 1+n%250)
	now := metav1.NewTime(time.Unix(1_790_000_000+int64(n), 0))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: labels, ResourceVersion: fmt.Sprint(1_000_000 + app*1000 + n),
			UID:               types.UID(fmt.Sprintf("%08d-9d9d-4c4c-8b8b-%012d", app, n)),
			Annotations:       map[string]string{"prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
			CreationTimestamp: now,
		},
		Spec: spec,
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: "10.0.0.17",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c0", Ready: true, Image: spec.Containers[0].Image, ImageID: spec.Containers[0].Image}, {Name: "c1", Ready: true, Image: spec.Containers[1].Image, ImageID: spec.Containers[1].Image}},
		},
	}
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 1500))})
	}
	return pod
}

// realisticService selects the pods of an application.
func realisticService(namespace string, app int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("checkout-api-%03d", app), ResourceVersion: "900000",
			UID:    types.UID(fmt.Sprintf("%08d-9d9d-4c4c-8b8b-service", app)),
			Labels: map[string]string{"app.kubernetes.io/name": "checkout-api", "app.kubernetes.io/managed-by": "Helm"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.10", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Selector: map[string]string{"app.kubernetes.io/name": "checkout-api", "app.kubernetes.io/instance": fmt.Sprintf("checkout-api-%03d", app)},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http0")}},
		},
	}
}

// overTheWire returns an object as a client decodes it: no string shared with
// the original or with another object.
func overTheWire[T any, P interface {
	*T
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}](tb testing.TB, in P) P {
	tb.Helper()
	data, err := in.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	out := P(new(T))
	if err := out.Unmarshal(data); err != nil {
		tb.Fatal(err)
	}
	return out
}
