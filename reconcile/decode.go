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
	owned     bool
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

func newFound(kind plan.Kind, m *metav1.ObjectMeta, owned bool) *found {
	key := syncer.Key{Namespace: m.Namespace, Name: m.Name}
	return &found{
		id: objectID{kind, key}, replica: key, rv: version(m.ResourceVersion), uid: string(m.UID),
		owned: owned, deleting: m.DeletionTimestamp != nil, tracked: owned && trackedAlone(m.ManagedFields),
	}
}

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

// observedMeta keeps labels and annotations of our own objects only: a foreign
// one costs its identity.
func observedMeta(f *found, m *metav1.ObjectMeta) plan.Meta {
	meta := plan.Meta{
		Name: m.Name, UID: f.uid, ResourceVersion: m.ResourceVersion, Owned: f.owned, Deleting: f.deleting,
	}
	if !f.owned {
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

func foundNamespace(ns *corev1.Namespace) *found {
	f := newFound(plan.KindNamespace, &ns.ObjectMeta, false)
	f.namespace = plan.NamespaceActive
	if f.deleting || ns.Status.Phase == corev1.NamespaceTerminating {
		f.namespace = plan.NamespaceTerminating
	}
	return f
}

func foundService(svc *corev1.Service) *found {
	f := newFound(plan.KindService, &svc.ObjectMeta, plan.OwnedByLabels(plan.KindService, svc.Labels))
	f.service = &plan.ObservedService{Meta: observedMeta(f, &svc.ObjectMeta)}
	if !f.owned {
		return f
	}
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

func foundEndpoints(ep *corev1.Endpoints) *found {
	f := newFound(plan.KindEndpoints, &ep.ObjectMeta, plan.OwnedByLabels(plan.KindEndpoints, ep.Labels))
	f.endpoints = &plan.ObservedEndpoints{Meta: observedMeta(f, &ep.ObjectMeta)}
	if !f.owned {
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

func foundSlice(es *discoveryv1.EndpointSlice) *found {
	f := newFound(plan.KindEndpointSlice, &es.ObjectMeta, plan.OwnedByLabels(plan.KindEndpointSlice, es.Labels))
	f.replica.Name = es.Labels[plan.LabelServiceName]
	f.slice = &plan.ObservedSlice{Meta: observedMeta(f, &es.ObjectMeta)}
	f.slice.Slice.Name = es.Name
	if !f.owned {
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
