// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file is the kubelet: it patches the status of pods the way the real one does.

// RunPods creates pods and reports them running and ready. A pod without status.podIP gets an address of this site. The
// pods are changed in place to what the apiserver returned.
func (s *Site) RunPods(ctx context.Context, pods ...*corev1.Pod) error {
	return forEach(ctx, pods, func(ctx context.Context, p *corev1.Pod) error { return s.runPod(ctx, p, true) })
}

// StartPods creates pods and reports them running, but not ready.
func (s *Site) StartPods(ctx context.Context, pods ...*corev1.Pod) error {
	return forEach(ctx, pods, func(ctx context.Context, p *corev1.Pod) error { return s.runPod(ctx, p, false) })
}

func (s *Site) runPod(ctx context.Context, pod *corev1.Pod, ready bool) error {
	status := pod.Status
	created, err := s.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create pod %s/%s in %s: %w", pod.Namespace, pod.Name, s.Name(), err)
	}
	created.Status.PodIP, created.Status.PodIPs = status.PodIP, status.PodIPs
	created.DeepCopyInto(pod)
	return s.ReportRunning(ctx, pod, ready)
}

// ReportRunning reports that the containers of a pod that exists have started, at its status.podIP or, without one, at an
// address of this site. The pod is changed in place to what the apiserver returned.
func (s *Site) ReportRunning(ctx context.Context, pod *corev1.Pod, ready bool) error {
	addresses := pod.Status.PodIPs
	switch {
	case len(addresses) > 0:
	case pod.Status.PodIP != "":
		addresses = []corev1.PodIP{{IP: pod.Status.PodIP}}
	default:
		addresses = []corev1.PodIP{{IP: s.NextIP().String()}}
	}
	return s.patchStatus(ctx, pod.Namespace, pod.Name, runningStatus(pod, addresses, ready), pod)
}

// runningStatus is what a kubelet reports of a pod whose containers have started.
func runningStatus(pod *corev1.Pod, addresses []corev1.PodIP, ready bool) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: addresses[0].IP, PodIPs: addresses, StartTime: &now,
		HostIP: "192.168.0.1", HostIPs: []corev1.HostIP{{IP: "192.168.0.1"}},
		Conditions: append(readiness(ready, now),
			corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: now},
			corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now},
			corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}),
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: writtenOut(c.Image), ImageID: imageID(c.Image), ContainerID: "containerd://" + string(pod.UID) + "-" + c.Name,
			Ready: ready, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

// writtenOut is the name of an image as runtimes report it: with the registry that a name goes without.
func writtenOut(image string) string {
	registry, _, qualified := strings.Cut(image, "/")
	switch {
	case !qualified:
		return "docker.io/library/" + image
	case registry != "localhost" && !strings.ContainsAny(registry, ".:"):
		return "docker.io/" + image
	}
	return image
}

// imageID is what runtimes report of an image beside its name.
func imageID(image string) string {
	repository, _, _ := strings.Cut(path.Base(image), ":")
	return fmt.Sprintf("%s@sha256:%x", path.Join(path.Dir(writtenOut(image)), repository), sha256.Sum256([]byte(image)))
}

func readiness(ready bool, now metav1.Time) []corev1.PodCondition {
	status, reason := corev1.ConditionTrue, ""
	if !ready {
		status, reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	return []corev1.PodCondition{
		{Type: corev1.PodReady, Status: status, Reason: reason, LastTransitionTime: now},
		{Type: corev1.ContainersReady, Status: status, Reason: reason, LastTransitionTime: now},
	}
}

// MarkReady reports a pod ready. It is one PATCH: when it returns, the apiserver has acknowledged.
func (s *Site) MarkReady(ctx context.Context, namespace, name string) error {
	return s.setReady(ctx, namespace, name, true)
}

// MarkNotReady reports a pod not ready, as a failing probe does.
func (s *Site) MarkNotReady(ctx context.Context, namespace, name string) error {
	return s.setReady(ctx, namespace, name, false)
}

// MarkSilent turns a ready pod not ready as the node controller does when a node's heartbeat is late: it leaves the
// reason as it was.
func (s *Site) MarkSilent(ctx context.Context, namespace, name string) error {
	silent := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
	return s.patchStatus(ctx, namespace, name, corev1.PodStatus{Conditions: []corev1.PodCondition{silent}}, nil)
}

func (s *Site) setReady(ctx context.Context, namespace, name string, ready bool) error {
	status := corev1.PodStatus{Conditions: readiness(ready, metav1.NewTime(time.Now()))}
	return s.patchStatus(ctx, namespace, name, status, nil)
}

// SetImage changes the image of a pod's containers while it runs, as an upgrade in place does. The kubelet's first answer
// comes with it: it has seen the new generation, and the old containers are as ready as they were.
func (s *Site) SetImage(ctx context.Context, pod *corev1.Pod, image string) error {
	var spec struct {
		Containers []map[string]string `json:"containers"`
	}
	for _, c := range pod.Spec.Containers {
		spec.Containers = append(spec.Containers, map[string]string{"name": c.Name, "image": image})
	}
	text, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return fmt.Errorf("patch pod %s/%s in %s: %w", pod.Namespace, pod.Name, s.Name(), err)
	}
	patched, err := s.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch pod %s/%s in %s: %w", pod.Namespace, pod.Name, s.Name(), err)
	}
	return s.patchStatus(ctx, pod.Namespace, pod.Name, corev1.PodStatus{ObservedGeneration: patched.Generation}, pod)
}

// Restarted reports that the containers of a pod were replaced by ones of the images in its spec. It says nothing of the
// pod's readiness, which a kubelet without a probe to ask never takes back meanwhile.
func (s *Site) Restarted(ctx context.Context, pod *corev1.Pod) error {
	var status corev1.PodStatus
	for i, c := range pod.Status.ContainerStatuses {
		c.RestartCount++
		c.Image, c.ImageID = writtenOut(pod.Spec.Containers[i].Image), imageID(pod.Spec.Containers[i].Image)
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: c.ContainerID, FinishedAt: metav1.Now(), StartedAt: c.State.Running.StartedAt}
		c.ContainerID += fmt.Sprintf("-%d", c.RestartCount)
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
		status.ContainerStatuses = append(status.ContainerStatuses, c)
	}
	return s.patchStatus(ctx, pod.Namespace, pod.Name, status, pod)
}

// SetPhase reports a phase, e.g. Failed after an eviction.
func (s *Site) SetPhase(ctx context.Context, namespace, name string, phase corev1.PodPhase) error {
	return s.patchStatus(ctx, namespace, name, corev1.PodStatus{Phase: phase}, nil)
}

// SetPodIPs reports other addresses; the first is the primary one. None at all takes them away, as when a pod's sandbox
// is gone.
func (s *Site) SetPodIPs(ctx context.Context, namespace, name string, addresses ...string) error {
	// Lists of addresses merge by key, so the old ones have to be replaced by name.
	list := []map[string]string{{"$patch": "replace"}}
	primary := any(nil)
	for _, a := range addresses {
		list = append(list, map[string]string{"ip": a})
	}
	if len(addresses) > 0 {
		primary = addresses[0]
	}
	return s.patchStatus(ctx, namespace, name, map[string]any{"podIP": primary, "podIPs": list}, nil)
}

// patchStatus merges status into that of the pod; into, if given, receives the result.
func (s *Site) patchStatus(ctx context.Context, namespace, name string, status any, into *corev1.Pod) error {
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("patch status of pod %s/%s in %s: %w", namespace, name, s.Name(), err)
	}
	patched, err := s.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch status of pod %s/%s in %s: %w", namespace, name, s.Name(), err)
	}
	if into != nil {
		patched.DeepCopyInto(into)
	}
	return nil
}

// Terminate deletes a pod gracefully, as a rollout does: it has a deletionTimestamp from now on and stays until Remove,
// which is what the kubelet does when the containers have ended.
func (s *Site) Terminate(ctx context.Context, namespace, name string) error {
	if err := s.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("terminate pod %s/%s in %s: %w", namespace, name, s.Name(), err)
	}
	return nil
}

// Remove deletes pods at once.
func (s *Site) Remove(ctx context.Context, namespace string, names ...string) error {
	return forEach(ctx, names, func(ctx context.Context, name string) error {
		o := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		if err := s.Client.CoreV1().Pods(namespace).Delete(ctx, name, o); err != nil {
			return fmt.Errorf("remove pod %s/%s in %s: %w", namespace, name, s.Name(), err)
		}
		return nil
	})
}
