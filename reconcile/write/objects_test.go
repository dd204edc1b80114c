// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package write

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// values draws what the API accepts.
type values struct{ *rand.Rand }

func (d values) one(values ...string) string { return values[d.IntN(len(values))] }

func (d values) addr() netip.Addr {
	if d.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{10, byte(d.IntN(256)), byte(d.IntN(256)), byte(d.IntN(256))})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(d.IntN(256)), 15: byte(d.IntN(256))})
}

func (d values) target() syncer.TargetRef {
	if d.IntN(3) == 0 {
		return syncer.TargetRef{}
	}
	return syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: "shop", Name: "p" + strconv.Itoa(d.IntN(99))}, UID: "u" + strconv.Itoa(d.IntN(99))}
}

func (d values) ports() []syncer.Port {
	var out []syncer.Port
	for range d.IntN(3) {
		p := syncer.Port{Name: d.one("", "http", "dns"), Protocol: d.one("TCP", "UDP", "SCTP"), Number: int32(1 + d.IntN(65535))}
		if d.IntN(2) == 0 {
			p.AppProtocol = syncer.AppProtocol{Value: d.one("", "h2c"), Set: true}
		}
		out = append(out, p)
	}
	return out
}

func (d values) addresses() []syncer.Address {
	var out []syncer.Address
	for range d.IntN(4) {
		out = append(out, syncer.Address{Addr: d.addr(), Hostname: d.one("", "web-0"), NodeName: d.one("", "n1"), Target: d.target()})
	}
	return out
}

func (d values) labels(owner, value string) map[string]string {
	return map[string]string{owner: value, "tier": d.one("", "front")}
}

const rounds = 500

// Each kind goes to an object, over the wire and back without a change.

func TestServiceRoundTrip(t *testing.T) {
	d := values{dice.New(t)}
	for range rounds {
		spec := &plan.ServiceSpec{Labels: d.labels(plan.LabelManagedBy, plan.ManagedBy), Annotations: map[string]string{plan.AnnotationReplica: "shop/web"}}
		spec.Ports = []syncer.ServicePort{}
		for range d.IntN(3) {
			p := syncer.ServicePort{Name: d.one("", "http"), Protocol: d.one("TCP", "UDP"), Port: int32(1 + d.IntN(65535))}
			if p.Target = (syncer.TargetPort{Number: int32(1 + d.IntN(65535))}); d.IntN(2) == 0 {
				p.Target = syncer.TargetPort{Name: "web"}
			}
			if d.IntN(2) == 0 {
				p.AppProtocol = new(d.one("", "h2c"))
			}
			spec.Ports = append(spec.Ports, p)
		}
		back := cache.Decoder{}.Service(overTheWire(t, ServiceObject(web, spec, nil, nil, corev1.ServiceSpec{}), &corev1.Service{}))
		got := back.Service
		if !back.MayBeOurs() || !got.Headless || len(got.Selector) != 0 || !reflect.DeepEqual(got.Ports, spec.Ports) ||
			!reflect.DeepEqual(got.Labels, spec.Labels) || !reflect.DeepEqual(got.Annotations, spec.Annotations) {
			t.Fatalf("%+v came back as %+v", spec, got)
		}
	}
}

// An update of a Service repeats what the server filled in and what others put on it,
// and takes away what no replica has; it needs no read before.
func TestServiceUpdateRepeatsWhatTheServerFilledIn(t *testing.T) {
	standing := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: web.Namespace, Name: web.Name, UID: "uid-1", ResourceVersion: "7", Finalizers: []string{"example.com/wait"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "uid-2"}},
			Labels:          map[string]string{plan.LabelManagedBy: plan.ManagedBy, plan.LabelInstance: plan.DefaultInstance},
			Annotations:     map[string]string{plan.AnnotationReplica: "shop/web"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone},
			IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack),
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster), SessionAffinity: corev1.ServiceAffinityClientIP,
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	found := cache.Decoder{}.Service(standing)
	spec := &plan.ServiceSpec{Labels: map[string]string{"new": "yes"}, Ports: []syncer.ServicePort{{Name: "http", Protocol: "TCP", Port: 81, Target: syncer.TargetPort{Number: 8080}}}}
	got := ServiceObject(web, spec, &found.Service.Meta, found.Kept, found.Spec())

	want := standing.DeepCopy()
	want.Labels, want.Annotations = spec.Labels, nil
	want.Spec.Selector, want.Spec.SessionAffinity = nil, corev1.ServiceAffinityNone
	want.Spec.Ports = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 81, TargetPort: intstr.FromInt32(8080)}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sent is\n%+v, want\n%+v", got, want)
	}
	if standing.Spec.Selector == nil || len(standing.Spec.Ports) != 1 || standing.Spec.Ports[0].Port != 80 {
		t.Errorf("what the watch showed was changed: %+v", standing.Spec)
	}
}

func TestEndpointsRoundTrip(t *testing.T) {
	d := values{dice.New(t)}
	for range rounds {
		spec := &plan.EndpointsSpec{Labels: d.labels(plan.LabelManagedBy, plan.ManagedBy), Subsets: []syncer.Subset{}}
		if d.IntN(2) == 0 {
			spec.Trigger = time.Unix(int64(d.IntN(1<<31)), 0).UTC()
		}
		for range d.IntN(4) {
			spec.Subsets = append(spec.Subsets, syncer.Subset{Ready: d.addresses(), NotReady: d.addresses(), Ports: d.ports()})
		}
		got := cache.Decoder{}.Endpoints(overTheWire(t, EndpointsObject(web, spec, nil, nil), &corev1.Endpoints{})).Endpoints
		if !reflect.DeepEqual(got.Subsets, spec.Subsets) || !got.Trigger.Equal(spec.Trigger) || got.Claim != plan.ClaimMarked {
			t.Fatalf("%+v came back as %+v", spec, got)
		}
	}
}

func TestSliceRoundTrip(t *testing.T) {
	d := values{dice.New(t)}
	for range rounds {
		labels := d.labels(plan.LabelSliceManagedBy, plan.SliceManagedBy)
		labels[plan.LabelServiceName], labels[plan.LabelSourceCluster] = web.Name, "a"
		spec := &plan.SliceSpec{Cluster: "a", Labels: labels}
		spec.Slice = syncer.Slice{Name: "web-a-0", Family: syncer.IPv4, Ports: append([]syncer.Port{}, d.ports()...), Endpoints: []syncer.Endpoint{}}
		for range d.IntN(4) {
			spec.Endpoints = append(spec.Endpoints, syncer.Endpoint{
				Addr: d.addr(), Ready: d.IntN(2) == 0, Serving: d.IntN(2) == 0, Terminating: d.IntN(2) == 0,
				Hostname: d.one("", "web-0"), NodeName: d.one("", "n1"), Zone: d.one("", "z"), Target: d.target(),
			})
		}
		back := cache.Decoder{}.Slice(overTheWire(t, SliceObject(web, "uid-1", spec, nil, nil), &discoveryv1.EndpointSlice{}))
		got := back.Slice
		if !reflect.DeepEqual(got.Slice, spec.Slice) || got.Cluster != "a" || got.Malformed || got.OwnerUID != "uid-1" ||
			back.Replica != web || back.Kept != nil {
			t.Fatalf("%+v came back as %+v", spec, got)
		}
	}
}

func overTheWire[T any](t *testing.T, in, out T) T {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMalformedSlicesAreNoticed(t *testing.T) {
	good := func() *discoveryv1.EndpointSlice {
		spec := &plan.SliceSpec{Labels: map[string]string{plan.LabelSliceManagedBy: plan.SliceManagedBy}}
		spec.Slice = syncer.Slice{
			Name: "web-a-0", Family: syncer.IPv4, Ports: []syncer.Port{{Name: "http", Protocol: "TCP", Number: 80}},
			Endpoints: []syncer.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Ready: true, Serving: true}},
		}
		return SliceObject(web, "uid", spec, nil, nil)
	}
	if (cache.Decoder{}).Slice(good()).Slice.Malformed {
		t.Fatal("what we write counts as malformed")
	}
	for name, damage := range map[string]func(*discoveryv1.EndpointSlice){
		"no port name":     func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = nil },
		"no port protocol": func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = nil },
		"no port number":   func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil },
		"no ready":         func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = nil },
		"no serving":       func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Serving = nil },
		"no terminating":   func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Terminating = nil },
		"no address":       func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = nil },
		"two addresses":    func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.0.0.1", "10.0.0.2"} },
		"a name":           func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"example.com"} },
		"not canonical":    func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"fd00:0::1"} },
		"hints":            func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints = &discoveryv1.EndpointHints{} },
		"topology":         func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].DeprecatedTopology = map[string]string{"a": "b"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			damage(s)
			hints := name == "hints"
			if got := (cache.Decoder{}).Slice(s).Slice; got.Malformed == hints || got.Hinted != hints {
				t.Errorf("malformed %t, hinted %t", got.Malformed, got.Hinted)
			}
		})
	}
}

// A foreign object costs its identity and nothing else.
func TestForeignObjectsAreKeptSmall(t *testing.T) {
	m := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7", Labels: map[string]string{plan.LabelServiceName: "web"},
		Annotations: map[string]string{"a": "b"}, Finalizers: []string{"f"},
	}
	want := plan.Meta{Name: "web", UID: "u", ResourceVersion: "7"}
	svc := cache.Decoder{}.Service(&corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 1, TargetPort: intstr.FromInt32(1)}}}})
	ep := cache.Decoder{}.Endpoints(&corev1.Endpoints{ObjectMeta: m, Subsets: []corev1.EndpointSubset{{}}})
	es := cache.Decoder{}.Slice(&discoveryv1.EndpointSlice{ObjectMeta: m, Endpoints: []discoveryv1.Endpoint{{}}})
	if !reflect.DeepEqual(*svc.Service, plan.CurrentService{Meta: want}) || svc.Kept != nil {
		t.Errorf("Service %+v", svc.Service)
	}
	if !reflect.DeepEqual(*ep.Endpoints, plan.CurrentEndpoints{Meta: want}) {
		t.Errorf("Endpoints %+v", ep.Endpoints)
	}
	if !reflect.DeepEqual(es.Slice.Meta, want) || es.Slice.Endpoints != nil || es.Replica != web {
		t.Errorf("slice %+v", es.Slice)
	}
}
