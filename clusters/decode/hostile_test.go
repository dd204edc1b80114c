// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	pod.ManagedFields, pod.Annotations, pod.Status.ContainerStatuses = nil, nil, nil
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Env, pod.Spec.Containers[i].Image = nil, ""
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

func (h *hostileTarget) feed(t *testing.T, data []byte) {
	var pod corev1.Pod
	if pod.Unmarshal(data) != nil {
		return
	}
	h.decoded++
	v := h.decoder.Pod(&pod)
	h.store.SetPod(v)
	if got, _, ok := h.store.Pod(v.Object.Key); !ok || !got.Equal(&v.Object) {
		t.Fatalf("%+v is held as %+v", v.Object, got)
	}
	if _, ok := h.store.Contribution(h.all, time.Time{}); !ok {
		t.Fatal("the Service is gone")
	}
	h.store.RemovePod(v.Object.Key)
	if left := h.store.Stats(time.Time{}).Pods; left != 0 {
		t.Fatal("the pod is still there")
	}
}
