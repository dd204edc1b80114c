// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What NewPod and NewService agree on.
const (
	// AppLabel is the label of pods that NewService selects by.
	AppLabel = "app"
	// PodPort is the container port of NewPod; its name is PodPortName.
	PodPort     = 8080
	PodPortName = "http"
	// DefaultNode is the node of NewPod. Nothing demands that a Node object of the name exists.
	DefaultNode = "node-0"
)

// NewService returns a Service that selects the pods of the app with its own name. Without ports it has one: 80, to the
// pods' port named "http".
func NewService(namespace, name string, ports ...corev1.ServicePort) *corev1.Service {
	if len(ports) == 0 {
		ports = []corev1.ServicePort{{
			Name: PodPortName, Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(PodPortName),
		}}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{AppLabel: name}, Ports: ports},
	}
}

// NewPod returns a pod of an app, on DefaultNode, with one container that has one port.
func NewPod(namespace, name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{AppLabel: app}},
		Spec: corev1.PodSpec{
			NodeName: DefaultNode,
			Containers: []corev1.Container{{
				Name: "app", Image: "app:1",
				Ports: []corev1.ContainerPort{{Name: PodPortName, ContainerPort: PodPort, Protocol: corev1.ProtocolTCP}},
			}},
		},
	}
}

// NewNode returns a ready node in a zone.
func NewNode(name, zone string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: zone,
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.Now(),
		}}},
	}
}
