// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"net/netip"
	"slices"
	"testing"
)

// TestConditionsTable is the table of sections 2.5 and 2.17: every state of a
// pod, with and without publishNotReadyAddresses, in both kinds of object.
func TestConditionsTable(t *testing.T) {
	for _, c := range []struct {
		name      string
		service   []serviceOption
		pod       []podOption
		slices    []string
		endpoints []string
	}{
		{"ready", nil, nil, []string{"10.0.0.1 http:8080/TCP ready serving"}, []string{"10.0.0.1 |  | http:8080/TCP"}},
		{"not ready", nil, []podOption{notReady}, []string{"10.0.0.1 http:8080/TCP"}, []string{" | 10.0.0.1 | http:8080/TCP"}},
		{"terminating and ready", nil, []podOption{terminating}, []string{"10.0.0.1 http:8080/TCP serving terminating"}, nil},
		{"terminating and not ready", nil, []podOption{terminating, notReady}, []string{"10.0.0.1 http:8080/TCP terminating"}, nil},
		{"terminal", nil, []podOption{terminal}, nil, nil},
		{"terminal though ready", nil, []podOption{terminal, terminating}, nil, nil},
		{"no address", nil, []podOption{withIPs()}, nil, nil},
		{"published: ready", []serviceOption{publishNotReady}, nil,
			[]string{"10.0.0.1 http:8080/TCP ready serving"}, []string{"10.0.0.1 |  | http:8080/TCP"}},
		{"published: not ready", []serviceOption{publishNotReady}, []podOption{notReady},
			[]string{"10.0.0.1 http:8080/TCP ready"}, []string{"10.0.0.1 |  | http:8080/TCP"}},
		{"published: terminating and ready", []serviceOption{publishNotReady}, []podOption{terminating},
			[]string{"10.0.0.1 http:8080/TCP ready serving terminating"}, []string{"10.0.0.1 |  | http:8080/TCP"}},
		{"published: terminating and not ready", []serviceOption{publishNotReady}, []podOption{terminating, notReady},
			[]string{"10.0.0.1 http:8080/TCP ready terminating"}, []string{"10.0.0.1 |  | http:8080/TCP"}},
		{"published: terminal stays absent", []serviceOption{publishNotReady}, []podOption{terminal}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := compute(newService(c.service...), newPod("a", "10.0.0.1", c.pod...))
			wantLines(t, "endpoints", showEndpoints(got.Endpoints), c.slices)
			wantLines(t, "subsets", showSubsets(Subsets(got.Endpoints)), c.endpoints)
		})
	}
}

func TestServicesWithoutEndpointsOfTheirOwn(t *testing.T) {
	for name, option := range map[string]serviceOption{
		"external name":                  func(s *Service) { s.ExternalName = true },
		"external name without selector": func(s *Service) { s.ExternalName, s.Selector = true, nil },
		"no selector":                    func(s *Service) { s.Selector = nil },
	} {
		if got := compute(newService(option), newPod("a", "10.0.0.1")); len(got.Endpoints)+len(got.Families) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestEmptySelectorSelectsAllPods(t *testing.T) {
	svc := newService(func(s *Service) { s.Selector = map[string]string{} })
	got := compute(svc, newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2", notReady))
	wantLines(t, "subsets", showSubsets(Subsets(got.Endpoints)), []string{"10.0.0.1 | 10.0.0.2 | http:8080/TCP"})
}

func TestAddressFollowsTheServicesFamilies(t *testing.T) {
	const v4, v6 = "10.0.0.1", "fd00::1"
	for _, c := range []struct {
		name      string
		service   []serviceOption
		ips       []string
		slices    []string
		endpoints string
	}{
		{"v4 service, v4 pod", nil, []string{v4}, []string{v4}, v4},
		{"v4 service, dual pod", nil, []string{v4, v6}, []string{v4}, v4},
		{"v4 service, dual pod with v6 first", nil, []string{v6, v4}, []string{v4}, v4},
		{"v6 service, dual pod", []serviceOption{ipFamilies(IPv6)}, []string{v4, v6}, []string{v6}, v6},
		{"v6 service, v4 pod", []serviceOption{ipFamilies(IPv6)}, []string{v4}, nil, ""},
		{"dual service, dual pod", []serviceOption{ipFamilies(IPv4, IPv6)}, []string{v6, v4}, []string{v4, v6 + " (slices only)"}, v4},
		{"dual service with v6 first", []serviceOption{ipFamilies(IPv6, IPv4)}, []string{v4, v6}, []string{v4 + " (slices only)", v6}, v6},
		{"headless v6", []serviceOption{ipFamilies(IPv6), clusterIP("None")}, []string{v4, v6}, []string{v6}, v6},
		{"no families, v4 clusterIP", []serviceOption{ipFamilies()}, []string{v6, v4}, []string{v4}, v4},
		{"no families, v6 clusterIP", []serviceOption{ipFamilies(), clusterIP("fd00:10::1")}, []string{v4, v6}, []string{v6}, v6},
		{"no families, headless, v4 pod", []serviceOption{ipFamilies(), clusterIP("None")}, []string{v4, v6}, []string{v4, v6 + " (slices only)"}, v4},
		{"no families, headless, v6 pod", []serviceOption{ipFamilies(), clusterIP("None")}, []string{v6, v4}, []string{v4 + " (slices only)", v6}, v6},
		{"no families, no clusterIP, v6 pod", []serviceOption{ipFamilies(), clusterIP("")}, []string{v6}, []string{v6}, v6},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := compute(newService(c.service...), newPod("a", "", withIPs(c.ips...)))
			var lines []string
			for _, e := range got.Endpoints {
				e.Ports, e.Ready, e.Serving = nil, false, false
				lines = append(lines, showEndpoint(e))
			}
			wantLines(t, "slices", lines, c.slices)
			var endpoints string
			for _, s := range Subsets(got.Endpoints) {
				endpoints = s.Ready[0].Addr.String()
			}
			if endpoints != c.endpoints {
				t.Errorf("Endpoints carry %q, want %q", endpoints, c.endpoints)
			}
		})
	}
}

// TestPodsDecideTheFamilyEachForItself has a Service without families whose
// pods disagree: upstream then writes Endpoints of both families.
func TestPodsDecideTheFamilyEachForItself(t *testing.T) {
	svc := newService(ipFamilies(), clusterIP("None"))
	got := compute(svc, newPod("a", "10.0.0.1"), newPod("b", "fd00::2"), newPod("c", "", withIPs("fd00::3", "10.0.0.3")))
	wantLines(t, "subsets", showSubsets(Subsets(got.Endpoints)), []string{"10.0.0.1 fd00::2 fd00::3 |  | http:8080/TCP"})
}

func TestAddressesAreCanonical(t *testing.T) {
	for spelt, want := range map[string]string{"010.001.0.01": "10.1.0.1", "::ffff:10.1.0.1": "10.1.0.1", "::ffff:010.1.0.1": "10.1.0.1"} {
		wantLines(t, spelt, showSubsets(Subsets(compute(newService(), newPod("a", spelt)).Endpoints)), []string{want + " |  | http:8080/TCP"})
	}
	got := compute(newService(ipFamilies(IPv6)), newPod("a", "FD00:0:0::01"))
	wantLines(t, "IPv6", showSubsets(Subsets(got.Endpoints)), []string{"fd00::1 |  | http:8080/TCP"})
}

func TestRefusedAddressesAreDroppedOneByOne(t *testing.T) {
	svc := newService(ipFamilies(IPv4, IPv6))
	for text, reason := range map[string]RejectReason{
		"127.0.0.1": RejectLoopback, "::1": RejectLoopback, "0.0.0.0": RejectUnspecified, "::": RejectUnspecified,
		"169.254.1.1": RejectLinkLocal, "fe80::1": RejectLinkLocal, "224.0.0.9": RejectMulticast, "ff02::9": RejectMulticast,
		"pod-ip": RejectMalformed, "fe80::1%eth0": RejectMalformed, "10.0.0": RejectMalformed, "": RejectMalformed,
	} {
		bad := newPod("bad", "", withIPs(text))
		got := compute(svc, bad, newPod("good", "10.0.0.1"))
		wantLines(t, text, showEndpoints(got.Endpoints), []string{"10.0.0.1 http:8080/TCP ready serving"})
		if len(got.Rejected) != 1 || got.Rejected[0].Reason != reason || got.Rejected[0].Object.Name != "bad" {
			t.Errorf("%s: rejected %+v, want %s", text, got.Rejected, reason)
		}
	}
	for _, fine := range []string{"239.1.1.1", "255.255.255.255", "100.64.0.1", "192.0.2.1"} {
		if got := compute(svc, newPod("a", fine)); len(got.Endpoints) != 1 || len(got.Rejected) != 0 {
			t.Errorf("%s: the API accepts it, we do not: %+v", fine, got)
		}
	}
	got := compute(svc, newPod("a", "", withIPs("127.0.0.1", "10.0.0.2")))
	wantLines(t, "the pod's next address is published", showEndpoints(got.Endpoints), []string{"10.0.0.2 http:8080/TCP ready serving"})
}

func TestAllowedCIDRs(t *testing.T) {
	options := Options{AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/64")}}
	pods := slices.Values([]*Pod{newPod("in", "10.1.2.3"), newPod("out", "10.2.2.3"), newPod("mapped", "::ffff:10.1.2.4")})
	got := Compute(newService(), pods, options)
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{"10.1.2.3 http:8080/TCP ready serving", "10.1.2.4 http:8080/TCP ready serving"})
	if len(got.Rejected) != 1 || got.Rejected[0] != (Rejection{Object: TargetRef{Kind: "Pod", Key: Key{testNamespace, "out"}, UID: "uid-out"}, Address: "10.2.2.3", Reason: RejectNotAllowed}) {
		t.Errorf("rejected %+v", got.Rejected)
	}
}

func TestNodeZoneHostnameTarget(t *testing.T) {
	svc := newService()
	one := func(options ...podOption) (Endpoint, []Rejection) {
		got := compute(svc, newPod("a", "10.0.0.1", append([]podOption{inZone("z1")}, options...)...))
		return got.Endpoints[0], got.Rejected
	}
	e, _ := one(withHostname("db-0", "web"))
	if e.NodeName != "node-1" || e.Zone != "z1" || e.Hostname != "db-0" ||
		e.Target != (TargetRef{Kind: "Pod", Key: Key{testNamespace, "a"}, UID: "uid-a"}) {
		t.Errorf("%+v", e)
	}
	if e, _ := one(onNode("")); e.NodeName != "" || e.Zone != "" {
		t.Errorf("a pod without node: %+v", e)
	}
	for _, subdomain := range []string{"", "other"} {
		if e, _ := one(withHostname("db-0", subdomain)); e.Hostname != "" {
			t.Errorf("subdomain %q: hostname %q", subdomain, e.Hostname)
		}
	}
	if e, rejected := one(withHostname("DB-0", "web")); e.Hostname != "" || len(rejected) != 1 || rejected[0].Reason != RejectHostname {
		t.Errorf("invalid hostname: %q %+v", e.Hostname, rejected)
	}
	if e, rejected := one(onNode("no/node")); e.NodeName != "" || e.Zone != "" || len(rejected) != 1 || rejected[0].Reason != RejectNodeName {
		t.Errorf("invalid node name: %q %+v", e.NodeName, rejected)
	}
	foreign := newPod("a", "10.0.0.1", withHostname("db-0", "web"), func(p *Pod) { p.Namespace = "elsewhere" })
	if got := compute(svc, foreign); got.Endpoints[0].Hostname != "" {
		t.Error("hostname of a pod in another namespace")
	}
}

// TestAMissingNodeNeverBlocks: upstream leaves the pod out of slices and tries
// again and again (kubernetes#107927); a Node says nothing about readiness.
func TestAMissingNodeNeverBlocks(t *testing.T) {
	got := compute(newService(), newPod("a", "10.0.0.1", onNode("gone")), newPod("b", "10.0.0.2", onNode("")))
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), []string{"10.0.0.1 http:8080/TCP ready serving", "10.0.0.2 http:8080/TCP ready serving"})
}

// TestSameAddressOfTwoPods keeps both, as upstream does (kubernetes#115906): an
// address is identified together with the pod behind it.
func TestSameAddressOfTwoPods(t *testing.T) {
	got := compute(newService(), newPod("new", "10.0.0.1"), newPod("old", "10.0.0.1", terminating))
	wantLines(t, "slices", showEndpoints(got.Endpoints), []string{"10.0.0.1 http:8080/TCP ready serving", "10.0.0.1 http:8080/TCP serving terminating"})
	wantLines(t, "Endpoints", showSubsets(Subsets(got.Endpoints)), []string{"10.0.0.1 |  | http:8080/TCP"})
}

func TestResultDoesNotDependOnTheOrderOfPods(t *testing.T) {
	pods := []*Pod{newPod("a", "10.0.0.9"), newPod("b", "10.0.0.10"), newPod("c", "10.0.0.9"), newPod("d", "fd00::1"), newPod("e", "bad")}
	svc := newService(ipFamilies(IPv4, IPv6))
	want := compute(svc, pods...)
	slices.Reverse(pods)
	got := compute(svc, pods...)
	wantLines(t, "endpoints", showEndpoints(got.Endpoints), showEndpoints(want.Endpoints))
	if !slices.Equal(got.Rejected, want.Rejected) {
		t.Errorf("rejected %+v, want %+v", got.Rejected, want.Rejected)
	}
	wantLines(t, "order is that of the texts", showEndpoints(want.Endpoints[:2]), []string{"10.0.0.10 http:8080/TCP ready serving", "10.0.0.9 http:8080/TCP ready serving"})
}
