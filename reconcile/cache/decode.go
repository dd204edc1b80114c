// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package cache

import (
	"net/netip"
	"slices"
	"strconv"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// ID names one object of the ingress cluster.
type ID struct {
	Kind plan.Kind
	syncer.Key
}

// Object is one object of the ingress cluster as the cache keeps it: immutable,
// and for a foreign object no more than its identity. Exactly one of Service,
// Endpoints and Slice is set, none for a namespace.
type Object struct {
	ID ID
	// Replica is the Service name the object stands under.
	Replica syncer.Key
	// Revision is the resource version as a number; 0 when the server's is none, and
	// then the object is taken for newer than anything.
	Revision uint64
	UID      string
	Claim    plan.Claim
	// Deleting is true once deletionTimestamp is set.
	Deleting  bool
	Service   *plan.CurrentService
	Endpoints *plan.CurrentEndpoints
	Slice     *plan.CurrentSlice
	Namespace plan.NamespaceState
	// Tracked is true when the server keeps record of who set which field, and names
	// nobody but us.
	Tracked bool
	// Rival is true when another process of this installation wrote it last.
	Rival bool
	// Kept is nil for nearly every object.
	Kept *Extra
	// spec is that of a Service of ours, as protobuf: nearly all share one.
	spec unique.Handle[string]
}

// Spec is that of a Service of ours without its ports, with all that a server has filled in.
func (f *Object) Spec() (spec corev1.ServiceSpec) {
	if f.spec != (unique.Handle[string]{}) {
		_ = spec.Unmarshal([]byte(f.spec.Value())) // it comes from Marshal
	}
	return spec
}

// Extra is metadata that others put on our objects and that a PUT must carry on.
type Extra struct {
	Finalizers []string
	Owners     []metav1.OwnerReference
}

// Revision parses a resource version. Servers promise since 1.35 that it is a
// number that grows, and etcd made it so ever since.
func Revision(rv string) uint64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Version is the inverse of Revision.
func (f *Object) Version() string {
	if f.Revision == 0 {
		return ""
	}
	return strconv.FormatUint(f.Revision, 10)
}

// Decoder turns objects of the ingress cluster into what the cache keeps, on behalf of
// one process of an installation.
type Decoder struct{ Instance, Process string }

// found begins with what all kinds have; replica is the name the object stands under.
func (d Decoder) found(kind plan.Kind, m *metav1.ObjectMeta, replica string) *Object {
	key := syncer.Key{Namespace: m.Namespace, Name: m.Name}
	f := &Object{
		ID: ID{kind, key}, Replica: syncer.Key{Namespace: m.Namespace, Name: replica},
		Revision: Revision(m.ResourceVersion), UID: string(m.UID), Deleting: m.DeletionTimestamp != nil,
	}
	f.Claim = plan.ClaimOf(kind, f.Replica, m.Labels, m.Annotations, d.Instance)
	// Our writes leave no record of who set which field, and everybody else's do.
	alike := f.MayBeOurs() && !slices.ContainsFunc(m.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager != FieldManager })
	f.Tracked = alike && len(m.ManagedFields) > 0
	process := m.Annotations[plan.AnnotationProcess]
	f.Rival = alike && f.Claim == plan.ClaimRecorded && process != "" && process != d.Process
	return f
}

// MayBeOurs reports whether the object carries our mark and instance. Whether it is
// ours depends on the others of its replica, too: see plan.Current.Own.
func (f *Object) MayBeOurs() bool { return f.Claim >= plan.ClaimMarked }

// meta is what rules see of the metadata; nil of a namespace.
func (f *Object) meta() *plan.Meta {
	switch {
	case f.Service != nil:
		return &f.Service.Meta
	case f.Endpoints != nil:
		return &f.Endpoints.Meta
	case f.Slice != nil:
		return &f.Slice.Meta
	}
	return nil
}

// Unrecorded reports whether the object lacks the record of what the server made of it.
func (f *Object) Unrecorded() bool { return f.meta() != nil && f.meta().Unrecorded() }

// FieldManager is how an API server calls us in managedFields: what stands before
// the slash of our user agent.
const FieldManager = "tributary"

// observedMeta keeps labels and annotations only of what may be ours: a foreign object
// costs its identity, one of another installation the name of that.
func observedMeta(f *Object, m *metav1.ObjectMeta) plan.Meta {
	meta := plan.Meta{
		Name: m.Name, UID: f.UID, ResourceVersion: m.ResourceVersion, Claim: f.Claim, Deleting: f.Deleting,
	}
	if f.Claim == plan.ClaimOther {
		meta.Labels = map[string]string{plan.LabelInstance: m.Labels[plan.LabelInstance]}
	}
	if !f.MayBeOurs() {
		return meta
	}
	meta.Labels, meta.Annotations, meta.Mutations = m.Labels, m.Annotations, plan.ReadMutations(m.Annotations)
	var owners []metav1.OwnerReference
	for _, o := range m.OwnerReferences {
		if f.ID.Kind == plan.KindEndpointSlice && o.Kind == "Service" && o.APIVersion == "v1" && meta.OwnerUID == "" {
			meta.OwnerUID = string(o.UID)
			continue
		}
		owners = append(owners, o)
	}
	if len(m.Finalizers)+len(owners) > 0 {
		f.Kept = &Extra{Finalizers: m.Finalizers, Owners: owners}
	}
	return meta
}

func (d Decoder) Namespace(ns *corev1.Namespace) *Object {
	f := d.found(plan.KindNamespace, &ns.ObjectMeta, ns.Name)
	f.Namespace = plan.NamespaceActive
	if f.Deleting || ns.Status.Phase == corev1.NamespaceTerminating {
		f.Namespace = plan.NamespaceTerminating
	}
	return f
}

func (d Decoder) Service(svc *corev1.Service) *Object {
	f := d.found(plan.KindService, &svc.ObjectMeta, svc.Name)
	if _, named := svc.Annotations[plan.AnnotationReplica]; !named && (svc.Spec.ClusterIP != corev1.ClusterIPNone || len(svc.Spec.Selector) > 0) {
		f.Claim = min(f.Claim, plan.ClaimMarked) // the version before never wrote it so
	}
	f.Service = &plan.CurrentService{Meta: observedMeta(f, &svc.ObjectMeta)}
	if !f.MayBeOurs() {
		return f
	}
	f.Service.Record = plan.ReadRecord(svc.Annotations)
	f.Service.Headless = svc.Spec.ClusterIP == corev1.ClusterIPNone
	f.Service.Selector = svc.Spec.Selector
	f.Service.Stray = Stray(&svc.Spec)
	rest := svc.Spec
	rest.Ports, rest.Selector = nil, nil
	if data, err := rest.Marshal(); err == nil {
		f.spec = unique.Make(string(data))
	}
	f.Service.Ports = make([]syncer.ServicePort, len(svc.Spec.Ports))
	for i, p := range svc.Spec.Ports {
		f.Service.Ports[i] = syncer.ServicePort{
			Name: p.Name, Protocol: protocol(p.Protocol), Port: p.Port, AppProtocol: p.AppProtocol,
			Target: observedTarget(p.TargetPort),
		}
	}
	return f
}

func observedTarget(t intstr.IntOrString) syncer.TargetPort {
	if t.Type == intstr.String {
		return syncer.TargetPort{Name: t.StrVal}
	}
	return syncer.TargetPort{Number: t.IntVal}
}

func protocol(p corev1.Protocol) string {
	if p == "" {
		return syncer.TCP
	}
	return string(p)
}

func (d Decoder) Endpoints(ep *corev1.Endpoints) *Object {
	f := d.found(plan.KindEndpoints, &ep.ObjectMeta, ep.Name)
	f.Endpoints = &plan.CurrentEndpoints{Meta: observedMeta(f, &ep.ObjectMeta)}
	if !f.MayBeOurs() {
		return f
	}
	f.Endpoints.Owners = plan.ReadOwners(ep.Annotations)
	f.Endpoints.Trigger = triggerTime(ep.Annotations)
	f.Endpoints.Subsets = make([]syncer.Subset, len(ep.Subsets))
	for i, s := range ep.Subsets {
		f.Endpoints.Subsets[i] = syncer.Subset{
			Ready: observedAddresses(s.Addresses), NotReady: observedAddresses(s.NotReadyAddresses),
			Ports: observedPorts(s.Ports),
		}
	}
	return f
}

func triggerTime(annotations map[string]string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, annotations[plan.AnnotationTrigger])
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// observedAddresses leaves the address invalid where the text is none: it then
// differs from every address that is wanted.
func observedAddresses(in []corev1.EndpointAddress) []syncer.Address {
	if len(in) == 0 {
		return nil
	}
	out := make([]syncer.Address, len(in))
	for i := range in {
		a := &in[i]
		addr, _ := netip.ParseAddr(a.IP)
		out[i] = syncer.Address{Addr: addr, Hostname: a.Hostname, NodeName: value(a.NodeName), Target: observedTargetRef(a.TargetRef)}
	}
	return out
}

func observedPorts(in []corev1.EndpointPort) []syncer.Port {
	if len(in) == 0 {
		return nil
	}
	out := make([]syncer.Port, len(in))
	for i, p := range in {
		out[i] = syncer.Port{Name: p.Name, Protocol: protocol(p.Protocol), Number: p.Port, AppProtocol: observedAppProtocol(p.AppProtocol)}
	}
	return out
}

func observedAppProtocol(p *string) syncer.AppProtocol {
	if p == nil {
		return syncer.AppProtocol{}
	}
	return syncer.AppProtocol{Value: *p, Set: true}
}

func observedTargetRef(r *corev1.ObjectReference) syncer.TargetRef {
	if r == nil {
		return syncer.TargetRef{}
	}
	return syncer.TargetRef{Kind: r.Kind, Key: syncer.Key{Namespace: r.Namespace, Name: r.Name}, UID: string(r.UID)}
}

// marked reports whether a slice says that it is of this installation.
func (d Decoder) marked(es *discoveryv1.EndpointSlice) bool {
	return plan.ClaimOf(plan.KindEndpointSlice, syncer.Key{}, es.Labels, nil, d.Instance) == plan.ClaimMarked
}

func (d Decoder) Slice(es *discoveryv1.EndpointSlice) *Object {
	name := es.Labels[plan.LabelServiceName]
	if record, ok := syncer.ParseKey(es.Annotations[plan.AnnotationReplica]); ok && record.Namespace == es.Namespace && d.marked(es) {
		name = record.Name // whatever somebody made of the label
	}
	f := d.found(plan.KindEndpointSlice, &es.ObjectMeta, name)
	f.Slice = &plan.CurrentSlice{Meta: observedMeta(f, &es.ObjectMeta)}
	f.Slice.Slice.Name = es.Name
	if !f.MayBeOurs() {
		f.Slice.Serves = len(es.Endpoints) > 0 && es.Labels[plan.LabelSliceManagedBy] != plan.SliceMirrored
		return f
	}
	s := f.Slice
	s.Cluster = es.Labels[plan.LabelSourceCluster]
	s.Family = syncer.Family(es.AddressType)
	s.Ports = make([]syncer.Port, len(es.Ports))
	for i, p := range es.Ports {
		s.Malformed = s.Malformed || p.Name == nil || p.Protocol == nil || p.Port == nil
		s.Ports[i] = syncer.Port{Name: value(p.Name), Protocol: string(value(p.Protocol)), Number: value(p.Port), AppProtocol: observedAppProtocol(p.AppProtocol)}
	}
	s.Endpoints = make([]syncer.Endpoint, len(es.Endpoints))
	for i := range es.Endpoints {
		var ok bool
		s.Endpoints[i], ok = observedEndpoint(&es.Endpoints[i])
		s.Malformed, s.Hinted = s.Malformed || !ok, s.Hinted || es.Endpoints[i].Hints != nil
	}
	return f
}

// serves reports whether it is a foreign slice whose endpoints consumers take for the
// replica's.
func (f *Object) serves() bool { return f.Slice != nil && f.Slice.Serves }

// observedEndpoint reports ok false for what sliceEndpoint never writes.
func observedEndpoint(e *discoveryv1.Endpoint) (out syncer.Endpoint, ok bool) {
	c := &e.Conditions
	ok = c.Ready != nil && c.Serving != nil && c.Terminating != nil &&
		len(e.Addresses) == 1 && len(e.DeprecatedTopology) == 0
	if len(e.Addresses) > 0 {
		addr, err := netip.ParseAddr(e.Addresses[0])
		out.Addr = addr
		ok = ok && err == nil && addr.String() == e.Addresses[0]
	}
	out.Ready, out.Serving, out.Terminating = value(c.Ready), value(c.Serving), value(c.Terminating)
	out.Hostname, out.NodeName, out.Zone = value(e.Hostname), value(e.NodeName), value(e.Zone)
	out.Target = observedTargetRef(e.TargetRef)
	return out, ok
}

// value is the zero value where there is none.
func value[T any](of *T) (v T) {
	if of != nil {
		v = *of
	}
	return v
}
