// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// forbidden is a refusal by admission.
func forbidden(id ID) error {
	return apierrors.NewForbidden(id.Kind.resource(), id.Name, fmt.Errorf("admission webhook denied the request"))
}

func notFound(err error) bool { return apierrors.IsNotFound(err) }

// Kind is a kind of object that a Server holds.
type Kind uint8

// The kinds.
const (
	Namespaces Kind = iota
	Pods
	Services
	Endpoints
	EndpointSlices
	Leases
	kindCount
)

// resource is how a kind is called in errors.
func (k Kind) resource() schema.GroupResource {
	return [...]schema.GroupResource{{Resource: "namespaces"}, {Resource: "pods"}, {Resource: "services"}, {Resource: "endpoints"},
		{Group: discoveryv1.GroupName, Resource: "endpointslices"}, {Group: coordinationv1.GroupName, Resource: "leases"}}[k]
}

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
func (i ID) String() string { return i.Kind.resource().Resource + " " + i.Namespace + "/" + i.Name }

func idOf(o Object) ID { return ID{kindOf(o), o.GetNamespace(), o.GetName()} }

// change is one revision of a Server's history: before or after may be nil.
type change struct {
	revision      uint64
	before, after Object
}

// Server is a model of a Kubernetes API server with its store. Requests take effect at once;
// what lies between it and who asks is a link.
type Server struct {
	UID      string // of kube-system
	clock    func() time.Time
	revision uint64
	serial   int
	objects  map[ID]Object
	// sorted are the objects of each kind; a list that was handed out keeps its length.
	sorted [kindCount][]Object
	// history holds all changes since compacted. Lists are answered in pages of pageSize at
	// most, whatever is asked for.
	history   []change
	compacted uint64
	pageSize  int
	watches   []*Watch
	// admission is asked of every write, quota bounds the objects of a kind in a namespace.
	admission func(verb string, id ID, before, after Object) error
	quota     map[ID]int
	// changed is told of each change; nil is not.
	changed func(change)
	backup  *snapshot
}

// snapshot is what a store can be restored to.
type snapshot struct {
	revision uint64
	objects  map[ID]Object
}

// NewServer returns a Server that holds nothing. number makes its UIDs its own.
func NewServer(number int, clock func() time.Time) *Server {
	s := &Server{clock: clock, revision: uint64(1000 + 100*number), serial: number << 20, objects: map[ID]Object{}, quota: map[ID]int{}, pageSize: 500}
	s.UID = s.newUID()
	return s
}

func (s *Server) newUID() string {
	s.serial++
	return fmt.Sprintf("5ca1ab1e-0000-4000-8000-%012x", s.serial)
}

// Get returns an object as the store has it.
func (s *Server) Get(id ID) (Object, error) {
	if o := s.objects[id]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(id.Kind.resource(), id.Name)
}

// all are the objects of a kind in a namespace, or in all, sorted.
func (s *Server) all(kind Kind, namespace string) []Object {
	all := s.sorted[kind]
	if namespace == "" {
		return all
	}
	from, _ := slices.BinarySearchFunc(all, ID{kind, namespace, ""}, compareTo)
	to := from
	for to < len(all) && all[to].GetNamespace() == namespace {
		to++
	}
	return all[from:to:to]
}

func compareTo(o Object, id ID) int {
	return cmp.Or(cmp.Compare(o.GetNamespace(), id.Namespace), cmp.Compare(o.GetName(), id.Name))
}

// commit makes a new revision.
func (s *Server) commit(before, after Object) Object {
	s.revision++
	o := after
	if o == nil {
		o = before
	}
	id := idOf(o)
	if after != nil {
		after.SetResourceVersion(strconv.FormatUint(s.revision, 10))
		s.objects[id] = after
	} else {
		delete(s.objects, id)
	}
	all := s.sorted[id.Kind]
	switch at, found := slices.BinarySearchFunc(all, id, compareTo); {
	case after != nil && !found:
		s.sorted[id.Kind] = slices.Insert(slices.Clip(all), at, after)
	case after == nil && found:
		s.sorted[id.Kind] = slices.Concat(all[:at], all[at+1:])
	case found:
		all[at] = after
	}
	c := change{s.revision, before, after}
	s.history = append(s.history, c)
	for _, w := range s.watches {
		w.show(&c)
	}
	if s.changed != nil {
		s.changed(c)
	}
	return o
}

// Create creates an object. The Server owns it from then on.
func (s *Server) Create(o Object) (Object, error) {
	id := idOf(o)
	if id.Kind != Namespaces && id.Namespace != "" {
		ns, _ := s.objects[ID{Kind: Namespaces, Name: id.Namespace}].(*corev1.Namespace)
		if ns == nil {
			return nil, apierrors.NewNotFound(Namespaces.resource(), id.Namespace)
		}
		if ns.DeletionTimestamp != nil {
			err := apierrors.NewForbidden(id.Kind.resource(), id.Name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", id.Namespace))
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
			return nil, err
		}
	}
	if err := s.admit("create", id, nil, o); err != nil {
		return nil, err
	}
	if s.objects[id] != nil {
		return nil, apierrors.NewAlreadyExists(id.Kind.resource(), id.Name)
	}
	if most, limited := s.quota[ID{Kind: id.Kind, Namespace: id.Namespace}]; limited && len(s.all(id.Kind, id.Namespace)) >= most {
		return nil, apierrors.NewForbidden(id.Kind.resource(), id.Name, fmt.Errorf("exceeded quota: objects, requested: 1, used: %d, limited: %d", most, most))
	}
	o.SetUID(types.UID(s.newUID()))
	o.SetCreationTimestamp(metav1.NewTime(s.clock().Truncate(time.Second)))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "whoever made it"}})
	s.fill(o)
	return s.commit(nil, o), nil
}

func (s *Server) admit(verb string, id ID, before, after Object) error {
	if s.admission == nil {
		return nil
	}
	return s.admission(verb, id, before, after)
}

// fill does what a server fills in.
func (s *Server) fill(o Object) {
	svc, ok := o.(*corev1.Service)
	if !ok || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if svc.Spec.ClusterIP == "" {
		s.serial++
		svc.Spec.ClusterIP = fmt.Sprintf("172.20.%d.%d", s.serial>>8&255, s.serial&255)
	}
	svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	families, policy := []corev1.IPFamily{corev1.IPv4Protocol}, corev1.IPFamilyPolicySingleStack
	if svc.Spec.ClusterIP == corev1.ClusterIPNone && len(svc.Spec.Selector) == 0 {
		families, policy = append(families, corev1.IPv6Protocol), corev1.IPFamilyPolicyRequireDualStack
	}
	if svc.Spec.IPFamilies == nil {
		svc.Spec.IPFamilies = families
	}
	if svc.Spec.IPFamilyPolicy == nil {
		svc.Spec.IPFamilyPolicy = &policy
	}
	svc.Spec.SessionAffinity = cmp.Or(svc.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	if svc.Spec.InternalTrafficPolicy == nil {
		svc.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	}
}

// Update replaces an object, if it stands as it says. Endpoints and Services that are not
// there are made, unless the UID is given.
func (s *Server) Update(o Object) (Object, error) {
	id := idOf(o)
	before := s.objects[id]
	switch {
	case before == nil && o.GetUID() != "" && (id.Kind == Endpoints || id.Kind == Services):
		return nil, s.conflict(id, "Precondition failed: UID in precondition: "+string(o.GetUID())+", UID in object meta: ")
	case before == nil && (id.Kind == Endpoints || id.Kind == Services):
		return s.Create(o)
	case before == nil:
		return nil, apierrors.NewNotFound(id.Kind.resource(), id.Name)
	case o.GetUID() != "" && o.GetUID() != before.GetUID():
		return nil, s.conflict(id, "Precondition failed: UID in precondition: "+string(o.GetUID())+", UID in object meta: "+string(before.GetUID()))
	case o.GetResourceVersion() != "" && o.GetResourceVersion() != before.GetResourceVersion():
		return nil, s.conflict(id, "the object has been modified; please apply your changes to the latest version and try again")
	}
	o.SetUID(before.GetUID())
	o.SetCreationTimestamp(before.GetCreationTimestamp())
	o.SetDeletionTimestamp(before.GetDeletionTimestamp())
	if given := o.GetManagedFields(); len(given) == 1 && given[0].Manager == "" { // who set what is to be forgotten
		o.SetManagedFields(nil)
	} else {
		o.SetManagedFields(before.GetManagedFields())
	}
	o.SetResourceVersion(before.GetResourceVersion())
	if is, ok := o.(*corev1.Service); ok { // what was given stays
		was := before.(*corev1.Service)
		is.Spec.ClusterIP = cmp.Or(is.Spec.ClusterIP, was.Spec.ClusterIP)
		if is.Spec.IPFamilies == nil && is.Spec.IPFamilyPolicy == nil {
			is.Spec.IPFamilies, is.Spec.IPFamilyPolicy = was.Spec.IPFamilies, was.Spec.IPFamilyPolicy
		}
	}
	s.fill(o)
	if err := immutable(id, before, o); err != nil {
		return nil, err
	}
	if err := s.admit("update", id, before, o); err != nil {
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

func (s *Server) conflict(id ID, text string) error {
	return apierrors.NewConflict(id.Kind.resource(), id.Name, fmt.Errorf("%s", text))
}

// immutable refuses changes that validation does.
func immutable(id ID, before, after Object) error {
	invalid := func(field string) error {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: id.Kind.resource().Resource}, id.Name, nil)
		err.ErrStatus.Message = field + ": Invalid value: field is immutable"
		return err
	}
	switch was := before.(type) {
	case *corev1.Service:
		is := after.(*corev1.Service)
		if was.Spec.ClusterIP != is.Spec.ClusterIP && was.Spec.Type != corev1.ServiceTypeExternalName && is.Spec.Type != corev1.ServiceTypeExternalName {
			return invalid("spec.clusterIPs[0]")
		}
	case *discoveryv1.EndpointSlice:
		if was.AddressType != after.(*discoveryv1.EndpointSlice).AddressType {
			return invalid("addressType")
		}
	}
	return nil
}

// Delete deletes an object, or marks it where a finalizer or its kind wants that, and returns
// what it was or is.
func (s *Server) Delete(id ID, p *metav1.Preconditions) (Object, error) {
	before := s.objects[id]
	switch {
	case before == nil:
		return nil, apierrors.NewNotFound(id.Kind.resource(), id.Name)
	case p == nil:
	case p.UID != nil && *p.UID != before.GetUID():
		return nil, s.conflict(id, "Precondition failed: UID in precondition: "+string(*p.UID)+", UID in object meta: "+string(before.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != before.GetResourceVersion():
		return nil, s.conflict(id, "Precondition failed: ResourceVersion in precondition: "+*p.ResourceVersion+", ResourceVersion in object meta: "+before.GetResourceVersion())
	}
	if err := s.admit("delete", id, before, nil); err != nil {
		return nil, err
	}
	return s.end(before), nil
}

// remove takes an object out. A Service takes the Endpoints of its name along.
func (s *Server) remove(o Object) Object {
	id := idOf(o)
	s.commit(o, nil)
	if id.Kind == Services {
		s.end(s.objects[ID{Endpoints, id.Namespace, id.Name}])
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
	return s.edit(idOf(o), func(o Object) { o.SetDeletionTimestamp(new(metav1.NewTime(s.clock().Truncate(time.Second)))) })
}

// edit changes an object as the cluster's own parts do: without admission. It returns nil
// where there is none.
func (s *Server) edit(id ID, change func(Object)) Object {
	before := s.objects[id]
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
	s.backup = &snapshot{s.revision, maps.Clone(s.objects)}
	s.revision += 500 // of kinds that nobody here follows
}

func (s *Server) restore(bump bool) {
	for _, w := range slices.Clone(s.watches) {
		w.end(errBroken)
	}
	former := s.revision
	s.revision, s.objects = s.backup.revision, maps.Clone(s.backup.objects)
	if bump {
		s.revision = former + 1000
	}
	s.history, s.compacted = nil, s.revision
	clear(s.sorted[:])
	for id, o := range s.objects {
		s.sorted[id.Kind] = append(s.sorted[id.Kind], o)
	}
	for _, all := range s.sorted {
		slices.SortFunc(all, func(a, b Object) int { return compareTo(a, idOf(b)) })
	}
}
