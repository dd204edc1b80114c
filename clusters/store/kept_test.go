// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"testing"

	"tributary.dev/tributary/syncer"
)

// TestEndpointsThatAreKept: they stand beside those of a Service, once each, and are all that
// one gives whose hand-written endpoints have not been read.
func TestEndpointsThatAreKept(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.serve(handMade("hand"))
	w.upsert(aPod("web-1", "web", 1))
	own := w.Peek(in("web"))[0].Endpoints[0]
	host := own
	host.Target.UID = "another pod of that host"
	free := own
	free.Addr, free.Target = netip.MustParseAddr("10.0.0.9"), syncer.TargetRef{}

	for name, c := range map[string]struct {
		of      string
		keep    []syncer.Endpoint
		want    int
		pending bool
	}{
		"one that it gives itself":       {"web", []syncer.Endpoint{own}, 1, false},
		"one of another pod of the host": {"web", []syncer.Endpoint{host, free}, 3, false},
		"of one that was not read":       {"hand", []syncer.Endpoint{free}, 1, false},
		"none of one that was not read":  {"hand", []syncer.Endpoint{}, 0, false},
		"nothing is said":                {"hand", nil, 0, true},
	} {
		inputs := w.Inputs(in(c.of))
		if c.keep != nil {
			inputs[0].Keep(c.keep)
		}
		got := Peek(inputs)[0]
		if len(got.Endpoints) != c.want || got.Pending != c.pending {
			t.Errorf("%s: %d endpoints, pending: %v; want %d, %v", name, len(got.Endpoints), got.Pending, c.want, c.pending)
		}
	}
}

// TestCandidates: what counts as a ready endpoint is one only if it is computed as one.
func TestCandidates(t *testing.T) {
	w := newWorld(t)
	w.options.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29"), netip.MustParsePrefix("fd00::/16")}
	w.serve(aService("web", "web"))
	named := aService("named", "web")
	named.Ports[0].Target = syncer.TargetPort{Name: "http"}
	w.serve(named)
	v6 := aPod("v6", "web", 2)
	v6.IPs[0].Addr = netip.MustParseAddr("fd00::1")
	down := aPod("down", "web", 3)
	down.Ready = false
	for _, p := range []syncer.Pod{aPod("fine", "web", 1), v6, down, aPod("outside", "web", 99), aPod("kept", "web", 4)} {
		w.upsert(p)
	}
	w.HoldPod(in("kept"))
	for service, want := range map[string][2]int{"web": {2, 2}, "named": {0, 4}, "nobody": {}} {
		is := [2]int{}
		held := 0
		for isHeld, isEndpoint := range w.Candidates(in(service), true) {
			if isHeld {
				held++
			}
			if isEndpoint {
				is[0]++
			} else {
				is[1]++
			}
		}
		if is != want || (held != 1) != (service == "nobody") {
			t.Errorf("%s: %v are endpoints and are not, want %v; %d are held", service, is, want, held)
		}
	}
}
