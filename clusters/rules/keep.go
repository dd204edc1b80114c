// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/store"
)

// Keeper makes of objects what rules need of them. A nil Keeper keeps nothing. It is safe
// for concurrent use.
type Keeper struct {
	since        store.KeptSince
	pod, service *paths
	// writePod and writeService are nil where nothing is needed.
	writePod, writeService writer
}

// Next is a Keeper for what several sets need. What it keeps is told from what the former
// one kept exactly if they need more.
func (k *Keeper) Next(sets ...*Set) *Keeper {
	if k == nil {
		k = &Keeper{pod: &paths{}, service: &paths{}}
	}
	out := &Keeper{since: k.since, pod: &paths{}, service: &paths{}}
	for _, s := range sets {
		if s != nil {
			out.pod.merge(s.pod)
			out.service.merge(s.service)
		}
	}
	if !k.pod.covers(out.pod) {
		out.since.Pod++
	}
	if !k.service.covers(out.service) {
		out.since.Service++
	}
	if out.pod.read() {
		out.writePod = classOf[corev1.Pod]().writer(out.pod)
	}
	if out.service.read() {
		out.writeService = classOf[corev1.Service]().writer(out.service)
	}
	return out
}

// Since is what Kept.Since must be at least for a set to be asked.
func (k *Keeper) Since(s *Set) (since store.KeptSince) {
	if s != nil && s.pod.read() {
		since.Pod = k.since.Pod
	}
	if s != nil && s.service.read() {
		since.Service = k.since.Service
	}
	return since
}

// Pod returns what the rules need of a pod. The pod is not changed and not kept.
func (k *Keeper) Pod(pod *corev1.Pod) store.Kept {
	if k == nil || k.writePod == nil {
		return store.Kept{}
	}
	return kept(k.writePod(make([]byte, 0, 256), reflect.ValueOf(pod).Elem()), k.since.Pod)
}

// Service returns what the rules need of a Service.
func (k *Keeper) Service(service *corev1.Service) store.Kept {
	if k == nil || k.writeService == nil {
		return store.Kept{}
	}
	return kept(k.writeService(make([]byte, 0, 256), reflect.ValueOf(service).Elem()), k.since.Service)
}

func kept(text []byte, since uint32) store.Kept {
	return store.Kept{Text: string(text), Since: since}
}
