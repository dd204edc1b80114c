// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

//lint:file-ignore SA1019 core/v1 Endpoints are what members hold

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

func TestDecodePod(t *testing.T) {
	at := metav1.NewTime(time.Unix(1700000000, 0))
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1", ResourceVersion: "17"}
	base := syncer.Pod{Key: syncer.Key{Namespace: "shop", Name: "web-1"}, UID: "u1"}
	addr := func(texts ...string) (ips []syncer.PodIP) {
		for _, text := range texts {
			ips = append(ips, syncer.PodIP{Addr: netip.MustParseAddr(text)})
		}
		return ips
	}
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: at}
	}
	tests := []struct {
		name string
		pod  func(*corev1.Pod)
		want func(*syncer.Pod)
	}{
		{"nothing but metadata", func(*corev1.Pod) {}, func(*syncer.Pod) {}},
		{"podIPs in their order", func(p *corev1.Pod) {
			p.Status.PodIP, p.Status.PodIPs = "10.0.0.9", []corev1.PodIP{{IP: "fd00::1"}, {IP: "10.0.0.1"}}
		}, func(p *syncer.Pod) { p.IPs = addr("fd00::1", "10.0.0.1") }},
		{"podIP where podIPs is empty, as servers before dual stack send it", func(p *corev1.Pod) {
			p.Status.PodIP = "10.0.0.9"
		}, func(p *syncer.Pod) { p.IPs = addr("10.0.0.9") }},
		{"odd spellings", func(p *corev1.Pod) {
			p.Status.PodIPs = []corev1.PodIP{{IP: "010.001.01.1"}, {IP: "::ffff:10.0.0.2"}, {IP: "FD00:0:0::1"}}
		}, func(p *syncer.Pod) { p.IPs = addr("10.1.1.1", "10.0.0.2", "fd00::1") }},
		{"what is no address is stored as text", func(p *corev1.Pod) {
			p.Status.PodIPs = []corev1.PodIP{{IP: "<nil>"}, {IP: "fe80::1%eth0"}, {IP: ""}, {IP: "10.0.0.256"}, {IP: strings.Repeat("1", 1<<20)}}
		}, func(p *syncer.Pod) {
			p.IPs = []syncer.PodIP{{Raw: "<nil>"}, {Raw: "fe80::1%eth0"}, {}, {Raw: "10.0.0.256"}, {Raw: strings.Repeat("1", maxRaw)}}
		}},
		{"named ports: containers, then sidecars; unnamed ones and other init containers are left out", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{
				{Ports: []corev1.ContainerPort{{Name: "init", ContainerPort: 1}}},
				{RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 2, Protocol: "UDP"}}},
				{RestartPolicy: new(corev1.ContainerRestartPolicy("Never")), Ports: []corev1.ContainerPort{{Name: "never", ContainerPort: 3}}},
			}
			p.Spec.Containers = []corev1.Container{
				{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 4}, {ContainerPort: 5}}},
				{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 6, Protocol: "SCTP"}}},
			}
		}, func(p *syncer.Pod) {
			p.Ports = []syncer.ContainerPort{{Name: "web", Protocol: "TCP", Port: 4}, {Name: "web", Protocol: "SCTP", Port: 6}, {Name: "side", Protocol: "UDP", Port: 2}}
		}},
		{"node, hostname, subdomain", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.Hostname, p.Spec.Subdomain = "n1", "h", "sub"
		}, func(p *syncer.Pod) { p.NodeName, p.Hostname, p.Subdomain = "n1", "h", "sub" }},
		{"ready", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionTrue, ""), condition(corev1.PodReady, corev1.ConditionFalse, "")}
		}, func(p *syncer.Pod) { p.Ready, p.ReadySince = true, 1700000000 }},
		{"unknown is not ready", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionUnknown}}
		}, func(*syncer.Pod) {}},
		{"deleted at the epoch is deleted", func(p *corev1.Pod) {
			p.DeletionTimestamp = new(metav1.NewTime(time.Unix(0, 0)))
		}, func(p *syncer.Pod) { p.Terminating = true }},
		{"labels, of which those that no API server takes are left out", func(p *corev1.Pod) {
			p.Labels = map[string]string{"b": "2", "a": "", "c": "x,y"}
		}, func(p *syncer.Pod) { p.Labels = "a=,b=2" }},
		{"the node's address", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, func(p *syncer.Pod) { p.HostNetwork = true }},
		{"rules", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "matched" }, func(p *syncer.Pod) { p.Matches = 5 }},
		{"failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, func(p *syncer.Pod) { p.Terminal = true }},
		{"succeeded", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, func(p *syncer.Pod) { p.Terminal = true }},
		{"unknown phase", func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }, func(*syncer.Pod) {}},
		{"marked by the node controller", func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, ""),
				condition(corev1.ContainersReady, corev1.ConditionTrue, ""), condition("gate", corev1.ConditionTrue, "")}
		}, func(p *syncer.Pod) { p.NodeSilent, p.ReadySince = true, 1700000000 }},
		{"marked by the kubelet: a reason", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"),
				condition(corev1.ContainersReady, corev1.ConditionTrue, "")}
		}, func(p *syncer.Pod) { p.ReadySince = 1700000000 }},
		{"marked by the kubelet: containers are not ready", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, ""),
				condition(corev1.ContainersReady, corev1.ConditionFalse, "")}
		}, func(p *syncer.Pod) { p.ReadySince = 1700000000 }},
		{"nobody says that containers are ready", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, "")}
		}, func(p *syncer.Pod) { p.ReadySince = 1700000000 }},
		{"a readiness gate objects", func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, ""),
				condition(corev1.ContainersReady, corev1.ConditionTrue, "")}
		}, func(p *syncer.Pod) { p.ReadySince = 1700000000 }},
	}
	d := New(Options{Match: func(p *corev1.Pod) uint64 {
		if p.Spec.ServiceAccountName == "matched" {
			return 5
		}
		return 0
	}})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod, want := &corev1.Pod{ObjectMeta: *meta.DeepCopy()}, base
			test.pod(pod)
			test.want(&want)
			for range 2 { // the second time from the shared copies
				if got := d.Pod(pod); !reflect.DeepEqual(got.Object, want) || got.Revision != 17 {
					t.Errorf("got  %#v\nwant %#v", got, want)
				}
			}
		})
	}
}

func TestDecodeService(t *testing.T) {
	d := New(Options{Keep: func(key string) bool { return key == "keep.me" }})
	got := d.Service(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "x", CreationTimestamp: metav1.NewTime(time.Unix(5, 0)),
			Labels:      map[string]string{"a": "b"},
			Annotations: map[string]string{"tributary.dev/replicate": "true", "keep.me": "1", "drop.me": strings.Repeat("x", 1<<18)}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{}, ClusterIP: "None", PublishNotReadyAddresses: true,
			IPFamilies: []corev1.IPFamily{"IPv6", "IPv4"}, Type: corev1.ServiceTypeExternalName,
			Ports: []corev1.ServicePort{
				{Port: 80}, {Name: "n", Port: 81, Protocol: "UDP", TargetPort: intstr.FromInt32(8081), AppProtocol: new("h2c")},
				{Port: 82, TargetPort: intstr.FromString("http")}, {Port: 83, TargetPort: intstr.FromString("")}, {Port: 84, TargetPort: intstr.FromString("84")},
			},
		},
	})
	want := syncer.Service{
		Key: syncer.Key{Namespace: "shop", Name: "web"}, UID: "u", Created: 5, Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"tributary.dev/replicate": "true", "keep.me": "1"},
		Selector:    map[string]string{}, ClusterIP: "None", PublishNotReadyAddresses: true, ExternalName: true,
		IPFamilies: []syncer.Family{syncer.IPv6, syncer.IPv4},
		Ports: []syncer.ServicePort{
			{Protocol: "TCP", Port: 80, Target: syncer.TargetPort{Number: 80}},
			{Name: "n", Protocol: "UDP", Port: 81, Target: syncer.TargetPort{Number: 8081}, AppProtocol: syncer.AppProtocol{Value: "h2c", Set: true}},
			{Protocol: "TCP", Port: 82, Target: syncer.TargetPort{Name: "http"}},
			{Protocol: "TCP", Port: 83, Target: syncer.TargetPort{Number: 83}},
			{Protocol: "TCP", Port: 84, Target: syncer.TargetPort{Name: "84"}},
		},
	}
	if !reflect.DeepEqual(got.Object, want) || got.Revision != 0 {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	if d.Service(&corev1.Service{}).Object.Selector != nil {
		t.Error("a missing selector is not nil")
	}
}

func TestDecodeEndpoints(t *testing.T) {
	d := New(Options{})
	got := d.Endpoints(&corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", ResourceVersion: "3"},
		Subsets: []corev1.EndpointSubset{{
			Addresses:         []corev1.EndpointAddress{{IP: "10.0.0.1", Hostname: "h", NodeName: new("n"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "p", UID: "u"}}, {IP: "x"}},
			NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.2"}},
			Ports:             []corev1.EndpointPort{{Name: "sql", Port: 5432, AppProtocol: new("tcp")}, {Port: 1, Protocol: "UDP"}},
		}},
	})
	want := store.HandEndpoints{Key: syncer.Key{Namespace: "shop", Name: "db"}, Subsets: []syncer.Subset{{
		Ready: []syncer.Address{{Addr: netip.MustParseAddr("10.0.0.1"), Hostname: "h", NodeName: "n",
			Target: syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: "shop", Name: "p"}, UID: "u"}}, {}},
		NotReady: []syncer.Address{{Addr: netip.MustParseAddr("10.0.0.2")}},
		Ports:    []syncer.Port{{Name: "sql", Protocol: "TCP", Number: 5432, AppProtocol: syncer.AppProtocol{Value: "tcp", Set: true}}, {Protocol: "UDP", Number: 1}},
	}}}
	if !reflect.DeepEqual(got, store.Versioned[store.HandEndpoints]{Object: want, Revision: 3}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, test := range []struct {
		name string
		meta metav1.ObjectMeta
		want bool
	}{
		{"plain", metav1.ObjectMeta{}, false},
		{"label", metav1.ObjectMeta{Labels: map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"}}, true},
		{"label of another value", metav1.ObjectMeta{Labels: map[string]string{"endpointslice.kubernetes.io/skip-mirror": "yes"}}, false},
		{"lock", metav1.ObjectMeta{Annotations: map[string]string{"control-plane.alpha.kubernetes.io/leader": ""}}, true},
	} {
		if got := d.Endpoints(&corev1.Endpoints{ObjectMeta: test.meta}); got.Object.SkipMirror != test.want {
			t.Errorf("%s: skip mirror is %v", test.name, got.Object.SkipMirror)
		}
	}
}

func TestDecodeSlice(t *testing.T) {
	d := New(Options{})
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "db-1", ResourceVersion: "3", Labels: map[string]string{"kubernetes.io/service-name": "db"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{}, {Name: new("sql"), Protocol: new(corev1.ProtocolUDP), Port: new(int32(1)), AppProtocol: new("")}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1", "10.0.0.2"}},
			{Addresses: []string{"bad"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}, NodeName: new("n"), Zone: new("z"), Hostname: new("h"), TargetRef: &corev1.ObjectReference{Kind: "VM"}},
			{Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
			{Addresses: []string{"10.0.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}},
		},
	}
	ports := []syncer.Port{{Protocol: "TCP"}, {Name: "sql", Protocol: "UDP", Number: 1, AppProtocol: syncer.AppProtocol{Set: true}}}
	want := store.HandSlice{Key: syncer.Key{Namespace: "shop", Name: "db-1"}, Service: "db", Content: syncer.Slice{
		Name: "db-1", Family: syncer.IPv4, Ports: ports,
		Endpoints: []syncer.Endpoint{
			{Addr: netip.MustParseAddr("10.0.0.1"), Ports: ports, Ready: true, Serving: true},
			{Addr: netip.MustParseAddr("10.0.0.2"), Ports: ports, Ready: true, Serving: true},
			{Ports: ports, NodeName: "n", Zone: "z", Hostname: "h", Target: syncer.TargetRef{Kind: "VM"}},
			{Addr: netip.MustParseAddr("10.0.0.3"), Ports: ports, Serving: true, Terminating: true},
		},
	}}
	if got := d.Slice(slice); !reflect.DeepEqual(got, store.Versioned[store.HandSlice]{Object: want, Revision: 3}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for manager, derived := range map[string]bool{"": false, "me": false, "endpointslice-controller.k8s.io": true, "endpointslicemirroring-controller.k8s.io": true, "tributary.dev": true} {
		slice.Labels["endpointslice.kubernetes.io/managed-by"] = manager
		if got := d.Slice(slice).Object; got.Derived != derived || derived == (len(got.Content.Endpoints) > 0) {
			t.Errorf("managed by %q: %+v", manager, got)
		}
	}
}

// TestDecoderShares checks that what repeats is shared, that what does not is
// right all the same when slots collide, and that the object is not retained.
func TestDecoderShares(t *testing.T) {
	d := New(Options{})
	a, b := d.Pod(overTheWire(t, realisticPod("shop", 1, 1))).Object, d.Pod(overTheWire(t, realisticPod("shop", 1, 2))).Object
	if unsafe.StringData(string(a.Labels)) != unsafe.StringData(string(b.Labels)) || &a.Ports[0] != &b.Ports[0] {
		t.Error("pods of one template do not share labels and ports")
	}
	for i := range 10 * stringSlots {
		text := fmt.Sprint(i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{text: text}}}
		pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: text, ContainerPort: int32(i)}}}}
		got := d.Pod(pod).Object
		pod.Labels[text] = "changed"
		if got.Labels.Get(text) != text || got.Ports[0].Name != text || got.Ports[0].Port != int32(i) {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	long := map[string]string{"a": strings.Repeat("x", longestShared)}
	if got := d.Pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: long}}).Object.Labels; got != syncer.LabelsOf(long) {
		t.Errorf("%d bytes of labels", len(got))
	}
}

// TestWritten: when the API server last accepted a change.
func TestWritten(t *testing.T) {
	at := func(second int64) *metav1.Time { return new(metav1.NewTime(time.Unix(second, 0))) }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Time: at(5)}, {Time: at(9)}, {}, {Time: at(7)}}}}
	d := New(Options{})
	if got := d.Pod(pod).Written; got != 9 {
		t.Errorf("written at %d, want 9", got)
	}
	if got := d.Pod(&corev1.Pod{}).Written; got != 0 {
		t.Errorf("written at %d, and nothing says so", got)
	}
}
