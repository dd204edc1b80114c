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
