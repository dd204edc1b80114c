// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model is a model of a Kubernetes API server with its store: the kinds that Tributary reads and
// writes, resource versions, compare-and-swap, preconditions, finalizers, pages, watches that resume
// or expire, and the refusals of a real server. A newcomer starts at NewServer.
//
// Package apitest serves it over HTTP, e2e/simulation plays with it, and e2e/simulation/reality compares it with a real
// kube-apiserver: both are sent the same random requests, and have to answer the same.
//
// What never happens here: a goroutine, a lock, a look at a clock other than that passed to NewServer.
package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Server is a model of a Kubernetes API server with its store. Requests take effect at once. It is not
// safe for concurrent use.
type Server struct {
	UID      string // of kube-system
	Revision uint64 // of the last change
	// PageSize is how many objects an answer to a list has at most, whatever is asked for.
	PageSize int
	// Admission is called before each write of a client, Changed after each that took effect; nil: not.
	Admission func(id ID, before, after Object) error
	Changed   func(Change)

	clock     func() time.Time
	serial    int
	objects   map[Kind][]Object // sorted, and replaced when they change
	history   []Change          // all changes since compacted
	compacted uint64
	watches   []*Watch
}

// Change is one revision of a Server's history: Before or After may be nil.
type Change struct {
	Revision      uint64
	Before, After Object
}

// Object is what changed, as it is or was.
func (c *Change) Object() Object {
	if c.After == nil {
		return c.Before
	}
	return c.After
}

// NewServer returns an empty Server. Servers of different numbers have different UIDs.
func NewServer(number int, clock func() time.Time) *Server {
	s := &Server{Revision: uint64(1000 + 100*number), PageSize: 500, clock: clock, serial: number << 20, objects: map[Kind][]Object{}}
	s.UID = s.newUID()
	return s
}

func (s *Server) newUID() string {
	s.serial++
	return fmt.Sprintf("5ca1ab1e-0000-4000-8000-%012x", s.serial)
}

// Stamp is the present, as objects have it.
func (s *Server) Stamp() metav1.Time { return metav1.NewTime(s.clock().Truncate(time.Second)) }

// find is where an object is among those of its kind.
func (s *Server) find(id ID) (at int, found bool) {
	return slices.BinarySearchFunc(s.objects[id.Kind], id, func(o Object, id ID) int {
		return cmp.Or(cmp.Compare(o.GetNamespace(), id.Namespace), cmp.Compare(o.GetName(), id.Name))
	})
}

// Find returns an object; nil: there is none.
func (s *Server) Find(id ID) Object {
	if at, found := s.find(id); found {
		return s.objects[id.Kind][at]
	}
	return nil
}

// Of returns an object of a type; nil: there is none.
func Of[O Object](s *Server, id ID) O {
	o, _ := s.Find(id).(O)
	return o
}

// Get answers a request for an object.
func (s *Server) Get(id ID) (Object, error) {
	if o := s.Find(id); o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(id.Kind.resource(), id.Name)
}

// All are the objects of a kind in a namespace, or in all, sorted.
func (s *Server) All(kind Kind, namespace string) []Object {
	all := s.objects[kind]
	if namespace == "" {
		return all
	}
	from, _ := s.find(ID{kind, namespace, ""})
	to := from
	for to < len(all) && all[to].GetNamespace() == namespace {
		to++
	}
	return all[from:to:to]
}

// commit makes a new revision.
func (s *Server) commit(before, after Object) Object {
	s.Revision++
	c := Change{s.Revision, before, after}
	o := c.Object()
	id := IDOf(o)
	at, found := s.find(id)
	all := slices.Clone(s.objects[id.Kind])
	if found {
		all = slices.Delete(all, at, at+1)
	}
	if after != nil {
		after.SetResourceVersion(strconv.FormatUint(s.Revision, 10))
		all = slices.Insert(all, at, after)
	}
	s.objects[id.Kind] = all
	s.history = append(s.history, c)
	for _, w := range s.watches {
		w.show(&c)
	}
	if s.Changed != nil {
		s.Changed(c)
	}
	return o
}

// admit says why an object that is to be created or updated is refused.
func (s *Server) admit(id ID, before, after Object) error {
	if err := validate(id, before, after); err != nil || s.Admission == nil {
		return err
	}
	return s.Admission(id, before, after)
}

// Create creates an object. The Server owns it from then on.
func (s *Server) Create(o Object) (Object, error) {
	id := IDOf(o)
	if id.Kind != Namespaces {
		ns := Of[*corev1.Namespace](s, ID{Kind: Namespaces, Name: id.Namespace})
		if ns == nil {
			return nil, apierrors.NewNotFound(Namespaces.resource(), id.Namespace)
		}
		if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
			err := Forbidden(id, "unable to create new content in namespace "+id.Namespace+" because it is being terminated")
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"})
			return nil, err
		}
	}
	if err := s.admit(id, nil, o); err != nil {
		return nil, err
	}
	if s.Find(id) != nil {
		return nil, apierrors.NewAlreadyExists(id.Kind.resource(), id.Name)
	}
	o.SetUID(types.UID(s.newUID()))
	o.SetCreationTimestamp(s.Stamp())
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "whoever made it"}})
	s.fill(nil, o)
	return s.commit(nil, o), nil
}

// Forbidden refuses a request about an object.
func Forbidden(id ID, why string) *apierrors.StatusError {
	return apierrors.NewForbidden(id.Kind.resource(), id.Name, errors.New(why))
}

// meets says why an object, nil if there is none, does not meet the preconditions of a request; "" is none.
func meets(id ID, o Object, uid types.UID, revision string) error {
	conflict := func(what string, want, has any) error {
		return apierrors.NewConflict(id.Kind.resource(), id.Name, fmt.Errorf("the precondition failed: %s in precondition: %v, %s in object meta: %v", what, want, what, has))
	}
	switch {
	case uid != "" && o == nil:
		return conflict("UID", uid, "")
	case uid != "" && uid != o.GetUID():
		return conflict("UID", uid, o.GetUID())
	case o != nil && revision != "" && revision != o.GetResourceVersion():
		return conflict("ResourceVersion", revision, o.GetResourceVersion())
	}
	return nil
}

// Update replaces an object, if that has the UID and resourceVersion that the new one sets.
// Endpoints and Services that do not exist are created, unless the UID is set.
func (s *Server) Update(o Object) (Object, error) {
	id := IDOf(o)
	before := s.Find(id)
	if before == nil && id.Kind != Endpoints && id.Kind != Services {
		return nil, apierrors.NewNotFound(id.Kind.resource(), id.Name)
	}
	if err := meets(id, before, o.GetUID(), o.GetResourceVersion()); err != nil {
		return nil, err
	}
	if before == nil {
		return s.Create(o)
	}
	o.SetUID(before.GetUID())
	o.SetCreationTimestamp(before.GetCreationTimestamp())
	o.SetDeletionTimestamp(before.GetDeletionTimestamp())
	o.SetResourceVersion(before.GetResourceVersion())
	if sent := o.GetManagedFields(); len(sent) == 1 && sent[0].Manager == "" { // managedFields are to be reset
		o.SetManagedFields(nil)
	} else {
		o.SetManagedFields(before.GetManagedFields())
	}
	s.fill(before, o)
	if err := s.admit(id, before, o); err != nil {
		return nil, err
	}
	if id.Kind != Leases && equality.Semantic.DeepEqual(before, o) {
		return before, nil // the store is not written
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && id.Kind != Pods && id.Kind != Namespaces {
		s.Remove(before)
		return o, nil
	}
	return s.commit(before, o), nil
}

// Delete deletes an object, or marks it where a finalizer or its kind wants that, and returns
// what it was or is.
func (s *Server) Delete(id ID, p *metav1.Preconditions) (Object, error) {
	before, err := s.Get(id)
	if err != nil {
		return nil, err
	}
	if p != nil {
		if err := meets(id, before, *cmp.Or(p.UID, new(types.UID)), *cmp.Or(p.ResourceVersion, new(string))); err != nil {
			return nil, err
		}
	}
	if s.Admission != nil {
		if err := s.Admission(id, before, nil); err != nil {
			return nil, err
		}
	}
	return s.End(before), nil
}

// Remove removes what has the name of an object; with a Service also the Endpoints of its name.
func (s *Server) Remove(o Object) Object {
	id := IDOf(o)
	if o = s.Find(id); o != nil {
		if s.commit(o, nil); id.Kind == Services {
			s.End(s.Find(ID{Endpoints, id.Namespace, id.Name}))
		}
	}
	return o
}

// End removes an object, or marks it as deleted while it has a finalizer; nil is none.
func (s *Server) End(o Object) Object {
	switch {
	case o == nil || o.GetDeletionTimestamp() != nil:
		return o
	case len(o.GetFinalizers()) == 0 && KindOf(o) != Namespaces:
		return s.Remove(o)
	}
	return Edit(s, IDOf(o), func(o Object) { o.SetDeletionTimestamp(new(s.Stamp())) })
}

// Edit changes an object as the cluster's own parts do: without admission. It returns nil
// if there is none.
func Edit[O Object](s *Server, id ID, change func(O)) Object {
	before := s.Find(id)
	if before == nil {
		return nil
	}
	after := before.DeepCopyObject().(Object)
	if change(after.(O)); equality.Semantic.DeepEqual(before, after) {
		return before
	}
	return s.commit(before, after)
}

// Compact drops the history up to now.
func (s *Server) Compact() { s.history, s.compacted = nil, s.Revision }

// Backup is a store as it was at a revision.
type Backup struct {
	Revision uint64
	objects  map[Kind][]Object
}

// Save makes a backup of the store.
func (s *Server) Save() *Backup { return &Backup{s.Revision, maps.Clone(s.objects)} }

// Restore goes back to a backup. With bump the revisions continue beyond those that were assigned.
func (s *Server) Restore(b *Backup, bump bool) {
	s.EndWatches(ErrBroken)
	former := s.Revision
	if s.Revision, s.objects = b.Revision, maps.Clone(b.objects); bump {
		s.Revision = former + 1000
	}
	s.Compact()
}
