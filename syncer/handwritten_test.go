// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"net/netip"
	"slices"
	"testing"
)

func handService(options ...serviceOption) *Service {
	return newService(append([]serviceOption{func(s *Service) { s.Selector = nil }}, options...)...)
}

func addresses(texts ...string) []Address {
	var list []Address
	for _, text := range texts {
		a, _ := ParseAddr(text)
		list = append(list, Address{Addr: a})
	}
	return list
}

var dbPort = Port{Name: "db", Protocol: TCP, Number: 5432}

func TestHandWrittenEndpointsStandAsTheyAre(t *testing.T) {
	subsets := []Subset{
		{Ready: addresses("10.9.0.2", "10.9.0.1", "10.9.0.2"), NotReady: addresses("10.9.0.3"), Ports: []Port{dbPort}},
		{Ready: addresses("fd00::1"), Ports: []Port{{Name: "admin", Protocol: UDP, Number: 9}, dbPort}},
	}
	got := HandWritten(handService(), subsets, nil, false, Options{})
	wantLines(t, "order and repetitions stay", showSubsets(got.Subsets), showSubsets(subsets))
	wantLines(t, "they feed slices as the mirroring controller does, conditions spelt out", showEndpoints(got.Endpoints), []string{
		"10.9.0.1 db:5432/TCP ready serving", "10.9.0.2 db:5432/TCP ready serving",
		"10.9.0.3 db:5432/TCP", "fd00::1 db:5432/TCP ready serving", "fd00::1 admin:9/UDP ready serving"})
	if !slices.Equal(got.Families, []Family{IPv4, IPv6}) {
		t.Errorf("families %v", got.Families)
	}
}

func TestSkipMirrorKeepsEndpointsOutOfSlices(t *testing.T) {
	got := HandWritten(handService(), []Subset{{Ready: addresses("10.9.0.1"), Ports: []Port{dbPort}}}, nil, true, Options{})
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{"10.9.0.1 db:5432/TCP ready serving (Endpoints only)"})
	if len(got.Families) != 0 || len(got.Subsets) != 1 {
		t.Errorf("families %v, subsets %q", got.Families, showSubsets(got.Subsets))
	}
}

func TestHandWrittenSlicesStayOutOfEndpoints(t *testing.T) {
	slice := Slice{Name: "db-1", Family: IPv4, Ports: []Port{dbPort}, Endpoints: []Endpoint{
		{Addr: addr("10.9.0.1"), Ready: true, Serving: true, Zone: "z"}, {Addr: addr("10.9.0.2"), Serving: true, Terminating: true}}}
	got := HandWritten(handService(), nil, []Slice{slice}, false, Options{})
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{
		"10.9.0.1 db:5432/TCP ready serving (slices only)", "10.9.0.2 db:5432/TCP serving terminating (slices only)"})
	if got.Endpoints[0].Zone != "z" || len(Subsets(got.Endpoints)) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestASliceSpeaksForTheAddressOfMirroredEndpoints(t *testing.T) {
	slice := Slice{Name: "db-1", Family: IPv4, Ports: []Port{dbPort}, Endpoints: []Endpoint{{Addr: addr("10.9.0.1"), Serving: true, Terminating: true}}}
	got := HandWritten(handService(), []Subset{{Ready: addresses("10.9.0.1", "10.9.0.2"), Ports: []Port{dbPort}}}, []Slice{slice}, false, Options{})
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{"10.9.0.1 db:5432/TCP serving terminating (slices only)",
		"10.9.0.1 db:5432/TCP ready serving (Endpoints only)", "10.9.0.2 db:5432/TCP ready serving"})
}

func TestNotReadyBeatsReadyInMirroredEndpoints(t *testing.T) {
	got := HandWritten(handService(), []Subset{{Ready: addresses("10.9.0.1"), NotReady: addresses("10.9.0.1"), Ports: []Port{dbPort}}}, nil, false, Options{})
	packed := Pack(nil, got.Endpoints, got.Families, packFor)
	wantLines(t, "slice", showEndpoints(packed[0].Endpoints), []string{"10.9.0.1"})
}

// TestSubsetsWithTheSameAddressesShareSlices: the mirroring controller brings
// subsets into canonical form first.
func TestSubsetsWithTheSameAddressesShareSlices(t *testing.T) {
	admin := Port{Name: "admin", Protocol: TCP, Number: 9}
	subsets := []Subset{{Ready: addresses("10.9.0.1"), Ports: []Port{dbPort}}, {Ready: addresses("10.9.0.1"), Ports: []Port{admin}}}
	got := HandWritten(handService(), subsets, nil, false, Options{})
	if packed := Pack(nil, got.Endpoints, got.Families, packFor); len(packed) != 1 || !slices.Equal(packed[0].Ports, []Port{admin, dbPort}) {
		t.Errorf("%+v", packed)
	}
	wantLines(t, "Endpoints stay as written", showSubsets(got.Subsets), []string{"10.9.0.1 |  | db:5432/TCP", "10.9.0.1 |  | admin:9/TCP"})
}

// TestRepeatedPortNamesGoIntoDifferentSlices: Endpoints may repeat a name, and
// people use that for several processes on one host; a slice may not.
func TestRepeatedPortNamesGoIntoDifferentSlices(t *testing.T) {
	ports := []Port{dbPort, {Name: "db", Protocol: TCP, Number: 5433}, {Name: "admin", Protocol: TCP, Number: 9}}
	got := HandWritten(handService(), []Subset{{Ready: addresses("10.9.0.1"), Ports: ports}}, nil, false, Options{})
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{
		"10.9.0.1 admin:9/TCP db:5433/TCP ready serving", "10.9.0.1 db:5432/TCP ready serving"})
	wantLines(t, "subsets", showSubsets(got.Subsets), []string{"10.9.0.1 |  | db:5432/TCP db:5433/TCP admin:9/TCP"})
	if packed := Pack(nil, got.Endpoints, got.Families, packFor); len(packed) != 2 {
		t.Errorf("%d slices", len(packed))
	}
}

func TestHandWrittenRefusalsAreDroppedOneByOne(t *testing.T) {
	bad := Address{Addr: addr("10.9.0.9"), Hostname: "No", NodeName: "No/No", Target: TargetRef{Kind: "Pod", Key: Key{"shop", "p"}}}
	subsets := []Subset{
		{Ready: append(addresses("127.0.0.1", "10.9.0.1", "bad", "192.0.2.1"), bad), Ports: []Port{dbPort, {Name: "x", Protocol: TCP, Number: 0}, {Protocol: TCP, Number: 7}}},
		{Ready: addresses("10.9.0.1"), Ports: []Port{{Name: "gone", Protocol: TCP, Number: 70000}}},
		{NotReady: addresses("::1"), Ports: []Port{dbPort}},
		{Ready: addresses("10.9.0.5")},
	}
	handSlices := []Slice{{Name: "names", Family: "FQDN", Ports: []Port{dbPort}},
		{Name: "all-ports", Family: IPv4, Ports: []Port{{Name: "all", Protocol: TCP}}, Endpoints: []Endpoint{{Addr: addr("10.9.0.7")}}}}
	got := HandWritten(handService(), subsets, handSlices, false, Options{AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
	wantLines(t, "subsets", showSubsets(got.Subsets), []string{"10.9.0.1 10.9.0.9 |  | db:5432/TCP", "10.9.0.5 |  | "})
	if a := got.Subsets[0].Ready[1]; a.Hostname != "" || a.NodeName != "" {
		t.Errorf("%+v", a)
	}
	reasons := map[RejectReason]int{}
	for _, r := range got.Rejected {
		reasons[r.Reason]++
	}
	want := map[RejectReason]int{RejectLoopback: 2, RejectMalformed: 1, RejectNotAllowed: 1, RejectHostname: 1, RejectNodeName: 1, RejectPort: 4, RejectFQDN: 1}
	for reason, n := range want {
		if reasons[reason] != n {
			t.Errorf("%s: %d, want %d (%+v)", reason, reasons[reason], n, got.Rejected)
		}
	}
}

func TestHandWrittenIsForServicesWithoutSelectorOnly(t *testing.T) {
	subsets := []Subset{{Ready: addresses("10.9.0.1"), Ports: []Port{dbPort}}}
	for name, svc := range map[string]*Service{"selector": newService(), "external name": handService(func(s *Service) { s.ExternalName = true })} {
		if got := HandWritten(svc, subsets, nil, false, Options{}); len(got.Endpoints)+len(got.Subsets) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestGradesOfWhatIsWrittenByHand: what is ready is trusted, and nothing that is not, nor
// what is said to be ending.
func TestGradesOfWhatIsWrittenByHand(t *testing.T) {
	slice := Slice{Name: "s", Family: IPv4, Ports: []Port{dbPort}, Endpoints: []Endpoint{
		{Addr: addr("10.9.0.1"), Ready: true, Serving: true},
		{Addr: addr("10.9.0.2"), Serving: true, Terminating: true},
		{Addr: addr("10.9.0.3"), Ready: true, Terminating: true},
	}}
	subsets := []Subset{{Ready: addresses("10.9.0.4"), NotReady: addresses("10.9.0.5"), Ports: []Port{dbPort}}}
	got := HandWritten(handService(), subsets, []Slice{slice}, false, Options{})
	for i, want := range []Grade{Ready, NotReady, NotReady, Ready, NotReady} {
		if e := got.Endpoints[i]; e.Grade != want || e.PublishedGrade(false) != want {
			t.Errorf("%v is of grade %v, want %v", e.Addr, e.Grade, want)
		}
	}
}
