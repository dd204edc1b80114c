// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"slices"
	"testing"
)

var packFor = PackOptions{Service: Key{testNamespace, "web"}, Cluster: "idc-a"}

// manyEndpoints returns n ready endpoints with one port list.
func manyEndpoints(n int, ports ...Port) []Endpoint {
	endpoints := make([]Endpoint, n)
	for i := range endpoints {
		name := fmt.Sprintf("pod-%d", i)
		endpoints[i] = Endpoint{Addr: addr(fmt.Sprintf("10.0.%d.%d", i/200, i%200+1)), Ports: ports,
			Ready: true, Serving: true, Target: TargetRef{Kind: "Pod", Key: Key{testNamespace, name}, UID: "uid-" + name}}
	}
	return endpoints
}

var httpPort = Port{Name: "http", Protocol: TCP, Number: 8080}

// writes counts the API calls that lead from one set of slices to another.
func writes(before, after []Slice) (creates, updates, deletes int) {
	old := map[string]Slice{}
	for _, s := range before {
		old[s.Name] = s
	}
	for _, s := range after {
		was, stood := old[s.Name]
		switch {
		case !stood:
			creates++
		case !slices.EqualFunc(was.Endpoints, s.Endpoints, func(a, b Endpoint) bool { return a.Equal(&b) }):
			updates++
		}
		delete(old, s.Name)
	}
	return creates, updates, len(old)
}

func wantWrites(t *testing.T, before, after []Slice, creates, updates, deletes int) {
	t.Helper()
	if c, u, d := writes(before, after); c != creates || u != updates || d != deletes {
		t.Errorf("creates, updates, deletes = %d, %d, %d; want %d, %d, %d", c, u, d, creates, updates, deletes)
	}
}

func TestPackFillsSlices(t *testing.T) {
	got := Pack(nil, manyEndpoints(250, httpPort), []Family{IPv4}, packFor)
	if len(got) != 3 || len(got[0].Endpoints) != 100 || len(got[2].Endpoints) != 50 {
		t.Fatalf("%d slices", len(got))
	}
	wantWrites(t, got, Pack(got, manyEndpoints(250, httpPort), []Family{IPv4}, packFor), 0, 0, 0)
}

func TestOneFlipIn5000RewritesOneSlice(t *testing.T) {
	endpoints := manyEndpoints(5000, httpPort)
	before := Pack(nil, endpoints, []Family{IPv4}, packFor)
	endpoints[2345].Ready, endpoints[2345].Serving = false, false
	wantWrites(t, before, Pack(before, endpoints, []Family{IPv4}, packFor), 0, 1, 0)
}
