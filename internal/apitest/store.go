// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// name locates an object within its kind.
type name = types.NamespacedName

type event struct {
	rv     uint64
	kind   watch.EventType
	object Object // immutable
}

// table is all objects of a kind and what happened to them.
type table struct {
	objects map[name]Object // immutable values
	history []event
	// frozen holds back watch events while set.
	frozen bool
}

// store is the server's memory.
type store struct {
	mu      sync.Mutex
	rv      uint64
	uids    int
	tables  map[*kind]*table
	changed chan struct{} // closed and replaced at every change
	// refuse, unless nil, is an admission that follows validation.
	refuse func(Object) (field.ErrorList, error)
}

func newStore() *store {
	s := &store{rv: 100, tables: map[*kind]*table{}, changed: make(chan struct{})}
	for _, k := range kinds {
		s.tables[k] = &table{objects: map[name]Object{}}
	}
	return s
}

func (s *store) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lockedAnnounce()
}

func (s *store) lockedAnnounce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *store) lockedCommit(k *kind, n name, verb watch.EventType, obj Object) Object {
	s.rv++
	obj.SetResourceVersion(strconv.FormatUint(s.rv, 10))
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	t := s.tables[k]
	if verb == watch.Deleted {
		delete(t.objects, n)
	} else {
		t.objects[n] = obj
	}
	t.history = append(t.history, event{rv: s.rv, kind: verb, object: obj})
	s.lockedAnnounce()
	return obj
}

func resource(k *kind) schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

func (s *store) get(k *kind, n name) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := s.tables[k].objects[n]
	if obj == nil {
		return nil, apierrors.NewNotFound(resource(k), n.Name)
	}
	return obj, nil
}

func (s *store) list(k *kind, namespace string) (items []Object, rv uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := s.tables[k].objects
	for _, n := range slices.SortedFunc(maps.Keys(objects), compareNames) {
		if namespace == "" || n.Namespace == namespace {
			items = append(items, objects[n])
		}
	}
	return items, s.rv
}

func compareNames(a, b name) int { return strings.Compare(a.String(), b.String()) }

func (s *store) create(k *kind, n name, obj Object) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lockedCreate(k, n, obj)
}

func (s *store) lockedCreate(k *kind, n name, obj Object) (Object, error) {
	if err := s.lockedNamespaceReady(k, n); err != nil {
		return nil, err
	}
	if s.tables[k].objects[n] != nil {
		return nil, apierrors.NewAlreadyExists(resource(k), n.Name)
	}
	obj = prepare(k, obj)
	if err := s.lockedAdmit(k, obj, nil); err != nil {
		return nil, err
	}
	s.uids++
	obj.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	obj.SetCreationTimestamp(metav1.Now())
	obj.SetDeletionTimestamp(nil)
	return s.lockedCommit(k, n, watch.Added, obj), nil
}

func (s *store) lockedNamespaceReady(k *kind, n name) error {
	if !k.namespaced {
		return nil
	}
	obj := s.tables[kinds[0]].objects[name{Name: n.Namespace}]
	if obj == nil {
		return apierrors.NewNotFound(resource(kinds[0]), n.Namespace)
	}
	if obj.(*corev1.Namespace).Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	err := apierrors.NewForbidden(resource(k), n.Name, fmt.Errorf("namespace %s is being terminated", n.Namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"})
	return err
}

func (s *store) lockedAdmit(k *kind, obj, old Object) error {
	if err := validate(k, obj, old); err != nil || s.refuse == nil {
		return err
	}
	errs, err := s.refuse(obj)
	if err != nil {
		return err
	}
	return invalid(k, obj, errs)
}

func (s *store) update(k *kind, n name, obj Object) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.tables[k].objects[n]
	if old == nil {
		switch {
		case !k.createOnUpdate:
			return nil, apierrors.NewNotFound(resource(k), n.Name)
		case obj.GetUID() != "":
			return nil, conflict(k, n, "the UID names no standing object")
		}
		return s.lockedCreate(k, n, obj)
	}
	if err := precondition(k, n, old, obj.GetUID(), obj.GetResourceVersion()); err != nil {
		return nil, err
	}
	obj = prepare(k, obj)
	if err := s.lockedAdmit(k, obj, old); err != nil {
		return nil, err
	}
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetResourceVersion(old.GetResourceVersion())
	manage(obj, old)
	if equal(old, obj) {
		return old, nil // the real server stores no no-op either
	}
	if old.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		return s.lockedCommit(k, n, watch.Deleted, obj), nil
	}
	return s.lockedCommit(k, n, watch.Modified, obj), nil
}

// manage does with managedFields what the real server does: one empty entry ends
// them, none at all leaves them as they are. It begins no record by itself.
func manage(obj, old Object) {
	switch entries := obj.GetManagedFields(); {
	case len(entries) == 0:
		obj.SetManagedFields(old.GetManagedFields())
	case len(entries) == 1 && entries[0] == (metav1.ManagedFieldsEntry{}):
		obj.SetManagedFields(nil)
	}
}

func precondition(k *kind, n name, old Object, uid types.UID, rv string) error {
	if uid != "" && uid != old.GetUID() {
		return conflict(k, n, "the UID is another object's")
	}
	if rv != "" && rv != old.GetResourceVersion() {
		return conflict(k, n, "the object has been modified")
	}
	return nil
}

func conflict(k *kind, n name, why string) error {
	return apierrors.NewConflict(resource(k), n.Name, fmt.Errorf("%s", why))
}

func (s *store) delete(k *kind, n name, p *metav1.Preconditions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.tables[k].objects[n]
	if old == nil {
		return apierrors.NewNotFound(resource(k), n.Name)
	}
	if p != nil {
		var uid types.UID
		var rv string
		if p.UID != nil {
			uid = *p.UID
		}
		if p.ResourceVersion != nil {
			rv = *p.ResourceVersion
		}
		if err := precondition(k, n, old, uid, rv); err != nil {
			return err
		}
	}
	s.lockedDelete(k, n, old)
	if k.resource == "services" { // the real server removes the namesake, whoever owns it
		endpoints := kindOf("endpoints")
		if old := s.tables[endpoints].objects[n]; old != nil {
			s.lockedDelete(endpoints, n, old)
		}
	}
	return nil
}

// lockedDelete ends an object, or marks it while it has finalizers.
func (s *store) lockedDelete(k *kind, n name, old Object) {
	gone := old.DeepCopyObject().(Object)
	if len(old.GetFinalizers()) == 0 {
		s.lockedCommit(k, n, watch.Deleted, gone)
		return
	}
	if old.GetDeletionTimestamp() == nil {
		now := metav1.Now()
		gone.SetDeletionTimestamp(&now)
		s.lockedCommit(k, n, watch.Modified, gone)
	}
}
