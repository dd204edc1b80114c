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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/uid"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Object is one object of the ingress cluster, as a stream or an answer shows it.
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
	// State is that of a namespace.
	State plan.NamespaceState

	// content is the object as protobuf, much smaller than its value: nearly all that the cache holds. Of what
	// is not ours it has metadata that Current shows, of a namespace nothing.
	content []byte
}

// Rest is what else of a current object an update carries on: plan.Meta.Rest holds a pointer to one.
type Rest struct {
	// Spec is that of a Service without ports and selector: what the server has filled in, such as families.
	Spec       *corev1.ServiceSpec
	Finalizers []string
	Owners     []metav1.OwnerReference
}

// Decode converts an object to what is stored of it for an installation; nil for a kind that
// is not stored. It retains no reference to the object.
func Decode(object runtime.Object, instance string) *Object {
	switch in := object.(type) {
	case *corev1.Namespace:
		o, _ := begin(plan.KindNamespace, &in.ObjectMeta, "")
		o.Replica, o.State = syncer.Key{Namespace: in.Name}, plan.NamespaceActive
		if o.Deleting || in.Status.Phase == corev1.NamespaceTerminating {
			o.State = plan.NamespaceTerminating
		}
		return o
	case *corev1.Service:
		o, meta := begin(plan.KindService, &in.ObjectMeta, instance)
		stored := &corev1.Service{ObjectMeta: meta}
		if o.Owned {
			stored.Spec = in.Spec
		}
		return o.with(stored)
	case *corev1.Endpoints:
		o, meta := begin(plan.KindEndpoints, &in.ObjectMeta, instance)
		stored := &corev1.Endpoints{ObjectMeta: meta}
		if o.Owned {
			for _, s := range in.Subsets {
				s.Addresses, s.NotReadyAddresses = slices.Clone(s.Addresses), slices.Clone(s.NotReadyAddresses)
				for _, addresses := range [][]corev1.EndpointAddress{s.Addresses, s.NotReadyAddresses} {
					for i := range addresses {
						addresses[i].TargetRef = shorten(addresses[i].TargetRef, o.Namespace)
					}
				}
				stored.Subsets = append(stored.Subsets, s)
			}
		}
		return o.with(stored)
	case *discoveryv1.EndpointSlice:
		o, meta := begin(plan.KindEndpointSlice, &in.ObjectMeta, instance)
		stored := &discoveryv1.EndpointSlice{ObjectMeta: meta}
		if o.Owned {
			stored.AddressType, stored.Ports, stored.Endpoints = in.AddressType, in.Ports, slices.Clone(in.Endpoints)
		} else {
			o.Replica = syncer.Key{}
			by, of := in.Labels[syncer.LabelSliceManagedBy], in.Labels[syncer.LabelServiceName]
			if of != "" && by != syncer.SliceComputed && by != syncer.SliceMirrored {
				o.Replica = syncer.Key{Namespace: o.Namespace, Name: of}
			}
		}
		for i := range stored.Endpoints {
			stored.Endpoints[i].TargetRef = shorten(stored.Endpoints[i].TargetRef, o.Namespace)
		}
		return o.with(stored)
	}
	return nil
}

// begin returns what all kinds have, and the metadata that is stored.
func begin(kind plan.Kind, in *metav1.ObjectMeta, instance string) (*Object, metav1.ObjectMeta) {
	key := syncer.Key{Namespace: unique.Make(in.Namespace).Value(), Name: in.Name}
	meta := metav1.ObjectMeta{ResourceVersion: in.ResourceVersion}
	o := &Object{
		Object: plan.Object{Kind: kind, Namespace: key.Namespace, Name: key.Name}, Replica: key,
		UID: string(in.UID), Revision: kube.Revision(in.ResourceVersion), Deleting: in.DeletionTimestamp != nil,
	}
	if replica, owned := plan.Owned(kind, key, in.Labels, in.Annotations, instance); owned {
		o.Replica, o.Owned = replica, true
		meta.Labels, meta.Annotations, meta.Finalizers, meta.OwnerReferences = in.Labels, in.Annotations, in.Finalizers, in.OwnerReferences
	} else if of, ok := in.Labels[syncer.LabelInstance]; ok {
		meta.Labels = map[string]string{syncer.LabelInstance: of}
	}
	return o, meta
}

// with sets the content.
func (o *Object) with(in kube.Object) *Object {
	o.content, _ = in.Marshal() // it does not fail for what was decoded
	return o
}

// shortened is the APIVersion, which nobody else reads, of a reference that was shortened.
const shortened = "-"

// shorten leaves out of a reference what nearly all have in common, a pod of the object's namespace, and makes 16
// bytes of its UID: a sixth of what the cache would hold otherwise.
func shorten(ref *corev1.ObjectReference, namespace string) *corev1.ObjectReference {
	if ref == nil {
		return nil
	}
	if id, plain := uid.Pack(string(ref.UID)); plain && ref.UID != "" && ref.Kind == "Pod" && ref.Namespace == namespace {
		return &corev1.ObjectReference{APIVersion: shortened, Name: ref.Name, UID: types.UID(id[:])}
	}
	return &corev1.ObjectReference{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

func targetRef(r *corev1.ObjectReference, namespace string) syncer.TargetRef {
	switch {
	case r == nil:
		return syncer.TargetRef{}
	case r.APIVersion == shortened:
		id := uid.Packed([]byte(r.UID))
		text := id.Append(make([]byte, 0, uid.Length))
		return syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: namespace, Name: r.Name}, UID: string(text)}
	}
	return syncer.TargetRef{Kind: r.Kind, Key: syncer.Key{Namespace: r.Namespace, Name: r.Name}, UID: string(r.UID)}
}

// read decodes the content, and returns what all kinds have.
func (o *Object) read(in kube.Object) (plan.Meta, *Rest) {
	_ = in.Unmarshal(o.content) // it comes from Marshal
	rest := &Rest{Finalizers: in.GetFinalizers(), Owners: in.GetOwnerReferences()}
	return plan.Meta{
		UID: o.UID, ResourceVersion: in.GetResourceVersion(), Owned: o.Owned, Deleting: o.Deleting,
		Labels: syncer.LabelsOf(in.GetLabels()), Annotations: in.GetAnnotations(), Rest: rest,
	}, rest
}

// service is the value of a Service; nil: it is not there.
func (o *Object) service() *plan.Service {
	if o == nil || o.Gone {
		return nil
	}
	var in corev1.Service
	meta, rest := o.read(&in)
	s := &plan.Service{Meta: meta, ClusterIP: in.Spec.ClusterIP, HasSelector: len(in.Spec.Selector) > 0}
	for _, p := range in.Spec.Ports {
		s.Ports = append(s.Ports, syncer.ServicePort{
			Name: p.Name, Protocol: protocol(p.Protocol), Port: p.Port, AppProtocol: syncer.AppProtocolOf(p.AppProtocol), Target: target(p.TargetPort),
		})
	}
	in.Spec.Ports, in.Spec.Selector, rest.Spec = nil, nil, &in.Spec
	return s
}

func target(t intstr.IntOrString) syncer.TargetPort {
	if t.Type == intstr.String {
		return syncer.TargetPort{Name: t.StrVal}
	}
	return syncer.TargetPort{Number: t.IntVal}
}

func protocol(p corev1.Protocol) string { return cmp.Or(string(p), syncer.TCP) }

// endpoints is the value of an Endpoints; nil: it is not there.
func (o *Object) endpoints() *plan.Endpoints {
	if o == nil || o.Gone {
		return nil
	}
	var in corev1.Endpoints
	meta, _ := o.read(&in)
	e := &plan.Endpoints{Meta: meta, Subsets: make([]syncer.Subset, len(in.Subsets))}
	for i, s := range in.Subsets {
		e.Subsets[i] = syncer.Subset{Ready: addresses(s.Addresses, o.Namespace), NotReady: addresses(s.NotReadyAddresses, o.Namespace)}
		for _, p := range s.Ports {
			port := syncer.Port{Name: p.Name, Protocol: protocol(p.Protocol), Number: p.Port, AppProtocol: syncer.AppProtocolOf(p.AppProtocol)}
			e.Subsets[i].Ports = append(e.Subsets[i].Ports, port)
		}
	}
	return e
}

// addresses leaves an address invalid where its text is: it then differs from every wanted one.
func addresses(in []corev1.EndpointAddress, namespace string) []syncer.Address {
	out := slices.Grow([]syncer.Address(nil), len(in))
	for i := range in {
		a := &in[i]
		addr, _ := netip.ParseAddr(a.IP)
		out = append(out, syncer.Address{Addr: addr, Hostname: a.Hostname, NodeName: ptr.Deref(a.NodeName, ""), Target: targetRef(a.TargetRef, namespace)})
	}
	return out
}

// slice is the value of a slice.
func (o *Object) slice() plan.Slice {
	var in discoveryv1.EndpointSlice
	meta, rest := o.read(&in)
	s := plan.Slice{Meta: meta, Slice: syncer.Slice{Name: o.Name, Family: syncer.Family(in.AddressType)}}
	rest.Owners = nil
	for _, owner := range in.OwnerReferences {
		if owner.Kind == "Service" && owner.APIVersion == "v1" {
			s.Owner = string(owner.UID)
		} else {
			rest.Owners = append(rest.Owners, owner)
		}
	}
	s.Ports = make([]syncer.Port, len(in.Ports))
	for i, p := range in.Ports {
		s.Malformed = s.Malformed || p.Name == nil || p.Protocol == nil || p.Port == nil
		s.Ports[i] = syncer.Port{
			Name: ptr.Deref(p.Name, ""), Protocol: string(ptr.Deref(p.Protocol, "")), Number: ptr.Deref(p.Port, 0), AppProtocol: syncer.AppProtocolOf(p.AppProtocol),
		}
	}
	reserve := strings.Split(in.Annotations[syncer.AnnotationReserve], ",")
	s.Endpoints = make([]syncer.Endpoint, len(in.Endpoints))
	for i := range in.Endpoints {
		e, ok := endpoint(&in.Endpoints[i], o.Namespace)
		e.Grade = e.PublishedGrade(reserve[0] == syncer.ReserveAll || slices.Contains(reserve, e.Addr.String()))
		s.Endpoints[i], s.Malformed = e, s.Malformed || !ok
	}
	return s
}

// endpoint returns ok false for what no slice of ours has.
func endpoint(in *discoveryv1.Endpoint, namespace string) (e syncer.Endpoint, ok bool) {
	c := &in.Conditions
	ok = c.Ready != nil && c.Serving != nil && c.Terminating != nil &&
		len(in.Addresses) == 1 && len(in.DeprecatedTopology) == 0 && in.Hints == nil
	if len(in.Addresses) > 0 {
		addr, err := netip.ParseAddr(in.Addresses[0])
		e.Addr = addr
		ok = ok && err == nil && addr.String() == in.Addresses[0]
	}
	e.Ready, e.Serving, e.Terminating = ptr.Deref(c.Ready, false), ptr.Deref(c.Serving, false), ptr.Deref(c.Terminating, false)
	e.Hostname, e.NodeName, e.Zone = ptr.Deref(in.Hostname, ""), ptr.Deref(in.NodeName, ""), ptr.Deref(in.Zone, "")
	e.Target = targetRef(in.TargetRef, namespace)
	return e, ok
}
