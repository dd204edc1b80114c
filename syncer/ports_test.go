// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"testing"
	"unsafe"
)

func portNamed(name, protocol string, number int32) ContainerPort {
	return ContainerPort{Name: name, Protocol: protocol, Port: number}
}

// TestTargetPort is how a Service port finds its number in a pod. What of a
// container becomes a ContainerPort (sidecars, order) is the store's matter.
func TestTargetPort(t *testing.T) {
	for _, c := range []struct {
		name   string
		target ServicePort
		ports  []ContainerPort
		want   string
	}{
		{"a number, pod without ports", numbered("p", 1, 93), nil, "p:93/TCP"},
		{"a number that the pod does not name", numbered("p", 1, 93), []ContainerPort{portNamed("", TCP, 11)}, "p:93/TCP"},
		{"a name, pod without ports", named("p", 1, "web"), nil, ""},
		{"a name", named("p", 1, "web"), []ContainerPort{portNamed("other", TCP, 11), portNamed("web", TCP, 33)}, "p:33/TCP"},
		{"a name in two containers: the first", named("p", 1, "web"), []ContainerPort{portNamed("web", TCP, 22), portNamed("web", TCP, 33)}, "p:22/TCP"},
		{"a name with another protocol", named("p", 1, "web"), []ContainerPort{portNamed("web", SCTP, 33)}, ""},
		{"a name of which the second has the protocol", named("p", 1, "web"), []ContainerPort{portNamed("web", UDP, 33), portNamed("web", TCP, 44)}, "p:44/TCP"},
		{"protocols left out are TCP", ServicePort{Name: "p", Target: TargetPort{Name: "web"}}, []ContainerPort{portNamed("web", "", 33)}, "p:33/TCP"},
		{"a name that resolves to no port number", named("p", 1, "web"), []ContainerPort{portNamed("web", TCP, -1), portNamed("web", TCP, 44)}, ""},
		{"the highest number", named("p", 1, "web"), []ContainerPort{portNamed("web", TCP, 65535)}, "p:65535/TCP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ports, ok := newPortResolver(newService(servicePorts(c.target))).resolve(newPod("a", "10.0.0.1", withPorts(c.ports...)))
			got := ""
			if ok {
				got = ports[0].String()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestPortsOfEachProtocol(t *testing.T) {
	for _, protocol := range []string{TCP, UDP, SCTP} {
		port := numbered("p", 80, 8080)
		port.Protocol = protocol
		got := compute(newService(servicePorts(port)), newPod("a", "10.0.0.1"))
		wantLines(t, protocol, showEndpoints(got.Endpoints), []string{"10.0.0.1 p:8080/" + protocol + " ready serving"})
	}
}

func TestOneNumberWithTwoProtocols(t *testing.T) {
	udp := numbered("dns", 53, 53)
	udp.Protocol = UDP
	got := compute(newService(servicePorts(numbered("dns-tcp", 53, 53), udp)), newPod("a", "10.0.0.1"))
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{"10.0.0.1 dns-tcp:53/TCP dns:53/UDP ready serving"})
}

func TestTwoNamesForOneNumber(t *testing.T) {
	got := compute(newService(servicePorts(numbered("http", 80, 8080), numbered("web", 81, 8080))), newPod("a", "10.0.0.1"))
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{"10.0.0.1 http:8080/TCP web:8080/TCP ready serving"})
}

func TestAppProtocolIsCarriedAndUnsetDiffersFromEmpty(t *testing.T) {
	with := numbered("p", 80, 8080)
	with.AppProtocol = AppProtocol{"kubernetes.io/h2c", true}
	got := compute(newService(servicePorts(with)), newPod("a", "10.0.0.1"))
	if p := got.Endpoints[0].Ports[0].AppProtocol; p != (AppProtocol{"kubernetes.io/h2c", true}) {
		t.Errorf("%+v", p)
	}
	if p := compute(newService(), newPod("a", "10.0.0.1")).Endpoints[0].Ports[0].AppProtocol; p.Set {
		t.Errorf("%+v", p)
	}
}

func TestServiceWithoutPorts(t *testing.T) {
	headless := compute(newService(servicePorts(), clusterIP("None")), newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2", notReady))
	wantLines(t, "headless", showSubsets(Subsets(headless.Endpoints)), []string{"10.0.0.1 | 10.0.0.2 | "})
	for _, ip := range []string{"10.96.0.1", ""} {
		if got := compute(newService(servicePorts(), clusterIP(ip)), newPod("a", "10.0.0.1")); len(got.Endpoints) != 0 {
			t.Errorf("clusterIP %q: %q", ip, showEndpoints(got.Endpoints))
		}
	}
}

// TestPodWithoutAnyOfThePortsIsAbsent in both kinds of object; upstream keeps
// it in a slice without ports, which consumers read as "any port".
func TestPodWithoutAnyOfThePortsIsAbsent(t *testing.T) {
	svc := newService(servicePorts(named("http", 80, "web"), named("admin", 81, "admin")))
	got := compute(svc, newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2", withPorts(portNamed("admin", TCP, 9))))
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{"10.0.0.2 admin:9/TCP ready serving"})
}

func TestRefusedPortsAreDroppedByThemselves(t *testing.T) {
	badApp := numbered("c", 3, 3)
	badApp.AppProtocol = AppProtocol{"no good", true}
	badProtocol := numbered("d", 4, 4)
	badProtocol.Protocol = "ICMP"
	svc := newService(servicePorts(numbered("good", 1, 8080), numbered("a", 2, 0), numbered("b", 2, 65536), badApp, badProtocol,
		numbered("Upper", 5, 5), numbered("", 6, 6), numbered("good", 7, 7)))
	got := compute(svc, newPod("a", "10.0.0.1"))
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{"10.0.0.1 good:8080/TCP ready serving"})
	if len(got.Rejected) != 7 {
		t.Errorf("%d rejected, want 7: %+v", len(got.Rejected), got.Rejected)
	}
	for _, r := range got.Rejected {
		if r.Reason != RejectPort || r.Object.Kind != "Service" {
			t.Errorf("%+v", r)
		}
	}
	if got := compute(newService(servicePorts(numbered("a", 1, 0)), clusterIP("None")), newPod("a", "10.0.0.1")); len(got.Endpoints) != 0 {
		t.Error("a headless Service whose only port is refused is not one without ports")
	}
}

// TestPodsOfATemplateShareTheirPorts keeps 5,000 pods from holding 5,000 port lists.
func TestPodsOfATemplateShareTheirPorts(t *testing.T) {
	for name, svc := range map[string]*Service{
		"number": newService(),
		"name":   newService(servicePorts(named("http", 80, "web"))),
	} {
		ports := withPorts(portNamed("x", TCP, 1), portNamed("web", TCP, 8080))
		a, b := newPod("a", "10.0.0.1", ports), newPod("b", "10.0.0.2", ports)
		got := compute(svc, a, b).Endpoints
		if unsafe.SliceData(got[0].Ports) != unsafe.SliceData(got[1].Ports) {
			t.Errorf("%s: two lists", name)
		}
	}
}
