// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// Create stores objects as another client would; a missing namespace is made.
func (s *Server) Create(t testing.TB, objects ...Object) {
	t.Helper()
	for _, obj := range objects {
		k := kindOfObject(obj)
		if k.namespaced {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace()}}
			_, _ = s.store.create(kinds[0], name{Name: ns.Name}, ns) // it may stand already
		}
		if _, err := s.store.create(k, nameOf(obj), obj); err != nil {
			t.Fatalf("create %s %s: %v", k.Kind, nameOf(obj), err)
		}
	}
}

// Refuse makes the server refuse objects to be created or updated for which the
// function returns field errors (with 422) or another error; nil: none.
func (s *Server) Refuse(f func(Object) (field.ErrorList, error)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.refuse = f
}

// Edit changes a standing object as another client would, past all validation; that it
// was another is on record in managedFields, unless the change sets those.
// The function gets a copy of the object to change in place.
func Edit[T Object](t testing.TB, s *Server, namespace, objectName string, change func(T)) {
	t.Helper()
	var zero T
	k, n := kindOfObject(zero), name{Namespace: namespace, Name: objectName}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	old, ok := s.store.tables[k].objects[n].(T)
	if !ok {
		t.Errorf("edit %s %s: no such object", k.Kind, n)
		return
	}
	obj := old.DeepCopyObject().(T)
	change(obj)
	if obj.GetManagedFields() == nil {
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody-else", Operation: metav1.ManagedFieldsOperationUpdate}})
	}
	s.store.lockedCommit(k, n, watch.Modified, obj)
}

// Remove deletes an object as another client would, without side effects on others.
func Remove[T Object](t testing.TB, s *Server, namespace, objectName string) {
	t.Helper()
	var zero T
	k, n := kindOfObject(zero), name{Namespace: namespace, Name: objectName}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	old := s.store.tables[k].objects[n]
	if old == nil {
		t.Errorf("remove %s %s: no such object", k.Kind, n)
		return
	}
	s.store.lockedCommit(k, n, watch.Deleted, old.DeepCopyObject().(Object))
}

// Get returns a standing object; ok is false when there is none.
func Get[T Object](s *Server, namespace, objectName string) (obj T, ok bool) {
	var zero T
	found, err := s.store.get(kindOfObject(zero), name{Namespace: namespace, Name: objectName})
	if err != nil {
		return obj, false
	}
	return found.DeepCopyObject().(T), true
}

// List returns the standing objects of a kind, sorted by name.
func List[T Object](s *Server, namespace string) []T {
	var zero T
	items, _ := s.store.list(kindOfObject(zero), namespace)
	out := make([]T, len(items))
	for i, item := range items {
		out[i] = item.DeepCopyObject().(T)
	}
	return out
}

// Changed returns a channel that closes at the next change of any object, or when a
// request begins to hang: wait on it after a look at the state that was not yet as
// wished.
func (s *Server) Changed() <-chan struct{} {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.changed
}

func nameOf(obj Object) name { return name{Namespace: obj.GetNamespace(), Name: obj.GetName()} }
