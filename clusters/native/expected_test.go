// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"tributary.dev/tributary/syncer"
)

func service(change func(*syncer.Service)) *syncer.Service {
	svc := &syncer.Service{
		Key: key, ClusterIP: "10.96.0.9", IPFamilies: []syncer.Family{syncer.IPv4}, Selector: map[string]string{},
		Ports: []syncer.ServicePort{{Name: "http", Protocol: syncer.TCP, Target: syncer.TargetPort{Number: 80}}},
	}
	if change != nil {
		change(svc)
	}
	return svc
}

func pod(ip string, change func(*syncer.Pod)) *syncer.Pod {
	addr, err := netip.ParseAddr(ip)
	p := &syncer.Pod{
		Key: syncer.Key{Namespace: key.Namespace, Name: "pod-" + ip}, UID: ip, NodeName: "node-1", Ready: true,
		IPs: []syncer.PodIP{{Addr: addr}},
	}
	if err != nil {
		p.IPs[0].Raw = ip
	}
	if change != nil {
		change(p)
	}
	return p
}

func expect(svc *syncer.Service, capacity int, pods ...*syncer.Pod) (Expected, bool) {
	c := syncer.Compute(svc, slices.Values(pods), syncer.Options{})
	return Expect(&c, capacity)
}

func TestExpectsWhatUpstreamWrites(t *testing.T) {
	notReady := func(p *syncer.Pod) { p.Ready = false }
	second := func(p *syncer.Pod) { p.IPs = append(p.IPs, syncer.PodIP{Addr: netip.MustParseAddr("fd00::1")}) }
	for name, test := range map[string]struct {
		service func(*syncer.Service)
		pod     *syncer.Pod
		want    Addresses // nil: not to be compared
	}{
		"a pod that is ready":               {nil, pod("10.1.0.1", nil), Addresses{"10.1.0.1:80/TCP"}},
		"a pod that is not":                 {nil, pod("10.1.0.1", notReady), Addresses{"10.1.0.1:80/TCP not ready"}},
		"not-ready addresses are published": {func(s *syncer.Service) { s.PublishNotReadyAddresses = true }, pod("10.1.0.1", notReady), Addresses{"10.1.0.1:80/TCP"}},
		"headless":                          {func(s *syncer.Service) { s.ClusterIP = syncer.ClusterIPNone }, pod("10.1.0.1", nil), Addresses{"10.1.0.1:80/TCP"}},
		"headless without ports":            {func(s *syncer.Service) { s.ClusterIP, s.Ports = syncer.ClusterIPNone, nil }, pod("10.1.0.1", nil), Addresses{"10.1.0.1"}},
		"without ports":                     {func(s *syncer.Service) { s.Ports = nil }, pod("10.1.0.1", nil), Addresses{}},
		"dual stack, IPv4 first":            {func(s *syncer.Service) { s.IPFamilies = []syncer.Family{syncer.IPv4, syncer.IPv6} }, pod("10.1.0.1", second), Addresses{"10.1.0.1:80/TCP"}},
		"dual stack, IPv6 first":            {func(s *syncer.Service) { s.IPFamilies = []syncer.Family{syncer.IPv6, syncer.IPv4} }, pod("10.1.0.1", second), Addresses{"[fd00::1]:80/TCP"}},
		"a named port that a pod lacks":     {func(s *syncer.Service) { s.Ports[0].Target = syncer.TargetPort{Name: "web"} }, pod("10.1.0.1", nil), Addresses{}},
		"no selector":                       {func(s *syncer.Service) { s.Selector = nil }, pod("10.1.0.1", nil), nil},
		"an address that the API refuses":   {nil, pod("169.254.0.1", nil), nil},
		"text that is no address":           {nil, pod("none", nil), nil},
		"a host name that the API refuses":  {nil, pod("10.1.0.1", func(p *syncer.Pod) { p.Hostname, p.Subdomain = "-", key.Name }), nil},
		"a node name that the API refuses":  {nil, pod("10.1.0.1", func(p *syncer.Pod) { p.NodeName = "_" }), nil},
		"no node name":                      {nil, pod("10.1.0.1", func(p *syncer.Pod) { p.NodeName = "" }), nil},
		"a port name that the API refuses":  {func(s *syncer.Service) { s.Ports[0].Name = "_" }, pod("10.1.0.1", nil), nil},
		"two ports of one name":             {func(s *syncer.Service) { s.Ports = append(s.Ports, s.Ports[0]) }, pod("10.1.0.1", nil), nil},
	} {
		got, ok := expect(service(test.service), syncer.EndpointsCapacity, test.pod)
		if ok != (test.want != nil) || !slices.Equal(got.Addresses, test.want) {
			t.Errorf("%s: %q, to be compared %t; want %q", name, got.Addresses, ok, test.want)
		}
	}
}

func TestExpectsAsManyAddressesAsUpstreamWrites(t *testing.T) {
	var pods []*syncer.Pod
	for i := range 1200 {
		pods = append(pods, pod(fmt.Sprintf("10.1.%d.%d", i/200, i%200+1), nil))
	}
	for capacity, want := range map[int]int{syncer.EndpointsCapacity: 1000, math.MaxInt: 1200} {
		if got, ok := expect(service(nil), capacity, pods...); !ok || len(got.Addresses) != want {
			t.Errorf("of 1,200 addresses %d are expected, to be compared %t; want %d", len(got.Addresses), ok, want)
		}
	}
	// One pod of another port gets a subset that truncation leaves without addresses.
	named := func(s *syncer.Service) { s.Ports[0].Target = syncer.TargetPort{Name: "web"} }
	for i, p := range pods {
		p.Ports = []syncer.ContainerPort{{Name: "web", Protocol: syncer.TCP, Port: 8080 + int32(i%3)}}
	}
	if _, ok := expect(service(named), 1, pods[:3]...); ok {
		t.Error("what upstream truncates to a subset without addresses is to be compared: the API server refuses it")
	}
}

func TestOnlyTrafficIsExpectedOfThem(t *testing.T) {
	a, down, b := "10.0.0.1:80/TCP", "10.0.0.1:80/TCP not ready", "10.0.0.2:80/TCP"
	for name, test := range map[string]struct {
		ours, theirs Addresses
		publishes    bool
		want         bool
	}{
		"the same":                         {Addresses{a, b}, Addresses{a, b}, false, true},
		"nothing":                          {nil, nil, false, true},
		"theirs lacks one":                 {Addresses{a, b}, Addresses{b}, false, false},
		"theirs has one more":              {Addresses{b}, Addresses{a, b}, false, false},
		"theirs still has it ready":        {Addresses{down}, Addresses{a}, false, false},
		"theirs has it not ready yet":      {Addresses{a}, Addresses{down}, false, false},
		"theirs retains a failed pod":      {Addresses{b}, Addresses{down, b}, false, true},
		"the same, published":              {Addresses{b}, Addresses{a, b}, true, true},
		"theirs lacks one, published":      {Addresses{a, b}, Addresses{a}, true, false},
		"theirs lacks the not ready":       {Addresses{down, b}, Addresses{b}, false, false},
		"theirs has only another":          {Addresses{a}, Addresses{b}, false, false},
		"theirs has only another, publish": {Addresses{a}, Addresses{b}, true, false},
	} {
		if got := (Expected{Addresses: test.ours, Publishes: test.publishes}).metBy(test.theirs); got != test.want {
			t.Errorf("%s: met %t, want %t", name, got, test.want)
		}
	}
}
