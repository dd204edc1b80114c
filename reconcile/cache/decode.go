// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package cache

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Object is one object of the ingress cluster, as a stream or an answer shows it. One of
// Service, Endpoints and Slice is set, none for a namespace and for what is gone.
type Object struct {
	plan.Object
	// Replica is the replica that it belongs to: that in its annotation for what is ours, else
	// its own name or the one that a slice names. Zero for an object of none. For a namespace
	// it has no name: all replicas in it are concerned.
	Replica syncer.Key
	UID     string
	// Revision is the resourceVersion as a number.
	Revision uint64
	// Gone is true of what is known not to exist any more.
	Gone bool

	Owned, Deleting bool
	Service         *plan.Service
	Endpoints       *plan.Endpoints
	Slice           *plan.Slice
	// State is that of a namespace.
	State plan.NamespaceState

	// packed are annotations and endpoints of a cached object, whose Slice or Endpoints lacks them.
	packed string
}

// Rest is what else of a current object an update carries on: plan.Meta.Rest holds one, or nil
// where there is nothing.
type Rest struct {
	// Spec is that of a Service without ports and selector, as protobuf: what the server has
	// filled in, such as families. Nearly all Services share one.
	Spec       unique.Handle[string]
	Finalizers []string
	Owners     []metav1.OwnerReference
}

// Former is the Spec as a value.
func (r *Rest) Former() (spec corev1.ServiceSpec) {
	if r.Spec != (unique.Handle[string]{}) {
		_ = spec.Unmarshal([]byte(r.Spec.Value())) // it comes from Marshal
	}
	return spec
}

// Decode converts an object to what is stored of it for an installation; nil for a kind that
// is not stored. It retains no reference to the object.
func Decode(object runtime.Object, instance string) *Object {
	switch in := object.(type) {
	case *corev1.Namespace:
		return namespace(in)
	case *corev1.Service:
		return service(in, instance)
	case *corev1.Endpoints:
		return endpoints(in, instance)
	case *discoveryv1.EndpointSlice:
		return slice(in, instance)
	}
	return nil
}

// begin returns what all kinds have.
func begin(kind plan.Kind, in *metav1.ObjectMeta, instance string) (*Object, plan.Meta) {
	o := &Object{
		Object: plan.Object{Kind: kind, Namespace: shared(in.Namespace), Name: in.Name},
		UID:    string(in.UID), Revision: kube.Revision(in.ResourceVersion), Deleting: in.DeletionTimestamp != nil,
	}
	key := syncer.Key{Namespace: o.Namespace, Name: in.Name}
	o.Replica, o.Owned = plan.Owned(kind, key, in.Labels, in.Annotations, instance)
	m := plan.Meta{UID: o.UID, ResourceVersion: in.ResourceVersion, Owned: o.Owned, Deleting: o.Deleting}
	if !o.Owned {
		if o.Replica = key; kind == plan.KindEndpointSlice {
			o.Replica = syncer.Key{}
		}
		if of, ok := in.Labels[syncer.LabelInstance]; ok {
			m.Labels = shared(syncer.LabelsOf(map[string]string{syncer.LabelInstance: of}))
		}
		return o, m
	}
	m.Labels = shared(syncer.LabelsOf(in.Labels))
	m.Annotations = make(map[string]string, len(in.Annotations))
	for key, value := range in.Annotations {
		m.Annotations[shared(key)] = value
	}
	rest := Rest{Finalizers: slices.Clone(in.Finalizers)}
	for _, owner := range in.OwnerReferences {
		if kind != plan.KindEndpointSlice || !isService(&owner) {
			rest.Owners = append(rest.Owners, owner)
		}
	}
	if len(rest.Finalizers)+len(rest.Owners) > 0 {
		m.Rest = &rest
	}
	return o, m
}

func isService(o *metav1.OwnerReference) bool { return o.Kind == "Service" && o.APIVersion == "v1" }

func namespace(in *corev1.Namespace) *Object {
	o, _ := begin(plan.KindNamespace, &in.ObjectMeta, "")
	o.Replica = syncer.Key{Namespace: in.Name}
	o.State = plan.NamespaceActive
	if o.Deleting || in.Status.Phase == corev1.NamespaceTerminating {
		o.State = plan.NamespaceTerminating
	}
	return o
}

func service(in *corev1.Service, instance string) *Object {
	o, m := begin(plan.KindService, &in.ObjectMeta, instance)
	o.Service = &plan.Service{Meta: m, ClusterIP: in.Spec.ClusterIP, HasSelector: len(in.Spec.Selector) > 0}
	if !o.Owned {
		o.Service.ClusterIP = ""
		return o
	}
	rest, _ := m.Rest.(*Rest)
	if rest == nil {
		rest = &Rest{}
	}
	spec := in.Spec
	spec.Ports, spec.Selector = nil, nil
	if data, err := spec.Marshal(); err == nil {
		rest.Spec = unique.Make(string(data))
	}
	o.Service.Rest = rest
	o.Service.Ports = make([]syncer.ServicePort, len(in.Spec.Ports))
	for i, p := range in.Spec.Ports {
		o.Service.Ports[i] = syncer.ServicePort{Name: shared(p.Name), Protocol: protocol(p.Protocol), Port: p.Port, AppProtocol: p.AppProtocol, Target: target(p.TargetPort)}
	}
	return o
}

func target(t intstr.IntOrString) syncer.TargetPort {
	if t.Type == intstr.String {
		return syncer.TargetPort{Name: t.StrVal}
	}
	return syncer.TargetPort{Number: t.IntVal}
}

func protocol(p corev1.Protocol) string { return cmp.Or(shared(string(p)), syncer.TCP) }

func endpoints(in *corev1.Endpoints, instance string) *Object {
	o, m := begin(plan.KindEndpoints, &in.ObjectMeta, instance)
	o.Endpoints = &plan.Endpoints{Meta: m}
	if !o.Owned {
		return o
	}
	o.Endpoints.Subsets = make([]syncer.Subset, len(in.Subsets))
	for i, s := range in.Subsets {
		subset := syncer.Subset{Ready: addresses(s.Addresses), NotReady: addresses(s.NotReadyAddresses)}
		for _, p := range s.Ports {
			subset.Ports = append(subset.Ports, syncer.Port{Name: shared(p.Name), Protocol: protocol(p.Protocol), Number: p.Port, AppProtocol: appProtocol(p.AppProtocol)})
		}
		o.Endpoints.Subsets[i] = subset
	}
	return o
}

// addresses leaves an address invalid where its text is: it then differs from every wanted one.
func addresses(in []corev1.EndpointAddress) []syncer.Address {
	out := slices.Grow([]syncer.Address(nil), len(in))
	for i := range in {
		a := &in[i]
		addr, _ := netip.ParseAddr(a.IP)
		out = append(out, syncer.Address{Addr: addr, Hostname: a.Hostname, NodeName: shared(ptr.Deref(a.NodeName, "")), Target: targetRef(a.TargetRef)})
	}
	return out
}

func targetRef(r *corev1.ObjectReference) syncer.TargetRef {
	if r == nil {
		return syncer.TargetRef{}
	}
	return syncer.TargetRef{Kind: shared(r.Kind), Key: syncer.Key{Namespace: shared(r.Namespace), Name: r.Name}, UID: string(r.UID)}
}

func appProtocol(p *string) syncer.AppProtocol {
	return syncer.AppProtocol{Value: shared(ptr.Deref(p, "")), Set: p != nil}
}

func slice(in *discoveryv1.EndpointSlice, instance string) *Object {
	o, m := begin(plan.KindEndpointSlice, &in.ObjectMeta, instance)
	o.Slice = &plan.Slice{Meta: m, Slice: syncer.Slice{Name: in.Name}}
	if !o.Owned {
		by, of := in.Labels[syncer.LabelSliceManagedBy], in.Labels[syncer.LabelServiceName]
		if of != "" && by != syncer.SliceComputed && by != syncer.SliceMirrored {
			o.Replica = syncer.Key{Namespace: o.Namespace, Name: of}
		}
		return o
	}
	s := o.Slice
	s.Family = syncer.Family(shared(string(in.AddressType)))
	for _, owner := range in.OwnerReferences {
		if isService(&owner) {
			s.Owner = string(owner.UID)
		}
	}
	s.Ports = make([]syncer.Port, len(in.Ports))
	for i, p := range in.Ports {
		s.Malformed = s.Malformed || p.Name == nil || p.Protocol == nil || p.Port == nil
		s.Ports[i] = syncer.Port{
			Name: shared(ptr.Deref(p.Name, "")), Protocol: shared(string(ptr.Deref(p.Protocol, ""))),
			Number: ptr.Deref(p.Port, 0), AppProtocol: appProtocol(p.AppProtocol),
		}
	}
	reserve := strings.Split(in.Annotations[syncer.AnnotationReserve], ",")
	s.Endpoints = make([]syncer.Endpoint, len(in.Endpoints))
	for i := range in.Endpoints {
		e, ok := endpoint(&in.Endpoints[i])
		e.Grade = e.PublishedGrade(reserve[0] == syncer.ReserveAll || slices.Contains(reserve, e.Addr.String()))
		s.Endpoints[i], s.Malformed = e, s.Malformed || !ok
	}
	return o
}

// endpoint returns ok false for what no slice of ours has.
func endpoint(in *discoveryv1.Endpoint) (e syncer.Endpoint, ok bool) {
	c := &in.Conditions
	ok = c.Ready != nil && c.Serving != nil && c.Terminating != nil &&
		len(in.Addresses) == 1 && len(in.DeprecatedTopology) == 0 && in.Hints == nil
	if len(in.Addresses) > 0 {
		addr, err := netip.ParseAddr(in.Addresses[0])
		e.Addr = addr
		ok = ok && err == nil && addr.String() == in.Addresses[0]
	}
	e.Ready, e.Serving, e.Terminating = ptr.Deref(c.Ready, false), ptr.Deref(c.Serving, false), ptr.Deref(c.Terminating, false)
	e.Hostname, e.NodeName, e.Zone = ptr.Deref(in.Hostname, ""), shared(ptr.Deref(in.NodeName, "")), shared(ptr.Deref(in.Zone, ""))
	e.Target = targetRef(in.TargetRef)
	return e, ok
}

// shared is an equal string that all who have it share: for what repeats.
func shared[T ~string](s T) T {
	if s == "" {
		return s
	}
	return unique.Make(s).Value()
}
