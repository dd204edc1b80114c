// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// FuzzDecodePod feeds what a hostile server may send through decoder and store.
func FuzzDecodePod(f *testing.F) {
	f.Add(smallPod(f))
	target := newHostileTarget()
	f.Fuzz(target.feed)
}

// TestHostilePods is FuzzDecodePod with random damage to a good pod: the fuzzing
// engine is slow with packages as large as the API's.
func TestHostilePods(t *testing.T) {
	good, target, rng := smallPod(t), newHostileTarget(), dice.New(t)
	for range 5000 {
		data := slices.Clone(good)
		for range 1 + rng.IntN(4) {
			data[rng.IntN(len(data))] = byte(rng.IntN(256))
		}
		target.feed(t, data)
	}
	if target.decoded < 500 {
		t.Errorf("only %d pods could be read at all", target.decoded)
	}
}

func smallPod(tb testing.TB) []byte {
	tb.Helper()
	pod := realisticPod("shop", 8, 3)
	pod.ManagedFields, pod.Annotations, pod.Status.ContainerStatuses = pod.ManagedFields[:1], nil, nil
	pod.ManagedFields[0].FieldsV1 = nil
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: corev1.PodInitialized}}
	sidecar := pod.Spec.Containers[0]
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{sidecar}
	for _, all := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range all {
			all[i].Env, all[i].Image = nil, ""
		}
	}
	data, err := pod.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// hostileTarget is a store with a Service that selects every pod.
type hostileTarget struct {
	decoder *Decoder
	store   *store.Store
	all     syncer.Key
	decoded int
}

func newHostileTarget() *hostileTarget {
	h := &hostileTarget{decoder: New(Options{}), store: store.New(store.Options{}), all: syncer.Key{Namespace: "shop", Name: "all"}}
	h.store.SetService(store.Versioned[syncer.Service]{Object: syncer.Service{Key: h.all, Selector: map[string]string{}}})
	return h
}

// feed reads what may be a pod. What the generated types accept as one, too, is read as they read
// it; they accept some that end in the middle of a label.
func (h *hostileTarget) feed(t *testing.T, data []byte) {
	v, err := h.decoder.ReadPod(data)
	if err != nil {
		return
	}
	var pod corev1.Pod
	if pod.Unmarshal(data) == nil {
		h.decoded++
		if want := twin(&pod); !reflect.DeepEqual(v, want) {
			t.Fatalf("%x is read as\n%#v, want\n%#v", data, v, want)
		}
	}
	h.store.SetPod(v)
	if got, _, ok := h.store.Pod(v.Object.Key); !ok || !got.Equal(&v.Object) {
		t.Fatalf("%+v is stored as %+v", v.Object, got)
	}
	if _, ok := h.store.Contribution(h.all, time.Time{}); !ok {
		t.Fatal("the Service is gone")
	}
	h.store.RemovePod(v.Object.Key)
	if left := h.store.Stats(time.Time{}).Pods; left != 0 {
		t.Fatal("the pod is still there")
	}
}

// twin reads a pod by way of its type.
func twin(pod *corev1.Pod) store.Versioned[syncer.Pod] {
	when := func(at metav1.Time) int64 {
		if second := at.Unix(); second > 0 && second <= math.MaxUint32 {
			return second
		}
		return 0
	}
	p := syncer.Pod{
		Key: syncer.Key{Namespace: pod.Namespace, Name: pod.Name}, UID: string(pod.UID), Labels: syncer.LabelsOf(pod.Labels),
		NodeName: pod.Spec.NodeName, Hostname: pod.Spec.Hostname, Subdomain: pod.Spec.Subdomain, HostNetwork: pod.Spec.HostNetwork,
		Terminating: pod.DeletionTimestamp != nil, Terminal: pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
	}
	for _, ip := range pod.Status.PodIPs {
		p.IPs = append(p.IPs, parseIP(ip.IP))
	}
	if p.IPs == nil && pod.Status.PodIP != "" {
		p.IPs = []syncer.PodIP{parseIP(pod.Status.PodIP)}
	}
	containers := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		for _, port := range c.Ports {
			if port.Name != "" {
				p.Ports = append(p.Ports, syncer.ContainerPort{Name: port.Name, Protocol: cmp.Or(string(port.Protocol), syncer.TCP), Port: port.ContainerPort})
			}
		}
	}
	first := func(kind corev1.PodConditionType) (found corev1.PodCondition) {
		if i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind }); i >= 0 {
			found = pod.Status.Conditions[i]
		}
		return found
	}
	ready := first(corev1.PodReady)
	p.Ready, p.ReadySince = ready.Status == corev1.ConditionTrue, when(ready.LastTransitionTime)
	p.NodeSilent = ready.Status == corev1.ConditionFalse && ready.Reason == "" && first(corev1.ContainersReady).Status == corev1.ConditionTrue &&
		!slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
			return first(g.ConditionType).Status != corev1.ConditionTrue
		})
	v := store.Versioned[syncer.Pod]{Object: p, Revision: kube.Revision(pod.ResourceVersion)}
	for _, entry := range pod.ManagedFields {
		if entry.Time != nil {
			v.Written = max(v.Written, entry.Time.Unix())
		}
	}
	return v
}
