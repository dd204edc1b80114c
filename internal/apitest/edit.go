// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest/model"
)

// Object is any of the served objects.
type Object = model.Object

// Create stores objects as another client would; a missing namespace is made.
func (s *Server) Create(t testing.TB, objects ...Object) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		if o.GetNamespace() != "" {
			_, _ = s.model.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.GetNamespace()}}) // it may exist already
		}
		if _, err := s.model.Create(o.DeepCopyObject().(Object)); err != nil {
			t.Fatalf("create %s: %v", model.IDOf(o), err)
		}
	}
}

// Refuse makes the server refuse to create or update objects for which the function
// returns field errors (with 422) or another error; nil: none.
func (s *Server) Refuse(f func(Object) (field.ErrorList, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.Admission = func(id model.ID, _, after Object) error {
		if f == nil || after == nil {
			return nil
		}
		errs, err := f(after)
		if err != nil {
			return err
		}
		return model.Invalid(id, errs)
	}
}

// find returns an object of which a test assumes that it exists.
func find[T Object](s *Server, namespace, name string) (o T, ok bool) {
	o, ok = s.model.Find(model.KindOf(o).ID(namespace, name)).(T)
	return o, ok
}

// Edit changes an existing object as another client would, without validation; managedFields
// say that it was another client, unless the change sets those.
// The function gets a copy of the object to change in place.
func Edit[T Object](t testing.TB, s *Server, namespace, name string, change func(T)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := find[T](s, namespace, name)
	if !ok {
		t.Errorf("edit %T %s/%s: no such object", o, namespace, name)
		return
	}
	model.Edit(s.model, model.IDOf(o), func(o T) {
		if change(o); o.GetManagedFields() == nil {
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody-else", Operation: metav1.ManagedFieldsOperationUpdate}})
		}
	})
}

// Remove deletes an object as another client would; a Service takes the Endpoints of its name along.
func Remove[T Object](t testing.TB, s *Server, namespace, name string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := find[T](s, namespace, name)
	if !ok {
		t.Errorf("remove %T %s/%s: no such object", o, namespace, name)
		return
	}
	s.model.Remove(o)
}

// Get returns an object; ok is false when there is none.
func Get[T Object](s *Server, namespace, name string) (o T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok = find[T](s, namespace, name); ok {
		o = o.DeepCopyObject().(T)
	}
	return o, ok
}

// List returns the objects of a kind, sorted by name.
func List[T Object](s *Server, namespace string) (out []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var zero T
	for _, o := range s.model.All(model.KindOf(zero), namespace) {
		out = append(out, o.DeepCopyObject().(T))
	}
	return out
}

// Changed returns a channel that closes at the next change of any object, or when a
// request begins to hang: get it before you look at the state, and wait on it if that
// is not yet as wanted.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Server) lockedAnnounce() {
	close(s.changed)
	s.changed = make(chan struct{})
}
