// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"testing"

	"tributary.dev/tributary/syncer"
)

// TestFields: an update says what it changes, field by field, and other actions say nothing.
func TestFields(t *testing.T) {
	port := syncer.Port{Name: "http", Protocol: "TCP", Number: 8080}
	address := func(ip string) syncer.Address { return syncer.Address{Addr: netip.MustParseAddr(ip)} }
	endpoint := func(ip string, ready bool) syncer.Endpoint {
		return syncer.Endpoint{Addr: netip.MustParseAddr(ip), Ready: ready, Serving: ready, NodeName: "n"}
	}
	slice := Meta{Name: "web-1", Labels: map[string]string{"a": "1"}}
	p := Plan{current: &Current{
		Service:   &CurrentService{Ports: []syncer.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, Target: syncer.TargetPort{Number: 8080}}}, Selector: map[string]string{"app": "x"}},
		Endpoints: &CurrentEndpoints{Subsets: []syncer.Subset{{Ready: []syncer.Address{address("10.0.0.1"), address("10.0.0.2")}, Ports: []syncer.Port{port}}}},
		Slices:    []CurrentSlice{{Meta: slice, Slice: syncer.Slice{Endpoints: []syncer.Endpoint{endpoint("10.0.0.1", true), endpoint("10.0.0.2", true)}}}},
	}}
	for name, c := range map[string]struct {
		action Action
		want   []Field
	}{
		"a Service": {Action{Verb: Update, Kind: KindService, Standing: &Meta{Annotations: map[string]string{"n": "o"}}, Service: &ServiceSpec{
			Ports:  []syncer.ServicePort{{Name: "http", Protocol: "TCP", Port: 81, Target: syncer.TargetPort{Number: 8080}}},
			Labels: map[string]string{"team": "edge"},
		}}, []Field{{"metadata.annotations[n]", `"o"`, ""}, {"metadata.labels[team]", "", `"edge"`}, {"spec.clusterIP", "", "None"},
			{"spec.ports[http]", "80/TCP→8080", "81/TCP→8080"}, {"spec.selector[app]", "x", ""}}},
		"Endpoints": {Action{Verb: Update, Kind: KindEndpoints, Standing: &Meta{}, Endpoints: &EndpointsSpec{
			Subsets: []syncer.Subset{{Ready: []syncer.Address{address("10.0.0.3")}, NotReady: []syncer.Address{address("10.0.0.1")}, Ports: []syncer.Port{port}}},
		}}, []Field{{"subsets[10.0.0.1 http:8080/TCP]", "ready", "not ready"}, {"subsets[10.0.0.2 http:8080/TCP]", "ready", ""}, {"subsets[10.0.0.3 http:8080/TCP]", "", "ready"}}},
		"a slice": {Action{Verb: Update, Kind: KindEndpointSlice, Name: "web-1", Standing: &slice, Slice: &SliceSpec{
			Slice: syncer.Slice{Endpoints: []syncer.Endpoint{endpoint("10.0.0.1", false)}}, Labels: map[string]string{"a": "2"},
		}}, []Field{{"endpoints[10.0.0.1]", "ready, serving, node n", "not ready, node n"}, {"endpoints[10.0.0.2]", "ready, serving, node n", ""}, {"metadata.labels[a]", `"1"`, `"2"`}}},
		"a deletion": {Action{Verb: Delete, Kind: KindService, Standing: &Meta{}}, nil},
		"a new one":  {Action{Verb: Create, Kind: KindService, Service: &ServiceSpec{}}, nil},
	} {
		if got := p.Fields(&c.action); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
}
