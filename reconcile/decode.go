// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// objectID names one object of the ingress cluster.
type objectID struct {
	kind plan.Kind
	syncer.Key
}

// found is one object of the ingress cluster as the view keeps it: immutable,
// and for a foreign object no more than its identity. Exactly one of service,
// endpoints and slice is set, none for a namespace.
type found struct {
	id objectID
	// replica is the Service name the object stands under.
	replica syncer.Key
	// rv is the resource version as a number; 0 when the server's is none, and
	// then the object is taken for newer than anything.
	rv        uint64
	uid       string
	claim     plan.Claim
	deleting  bool
	service   *plan.ObservedService
	endpoints *plan.ObservedEndpoints
	slice     *plan.ObservedSlice
	namespace plan.NamespaceState
	// tracked is true when the server keeps record of who set which field, and names
	// nobody but us.
	tracked bool
	// kept is nil for nearly every object.
	kept *extra
}

// extra is metadata that others put on our objects and that a PUT must carry on.
type extra struct {
	finalizers []string
	owners     []metav1.OwnerReference
}

// version parses a resource version. Servers promise since 1.35 that it is a
// number that grows, and etcd made it so ever since.
func version(rv string) uint64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// version is the inverse of the function of that name.
func (f *found) version() string {
	if f.rv == 0 {
		return ""
	}
	return strconv.FormatUint(f.rv, 10)
}

// decoder turns objects of the ingress cluster into what the view keeps, on behalf of
// one installation.
type decoder struct{ instance string }

// found begins with what all kinds have; replica is the name the object stands under.
func (d decoder) found(kind plan.Kind, m *metav1.ObjectMeta, replica string) *found {
	key := syncer.Key{Namespace: m.Namespace, Name: m.Name}
	f := &found{
		id: objectID{kind, key}, replica: syncer.Key{Namespace: m.Namespace, Name: replica},
		rv: version(m.ResourceVersion), uid: string(m.UID), deleting: m.DeletionTimestamp != nil,
	}
	f.claim = plan.ClaimOf(kind, f.replica, m.Labels, m.Annotations, d.instance)
	f.tracked = f.mayBeOurs() && trackedAlone(m.ManagedFields)
	return f
}

// mayBeOurs reports whether the object carries our mark and instance. Whether it is
// ours depends on the others of its replica, too: see plan.Observed.Own.
func (f *found) mayBeOurs() bool { return f.claim >= plan.ClaimMarked }

// fieldManager is how an API server calls us in managedFields: what stands before
// the slash of our user agent.
const fieldManager = "tributary"

func trackedAlone(entries []metav1.ManagedFieldsEntry) bool {
	others := func(e metav1.ManagedFieldsEntry) bool { return e.Manager != fieldManager }
	return len(entries) > 0 && !slices.ContainsFunc(entries, others)
}

// stripManagedFields leaves of managedFields only who is named, the bulky rest is
// nothing to us.
func stripManagedFields(m metav1.Object) {
	entries := m.GetManagedFields()
	for i := range entries {
		entries[i] = metav1.ManagedFieldsEntry{Manager: entries[i].Manager}
	}
}

// observedMeta keeps labels and annotations only of what may be ours: a foreign object
// costs its identity, one of another installation the name of that.
func observedMeta(f *found, m *metav1.ObjectMeta) plan.Meta {
	meta := plan.Meta{
		Name: m.Name, UID: f.uid, ResourceVersion: m.ResourceVersion, Claim: f.claim, Deleting: f.deleting,
	}
	if f.claim == plan.ClaimOther {
		meta.Labels = map[string]string{plan.LabelInstance: m.Labels[plan.LabelInstance]}
	}
	if !f.mayBeOurs() {
		return meta
	}
	meta.Labels, meta.Annotations = m.Labels, m.Annotations
	var owners []metav1.OwnerReference
	for _, o := range m.OwnerReferences {
		if f.id.kind == plan.KindEndpointSlice && o.Kind == "Service" && o.APIVersion == "v1" && meta.OwnerUID == "" {
			meta.OwnerUID = string(o.UID)
			continue
		}
		owners = append(owners, o)
	}
	if len(m.Finalizers)+len(owners) > 0 {
		f.kept = &extra{finalizers: m.Finalizers, owners: owners}
	}
	return meta
}

func (d decoder) namespace(ns *corev1.Namespace) *found {
	f := d.found(plan.KindNamespace, &ns.ObjectMeta, ns.Name)
	f.namespace = plan.NamespaceActive
	if f.deleting || ns.Status.Phase == corev1.NamespaceTerminating {
		f.namespace = plan.NamespaceTerminating
	}
	return f
}

func (d decoder) service(svc *corev1.Service) *found {
	f := d.found(plan.KindService, &svc.ObjectMeta, svc.Name)
	if _, named := svc.Annotations[plan.AnnotationReplica]; !named && svc.Spec.ClusterIP != corev1.ClusterIPNone {
		f.claim = min(f.claim, plan.ClaimMarked) // the version before never wrote it so
	}
	f.service = &plan.ObservedService{Meta: observedMeta(f, &svc.ObjectMeta)}
	if !f.mayBeOurs() {
		return f
	}
	f.service.Sources = plan.ReadSources(svc.Annotations)
	f.service.Headless = svc.Spec.ClusterIP == corev1.ClusterIPNone
	f.service.Selector = svc.Spec.Selector
	f.service.Stray = stray(&svc.Spec)
	f.service.Ports = make([]syncer.ServicePort, len(svc.Spec.Ports))
	for i, p := range svc.Spec.Ports {
		f.service.Ports[i] = syncer.ServicePort{
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

func (d decoder) endpoints(ep *corev1.Endpoints) *found {
	f := d.found(plan.KindEndpoints, &ep.ObjectMeta, ep.Name)
	f.endpoints = &plan.ObservedEndpoints{Meta: observedMeta(f, &ep.ObjectMeta)}
	if !f.mayBeOurs() {
		return f
	}
	f.endpoints.Trigger = triggerTime(ep.Annotations)
	f.endpoints.Subsets = make([]syncer.Subset, len(ep.Subsets))
	for i, s := range ep.Subsets {
		f.endpoints.Subsets[i] = syncer.Subset{
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
		out[i] = syncer.Address{Addr: addr, Hostname: a.Hostname, NodeName: text(a.NodeName), Target: observedTargetRef(a.TargetRef)}
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
func (d decoder) marked(es *discoveryv1.EndpointSlice) bool {
	return plan.ClaimOf(plan.KindEndpointSlice, syncer.Key{}, es.Labels, nil, d.instance) == plan.ClaimMarked
}

func (d decoder) slice(es *discoveryv1.EndpointSlice) *found {
	name := es.Labels[plan.LabelServiceName]
	if record, ok := syncer.ParseKey(es.Annotations[plan.AnnotationReplica]); ok && record.Namespace == es.Namespace && d.marked(es) {
		name = record.Name // whatever somebody made of the label
	}
	f := d.found(plan.KindEndpointSlice, &es.ObjectMeta, name)
	f.slice = &plan.ObservedSlice{Meta: observedMeta(f, &es.ObjectMeta)}
	f.slice.Slice.Name = es.Name
	if !f.mayBeOurs() {
		f.slice.Serves = len(es.Endpoints) > 0 && es.Labels[plan.LabelSliceManagedBy] != plan.SliceMirrored
		return f
	}
	s := f.slice
	s.Cluster = es.Labels[plan.LabelSourceCluster]
	s.Family = syncer.Family(es.AddressType)
	s.Ports = make([]syncer.Port, len(es.Ports))
	for i, p := range es.Ports {
		s.Malformed = s.Malformed || p.Name == nil || p.Protocol == nil || p.Port == nil
		s.Ports[i] = syncer.Port{Name: text(p.Name), Protocol: text(p.Protocol), Number: number(p.Port), AppProtocol: observedAppProtocol(p.AppProtocol)}
	}
	s.Endpoints = make([]syncer.Endpoint, len(es.Endpoints))
	for i := range es.Endpoints {
		var ok bool
		s.Endpoints[i], ok = observedEndpoint(&es.Endpoints[i])
		s.Malformed = s.Malformed || !ok
	}
	return f
}

// serves reports whether it is a foreign slice whose endpoints consumers take for the
// replica's.
func (f *found) serves() bool { return f.slice != nil && f.slice.Serves }

// observedEndpoint reports ok false for what sliceEndpoint never writes.
func observedEndpoint(e *discoveryv1.Endpoint) (out syncer.Endpoint, ok bool) {
	c := &e.Conditions
	ok = c.Ready != nil && c.Serving != nil && c.Terminating != nil &&
		len(e.Addresses) == 1 && e.Hints == nil && len(e.DeprecatedTopology) == 0
	if len(e.Addresses) > 0 {
		addr, err := netip.ParseAddr(e.Addresses[0])
		out.Addr = addr
		ok = ok && err == nil && addr.String() == e.Addresses[0]
	}
	out.Ready, out.Serving, out.Terminating = truth(c.Ready), truth(c.Serving), truth(c.Terminating)
	out.Hostname, out.NodeName, out.Zone = text(e.Hostname), text(e.NodeName), text(e.Zone)
	out.Target = observedTargetRef(e.TargetRef)
	return out, ok
}

func text[S ~string](s *S) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

func truth(b *bool) bool { return b != nil && *b }
