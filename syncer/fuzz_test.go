// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// source makes choices of a fuzzer's bytes; when they run out it returns zeros,
// so every input is a valid one and short inputs are simple ones.
type source struct{ data []byte }

func (s *source) n(limit int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % limit
}

func (s *source) yes() bool { return s.n(2) == 1 }

func chooseFrom[T any](s *source, list ...T) T { return list[s.n(len(list))] }

// addr returns one of few addresses, so that they repeat, and some that are refused.
func (s *source) addr() netip.Addr {
	if s.n(8) == 7 {
		return chooseFrom(s, netip.Addr{}, addr("127.0.0.1"), addr("::"), addr("fe80::1%eth0"), addr("::ffff:10.0.0.1"), addr("224.0.0.1"))
	}
	if s.yes() {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(s.n(4))})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(s.n(16))})
}

func (s *source) port() Port {
	return Port{Name: chooseFrom(s, "", "http", "metrics", "Bad"), Protocol: chooseFrom(s, TCP, UDP, "ICMP", ""),
		Number:      chooseFrom[int32](s, 80, 81, 0, -1, 65535, 65536),
		AppProtocol: chooseFrom(s, AppProtocol{}, AppProtocol{"h2c", true}, AppProtocol{"", true})}
}

func (s *source) service() *Service {
	svc := newService(clusterIP(chooseFrom(s, "10.96.0.1", "None", "", "fd00::1", "nonsense")),
		ipFamilies(chooseFrom(s, []Family{IPv4}, []Family{IPv6, IPv4}, nil, []Family{"", "IPv5"}, []Family{IPv4, IPv4})...))
	svc.PublishNotReadyAddresses = s.yes()
	svc.Ports = nil
	for range s.n(4) {
		p := s.port()
		target := TargetPort{Number: p.Number, Name: chooseFrom(s, "", "http", "nowhere")}
		svc.Ports = append(svc.Ports, ServicePort{Name: p.Name, Protocol: p.Protocol, Port: 80, Target: target, AppProtocol: p.AppProtocol})
	}
	return svc
}

func (s *source) pod(i int) *Pod {
	p := newPod(fmt.Sprintf("p%d", i), "", onNode(chooseFrom(s, "node-1", "", "No/Node")), withUID(fmt.Sprint(s.n(4))),
		withHostname(chooseFrom(s, "", "h", "H"), chooseFrom(s, "web", "")))
	p.Ready, p.Terminal = s.yes(), s.n(5) == 4
	p.Terminating = s.n(4) == 0
	p.NodeSilent, p.WasReady = !p.Ready && s.yes(), s.yes()
	p.ReadySince, p.Matches = chooseFrom[int64](s, 0, epoch, epoch+10, epoch+20), uint64(s.n(16))
	if zone := chooseFrom(s, "", "z1", "z2"); zone != "" {
		inZone(zone)(p)
	}
	for range s.n(4) {
		p.IPs = append(p.IPs, PodIP{Addr: s.addr(), Raw: "raw"})
	}
	for range s.n(3) {
		p.Ports = append(p.Ports, ContainerPort{chooseFrom(s, "http", ""), chooseFrom(s, TCP, UDP, ""), chooseFrom[int32](s, 80, 81, 0, 70000)})
	}
	return p
}

// FuzzRules feeds the rules whatever a member might send: nothing panics, the
// order of pods does not matter, and what comes out an API server would take.
func FuzzRules(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a Service with a few pods of all sorts behind it, and ports to go with them"))
	r := dice.New(f)
	for range 20 {
		seed := make([]byte, 200)
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data}
		svc := s.service()
		var pods []*Pod
		for i := range s.n(12) {
			pods = append(pods, s.pod(i))
		}
		options := s.options()
		got := Compute(svc, slices.Values(pods), options)
		checkContribution(t, got, len(pods))
		slices.Reverse(pods)
		if again := Compute(svc, slices.Values(pods), options); !reflect.DeepEqual(again, got) {
			t.Errorf("order of pods matters:\n%q\n%q", showEndpoints(got.Endpoints), showEndpoints(again.Endpoints))
		}
		subsets := Subsets(got.Endpoints)
		checkSubsets(t, subsets)
		cut, _ := Truncate(subsets, 5)
		checkSubsets(t, cut)
		packed := Pack(nil, got.Endpoints, got.Families, PackOptions{Service: svc.Key, Cluster: "c", MaxEndpoints: 3})
		checkSlices(t, packed, got.Endpoints, got.Families, 3)

		svc.Selector = nil
		byHand := HandWritten(svc, subsets, packed, s.yes(), options)
		checkContribution(t, byHand, 1000)
		checkSubsets(t, byHand.Subsets)
	})
}

// FuzzHandWritten feeds subsets and slices that no API server has checked.
func FuzzHandWritten(f *testing.F) {
	f.Add([]byte("subsets and slices"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data}
		var subsets []Subset
		for range s.n(4) {
			var subset Subset
			for range s.n(4) {
				subset.Ready = append(subset.Ready, Address{Addr: s.addr(), Hostname: chooseFrom(s, "", "H"), NodeName: chooseFrom(s, "", "N!")})
				subset.NotReady = append(subset.NotReady, Address{Addr: s.addr()})
			}
			for range s.n(4) {
				subset.Ports = append(subset.Ports, s.port())
			}
			subsets = append(subsets, subset)
		}
		slice := Slice{Name: "s", Family: chooseFrom[Family](s, IPv4, IPv6, "FQDN")}
		for range s.n(4) {
			slice.Endpoints = append(slice.Endpoints, Endpoint{Addr: s.addr(), Ready: s.yes(), Terminating: s.yes()})
			slice.Ports = append(slice.Ports, s.port())
		}
		svc := handService()
		got := HandWritten(svc, subsets, []Slice{slice}, s.yes(), Options{})
		checkContribution(t, got, 10_000)
		checkSubsets(t, got.Subsets)
		Repack(got.Subsets) // may join unnamed ports, as upstream does; must not panic
		packed := Pack(nil, got.Endpoints, got.Families, PackOptions{Service: svc.Key, Cluster: "c", MaxEndpoints: 2})
		checkSlices(t, packed, got.Endpoints, got.Families, 2)
	})
}

func checkContribution(t *testing.T, c Contribution, pods int) {
	t.Helper()
	if !slices.IsSortedFunc(c.Endpoints, func(a, b Endpoint) int { return CompareEndpoints(&a, &b) }) {
		t.Errorf("not in canonical order: %q", showEndpoints(c.Endpoints))
	}
	if len(c.Endpoints) > 2*pods {
		t.Errorf("%d endpoints of %d pods", len(c.Endpoints), pods)
	}
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		if refuse(e.Addr, nil) != "" || e.NodeName != "" && !isSubdomain(e.NodeName) || e.Hostname != "" && !IsLabel(e.Hostname) {
			t.Errorf("the API refuses %+v", e)
		}
		checkPorts(t, e.Ports)
		if len(splitByName(e.Ports)) > 1 {
			t.Errorf("a slice may not repeat a port name: %v", e.Ports)
		}
	}
}

func checkPorts(t *testing.T, ports []Port) {
	t.Helper()
	for _, p := range ports {
		if !p.Valid() {
			t.Errorf("the API refuses port %+v", p)
		}
	}
}

func checkSubsets(t *testing.T, subsets []Subset) {
	t.Helper()
	for _, s := range subsets {
		if len(s.Ready)+len(s.NotReady) == 0 {
			t.Errorf("the API refuses a subset without addresses: %+v", s)
		}
		checkPorts(t, s.Ports)
		for _, p := range s.Ports {
			if p.Name == "" && len(s.Ports) > 1 {
				t.Errorf("the API refuses an unnamed port beside others: %+v", s.Ports)
			}
		}
	}
}

// FuzzParseAddr: whatever is accepted prints canonically and parses to itself.
func FuzzParseAddr(f *testing.F) {
	for _, text := range []string{"10.0.0.1", "010.000.0.1", "::ffff:010.1.1.1", "fd00::1", "FD00:0:0::01", "", "1.2.3", "::%eth0", "0:0", "1:2:3:4:5:6:7:8", "00001::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, ok := ParseAddr(text)
		if !ok {
			return
		}
		if again, ok := ParseAddr(a.String()); !ok || again != a || a.Is4In6() || a.Zone() != "" {
			t.Errorf("%q → %v → %v", text, a, again)
		}
	})
}
