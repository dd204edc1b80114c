// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"reflect"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// Kept is what a Set needs of one object: a serialised object of which everything else
// is zero. Pods that have the same of it share one; the zero value is of a Set that
// needs nothing. It is comparable.
type Kept struct{ text unique.Handle[string] }

// message is an object that can be serialised.
type message interface{ Marshal() ([]byte, error) }

func keep(object message) Kept {
	text, err := object.Marshal()
	if err != nil { // Kubernetes' types always marshal
		return Kept{}
	}
	return Kept{unique.Make(string(text))}
}

// text is the serialised object; empty for the zero value.
func (k Kept) bytes() []byte {
	if k == (Kept{}) {
		return nil
	}
	return []byte(k.text.Value())
}

// KeepPod returns what the rules need of a pod. The pod is not changed and not kept.
func (s *Set) KeepPod(pod *corev1.Pod) Kept {
	if s == nil || s.pod == nil {
		return Kept{}
	}
	var out corev1.Pod
	s.pod(reflect.ValueOf(&out).Elem(), reflect.ValueOf(pod).Elem())
	return keep(&out)
}

// KeepService returns what the rules need of a Service.
func (s *Set) KeepService(service *corev1.Service) Kept {
	if s == nil || s.service == nil {
		return Kept{}
	}
	var out corev1.Service
	s.service(reflect.ValueOf(&out).Elem(), reflect.ValueOf(service).Elem())
	return keep(&out)
}

// copier copies a part of a value.
type copier func(dst, src reflect.Value)

func whole(dst, src reflect.Value) { dst.Set(src) }

// copierOf makes the copier of what paths name of a type; nil if they name nothing.
func copierOf(t reflect.Type, p *paths) copier {
	if p == nil || !p.whole && p.fields == nil && p.each == nil {
		return nil
	}
	if p.whole {
		return whole
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
	return whole
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
			copy = whole
		}
		fields = append(fields, field{f.Index, copy})
	}
	if len(fields) < len(p.fields) { // a struct that stands for one value, such as a time
		return whole
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
		return whole
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
		return whole
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
