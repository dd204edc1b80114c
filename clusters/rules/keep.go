// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"reflect"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/store"
)

// Keeper makes of objects what rules need of them: serialised objects of which
// everything else is zero. A nil Keeper keeps nothing. It is safe for concurrent use.
type Keeper struct {
	since        store.KeptSince
	pod, service *paths
	// copyPod and copyService are nil where nothing is needed.
	copyPod, copyService copier
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
	out.copyPod = copierOf(reflect.TypeFor[corev1.Pod](), out.pod)
	out.copyService = copierOf(reflect.TypeFor[corev1.Service](), out.service)
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

// message is an object that can be serialised.
type message interface{ Marshal() ([]byte, error) }

func keep(object message, since uint32) store.Kept {
	text, err := object.Marshal()
	if err != nil { // Kubernetes' types always marshal
		return store.Kept{}
	}
	return store.Kept{Text: unique.Make(string(text)), Since: since}
}

// content is the serialised object; empty for the zero value.
func content(k store.Kept) []byte {
	if k.Text == (unique.Handle[string]{}) {
		return nil
	}
	return []byte(k.Text.Value())
}

// Pod returns what the rules need of a pod. The pod is not changed and not kept.
func (k *Keeper) Pod(pod *corev1.Pod) store.Kept {
	if k == nil || k.copyPod == nil {
		return store.Kept{}
	}
	var out corev1.Pod
	k.copyPod(reflect.ValueOf(&out).Elem(), reflect.ValueOf(pod).Elem())
	return keep(&out, k.since.Pod)
}

// Service returns what the rules need of a Service.
func (k *Keeper) Service(service *corev1.Service) store.Kept {
	if k == nil || k.copyService == nil {
		return store.Kept{}
	}
	var out corev1.Service
	k.copyService(reflect.ValueOf(&out).Elem(), reflect.ValueOf(service).Elem())
	return keep(&out, k.since.Service)
}

// copier copies a part of a value.
type copier func(dst, src reflect.Value)

func wholly(dst, src reflect.Value) { dst.Set(src) }

// copierOf makes the copier of what paths name of a type; nil if they name nothing.
func copierOf(t reflect.Type, p *paths) copier {
	if !p.read() {
		return nil
	}
	if p.whole {
		return wholly
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := copierOf(t.Elem(), p)
		return func(dst, src reflect.Value) {
			if !src.IsNil() {
				dst.Set(reflect.New(t.Elem()))
				inner(dst.Elem(), src.Elem())
			}
		}
	case reflect.Struct:
		return structCopier(t, p)
	case reflect.Slice:
		return sliceCopier(t, p)
	case reflect.Map:
		return mapCopier(t, p)
	}
	return wholly
}

func structCopier(t reflect.Type, p *paths) copier {
	type field struct {
		index []int
		copy  copier
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) { // those of inlined structs as well
		sub := p.fields[fieldName(f)]
		if sub == nil {
			continue
		}
		copy := copierOf(f.Type, sub)
		if copy == nil {
			copy = wholly
		}
		fields = append(fields, field{f.Index, copy})
	}
	if len(fields) < len(p.fields) { // a struct that stands for one value, such as a time
		return wholly
	}
	return func(dst, src reflect.Value) {
		for _, f := range fields {
			f.copy(dst.FieldByIndex(f.index), src.FieldByIndex(f.index))
		}
	}
}

// sliceCopier keeps all elements in their places, as far as they are needed.
func sliceCopier(t reflect.Type, p *paths) copier {
	element := copierOf(t.Elem(), p.each)
	if p.fields != nil || p.each == nil || p.each.whole {
		return wholly
	}
	return func(dst, src reflect.Value) {
		if src.Len() == 0 {
			return
		}
		dst.Set(reflect.MakeSlice(t, src.Len(), src.Len()))
		if element == nil {
			return // that there are elements is enough
		}
		for i := range src.Len() {
			element(dst.Index(i), src.Index(i))
		}
	}
}

// mapCopier keeps the keys that are named, or all of them.
func mapCopier(t reflect.Type, p *paths) copier {
	if p.each != nil {
		return wholly
	}
	keys := make([]reflect.Value, 0, len(p.fields))
	for name := range p.fields {
		keys = append(keys, reflect.ValueOf(name).Convert(t.Key()))
	}
	return func(dst, src reflect.Value) {
		for _, key := range keys {
			value := src.MapIndex(key)
			if !value.IsValid() {
				continue
			}
			if dst.IsNil() {
				dst.Set(reflect.MakeMap(t))
			}
			dst.SetMapIndex(key, value)
		}
	}
}
