// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import "testing"

func TestNamedPortsSplitSubsets(t *testing.T) {
	svc := newService(servicePorts(named("http", 80, "web"), numbered("metrics", 9100, 9100)))
	at := func(port int32) podOption { return withPorts(ContainerPort{"web", TCP, port}) }
	got := compute(svc, newPod("a", "10.0.0.1", at(8080)), newPod("b", "10.0.0.2", at(9090)), newPod("c", "10.0.0.3"))
	lines := showSubsets(Subsets(got.Endpoints, IPv4))
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
