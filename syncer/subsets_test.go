// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import "testing"

func TestNamedPortsSplitSubsets(t *testing.T) {
	svc := newService(servicePorts(named("http", 80, "web"), numbered("metrics", 9100, 9100)))
	at := func(port int32) podOption { return withPorts(ContainerPort{"web", TCP, port}) }
	got := compute(svc, newPod("a", "10.0.0.1", at(8080)), newPod("b", "10.0.0.2", at(9090)), newPod("c", "10.0.0.3"))
	lines := showSubsets(Subsets(got.Endpoints))
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	seen := map[string]bool{}
	for _, line := range lines {
		seen[line] = true
	}
	for _, want := range []string{"10.0.0.1 |  | http:8080/TCP", "10.0.0.2 |  | http:9090/TCP", "10.0.0.1 10.0.0.2 10.0.0.3 |  | metrics:9100/TCP"} {
		if !seen[want] {
			t.Errorf("no subset %q in %q", want, lines)
		}
	}
}

// TestAPortComesAndGoes: named ports that pods resolve otherwise split subsets
// as long as they are there, and leave no trace.
func TestAPortComesAndGoes(t *testing.T) {
	pods := []*Pod{
		newPod("a", "10.0.0.1", withPorts(portNamed("web", TCP, 8080), portNamed("admin", TCP, 9000))),
		newPod("b", "10.0.0.2", withPorts(portNamed("web", TCP, 8080), portNamed("admin", TCP, 9001))),
	}
	web, admin := named("http", 80, "web"), named("admin", 81, "admin")
	subsetsOf := func(ports ...ServicePort) []string {
		return showSubsets(Subsets(compute(newService(servicePorts(ports...)), pods...).Endpoints))
	}
	before := subsetsOf(web)
	wantLines(t, "one port", before, []string{"10.0.0.1 10.0.0.2 |  | http:8080/TCP"})
	if with := subsetsOf(web, admin); len(with) != 3 {
		t.Errorf("with a second port: %q", with)
	}
	wantLines(t, "gone again", subsetsOf(web), before)
}

// TestSubsetsSpeakUpstreamsDump pins the text whose hashes decide the order of
// ports and subsets; the oracle in e2e proves that it is upstream's.
func TestSubsetsSpeakUpstreamsDump(t *testing.T) {
	port := Port{Name: "http", Protocol: TCP, Number: 8080}
	if got, want := string(dumpPort(nil, &port)), "{Name:(string)http Port:(int32)8080 Protocol:(v1.Protocol)TCP AppProtocol:(*string)<nil>}"; got != want {
		t.Errorf("port: %s", got)
	}
	a := Address{Addr: addr("10.0.0.1"), Target: TargetRef{Kind: "Pod", Key: Key{"ns", "p"}, UID: "u"}}
	const target = " TargetRef:(*v1.ObjectReference){Kind:(string)Pod Namespace:(string)ns Name:(string)p UID:(types.UID)u" +
		" APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}}"
	if got, want := string(dumpAddress(nil, &a, true)), "{IP:(string)10.0.0.1 Hostname:(string) NodeName:(*string)"+target; got != want {
		t.Errorf("address of a pod without node: %s", got)
	}
	if got, want := string(dumpAddress(nil, &a, false)), "{IP:(string)10.0.0.1 Hostname:(string) NodeName:(*string)<nil>"+target; got != want {
		t.Errorf("hand-written address without node: %s", got)
	}
}
