// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is a kind of object that a Server holds, by the name of its resource.
type Kind string

// The kinds.
const (
	Namespaces     Kind = "namespaces"
	Pods           Kind = "pods"
	Services       Kind = "services"
	Endpoints      Kind = "endpoints"
	EndpointSlices Kind = "endpointslices"
	Leases         Kind = "leases"
)

func (k Kind) resource() schema.GroupResource { return schema.GroupResource{Resource: string(k)} }

func kindOf(o Object) Kind {
	switch o.(type) {
	case *corev1.Namespace:
		return Namespaces
	case *corev1.Pod:
		return Pods
	case *corev1.Service:
		return Services
	case *corev1.Endpoints:
		return Endpoints
	case *discoveryv1.EndpointSlice:
		return EndpointSlices
	}
	return Leases
}

// Object is an API object. One that a Server holds or has shown is never changed.
type Object interface {
	metav1.Object
	runtime.Object
}

// ID names an object of a Server; that of a namespace has no namespace.
type ID struct {
	Kind            Kind
	Namespace, Name string
}

// String names the object for people.
func (i ID) String() string { return fmt.Sprintf("%s %s/%s", i.Kind, i.Namespace, i.Name) }

func idOf(o Object) ID { return ID{kindOf(o), o.GetNamespace(), o.GetName()} }

// change is one revision of a Server's history: before or after may be nil.
type change struct {
	revision      uint64
	before, after Object
}

// object is what changed, as it is or was.
func (c *change) object() Object {
	if c.after == nil {
		return c.before
	}
	return c.after
}

// Server is a model of a Kubernetes API server with its store. Requests take effect at once;
// what lies between it and who asks is a link.
type Server struct {
	UID      string // of kube-system
	clock    func() time.Time
	revision uint64
	serial   int
	objects  map[Kind][]Object // sorted, and replaced when they change
	// history holds all changes since compacted. Lists are answered in pages of pageSize at
	// most, whatever is asked for.
	history   []change
	compacted uint64
	pageSize  int
	watches   []*Watch
	admission func(id ID, before, after Object) error // is asked of every write
	changed   func(change)                            // is told of each
	// backup is what the store can be restored to, of the revision backedUp; nil: to nothing.
	backup   map[Kind][]Object
	backedUp uint64
}

// NewServer returns a Server that holds nothing. number makes its UIDs its own.
func NewServer(number int, clock func() time.Time) *Server {
	s := &Server{clock: clock, revision: uint64(1000 + 100*number), serial: number << 20, objects: map[Kind][]Object{}, pageSize: 500}
	s.admission, s.changed = func(ID, Object, Object) error { return nil }, func(change) {}
	s.UID = s.newUID()
	return s
}

func (s *Server) newUID() string {
	s.serial++
	return fmt.Sprintf("5ca1ab1e-0000-4000-8000-%012x", s.serial)
}

func (s *Server) stamp() metav1.Time { return metav1.NewTime(s.clock().Truncate(time.Second)) }

// find is where an object is among those of its kind.
func (s *Server) find(id ID) (at int, found bool) {
	return slices.BinarySearchFunc(s.objects[id.Kind], id, func(o Object, id ID) int {
		return cmp.Or(cmp.Compare(o.GetNamespace(), id.Namespace), cmp.Compare(o.GetName(), id.Name))
	})
}

// get returns an object; nil: there is none.
func (s *Server) get(id ID) Object {
	if at, found := s.find(id); found {
		return s.objects[id.Kind][at]
	}
	return nil
}

// of returns an object of a type; nil: there is none.
func of[O Object](s *Server, id ID) O {
	o, _ := s.get(id).(O)
	return o
}

// Get returns an object as the store has it.
func (s *Server) Get(id ID) (Object, error) {
	if o := s.get(id); o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(id.Kind.resource(), id.Name)
}

// all are the objects of a kind in a namespace, or in all, sorted.
func (s *Server) all(kind Kind, namespace string) []Object {
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
	s.revision++
	c := change{s.revision, before, after}
	o := c.object()
	id := idOf(o)
	at, found := s.find(id)
	to := at
	if found {
		to++
	}
	all := slices.Clone(s.objects[id.Kind])
	if after != nil {
		after.SetResourceVersion(strconv.FormatUint(s.revision, 10))
		all = slices.Replace(all, at, to, after)
	} else {
		all = slices.Delete(all, at, to)
	}
	s.objects[id.Kind] = all
	s.history = append(s.history, c)
	for _, w := range s.watches {
		w.show(&c)
	}
	s.changed(c)
	return o
}

// Create creates an object. The Server owns it from then on.
func (s *Server) Create(o Object) (Object, error) {
	id := idOf(o)
	if id.Namespace != "" {
		ns := of[*corev1.Namespace](s, ID{Kind: Namespaces, Name: id.Namespace})
		if ns == nil {
			return nil, apierrors.NewNotFound(Namespaces.resource(), id.Namespace)
		}
		if ns.DeletionTimestamp != nil {
			err := forbidden(id, "unable to create new content in namespace "+id.Namespace+" because it is being terminated")
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
			return nil, err
		}
	}
	if err := s.admission(id, nil, o); err != nil {
		return nil, err
	}
	if s.get(id) != nil {
		return nil, apierrors.NewAlreadyExists(id.Kind.resource(), id.Name)
	}
	o.SetUID(types.UID(s.newUID()))
	o.SetCreationTimestamp(s.stamp())
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "whoever made it"}})
	s.fill(o)
	return s.commit(nil, o), nil
}

func forbidden(id ID, why string) *apierrors.StatusError {
	return apierrors.NewForbidden(id.Kind.resource(), id.Name, errors.New(why))
}

func conflict(id ID, what string, given, has any) error {
	return apierrors.NewConflict(id.Kind.resource(), id.Name, fmt.Errorf("the precondition failed: %s in precondition: %v, %s in object meta: %v", what, given, what, has))
}

// fill does what a server fills in.
func (s *Server) fill(o Object) {
	svc, ok := o.(*corev1.Service)
	if !ok {
		return
	}
	spec := &svc.Spec
	if spec.ClusterIP == "" {
		s.serial++
		spec.ClusterIP = fmt.Sprintf("172.20.%d.%d", s.serial>>8&255, s.serial&255)
	}
	spec.ClusterIPs = []string{spec.ClusterIP}
	families, policy := []corev1.IPFamily{corev1.IPv4Protocol}, corev1.IPFamilyPolicySingleStack
	if spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0 {
		families, policy = append(families, corev1.IPv6Protocol), corev1.IPFamilyPolicyRequireDualStack
	}
	if spec.IPFamilies == nil {
		spec.IPFamilies = families
	}
	spec.IPFamilyPolicy = cmp.Or(spec.IPFamilyPolicy, &policy)
	spec.SessionAffinity = cmp.Or(spec.SessionAffinity, corev1.ServiceAffinityNone)
	spec.InternalTrafficPolicy = cmp.Or(spec.InternalTrafficPolicy, new(corev1.ServiceInternalTrafficPolicyCluster))
}

// Update replaces an object, if it stands as it says. Endpoints and Services that are not
// there are made, unless the UID is given.
func (s *Server) Update(o Object) (Object, error) {
	id := idOf(o)
	before, upserted := s.get(id), id.Kind == Endpoints || id.Kind == Services
	switch {
	case before == nil && upserted && o.GetUID() == "":
		return s.Create(o)
	case before == nil && upserted:
		return nil, conflict(id, "UID", o.GetUID(), "")
	case before == nil:
		return nil, apierrors.NewNotFound(id.Kind.resource(), id.Name)
	case o.GetUID() != "" && o.GetUID() != before.GetUID():
		return nil, conflict(id, "UID", o.GetUID(), before.GetUID())
	case o.GetResourceVersion() != "" && o.GetResourceVersion() != before.GetResourceVersion():
		return nil, conflict(id, "ResourceVersion", o.GetResourceVersion(), before.GetResourceVersion())
	}
	o.SetUID(before.GetUID())
	o.SetCreationTimestamp(before.GetCreationTimestamp())
	o.SetDeletionTimestamp(before.GetDeletionTimestamp())
	o.SetResourceVersion(before.GetResourceVersion())
	if given := o.GetManagedFields(); len(given) == 1 && given[0].Manager == "" { // who set what is to be forgotten
		o.SetManagedFields(nil)
	} else {
		o.SetManagedFields(before.GetManagedFields())
	}
	immutable := false
	switch is := o.(type) {
	case *corev1.Service: // what was given stays
		was := before.(*corev1.Service)
		is.Spec.ClusterIP = cmp.Or(is.Spec.ClusterIP, was.Spec.ClusterIP)
		if is.Spec.IPFamilies == nil && is.Spec.IPFamilyPolicy == nil {
			is.Spec.IPFamilies, is.Spec.IPFamilyPolicy = was.Spec.IPFamilies, was.Spec.IPFamilyPolicy
		}
		s.fill(is)
		immutable = was.Spec.ClusterIP != is.Spec.ClusterIP
	case *discoveryv1.EndpointSlice:
		immutable = before.(*discoveryv1.EndpointSlice).AddressType != is.AddressType
	}
	if immutable {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: string(id.Kind)}, id.Name, nil)
	}
	if err := s.admission(id, before, o); err != nil {
		return nil, err
	}
	if id.Kind != Leases && equality.Semantic.DeepEqual(before, o) {
		return before, nil // the store is not written
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && id.Kind != Pods && id.Kind != Namespaces {
		s.remove(before)
		return o, nil
	}
	return s.commit(before, o), nil
}

// Delete deletes an object, or marks it where a finalizer or its kind wants that, and returns
// what it was or is.
func (s *Server) Delete(id ID, p *metav1.Preconditions) (Object, error) {
	before := s.get(id)
	switch {
	case before == nil:
		return nil, apierrors.NewNotFound(id.Kind.resource(), id.Name)
	case p != nil && p.UID != nil && *p.UID != before.GetUID():
		return nil, conflict(id, "UID", *p.UID, before.GetUID())
	case p != nil && p.ResourceVersion != nil && *p.ResourceVersion != before.GetResourceVersion():
		return nil, conflict(id, "ResourceVersion", *p.ResourceVersion, before.GetResourceVersion())
	}
	if err := s.admission(id, before, nil); err != nil {
		return nil, err
	}
	return s.end(before), nil
}

// remove takes out what has the name of an object. A Service takes the Endpoints of its name along.
func (s *Server) remove(o Object) Object {
	id := idOf(o)
	if o = s.get(id); o != nil {
		if s.commit(o, nil); id.Kind == Services {
			s.end(s.get(ID{Endpoints, id.Namespace, id.Name}))
		}
	}
	return o
}

// end takes an object out, or marks it where a finalizer waits; nil is none.
func (s *Server) end(o Object) Object {
	switch {
	case o == nil || o.GetDeletionTimestamp() != nil:
		return o
	case len(o.GetFinalizers()) == 0 && kindOf(o) != Namespaces:
		return s.remove(o)
	}
	return s.edit(idOf(o), func(o Object) { o.SetDeletionTimestamp(new(s.stamp())) })
}

// edit changes an object as the cluster's own parts do: without admission. It returns nil
// where there is none.
func (s *Server) edit(id ID, change func(Object)) Object {
	before := s.get(id)
	if before == nil {
		return nil
	}
	after := before.DeepCopyObject().(Object)
	if change(after); equality.Semantic.DeepEqual(before, after) {
		return before
	}
	return s.commit(before, after)
}

// Compact forgets the history up to now.
func (s *Server) Compact() { s.history, s.compacted = nil, s.revision }

// save makes a backup of the store, restore goes back to it. With bump the revisions go on
// beyond those that were handed out.
func (s *Server) save() {
	s.backup, s.backedUp = maps.Clone(s.objects), s.revision
	s.revision += 500 // of kinds that nobody here follows
}

func (s *Server) restore(bump bool) {
	s.endWatches(errBroken)
	former := s.revision
	if s.revision, s.objects = s.backedUp, maps.Clone(s.backup); bump {
		s.revision = former + 1000
	}
	s.Compact()
}
