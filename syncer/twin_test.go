// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
)

// The dumb twin of the rules: every sentence of docs/semantics.md as one line of
// code that loops over everything, shares nothing and sorts texts. What the rules
// make of random Services and pods must read the same.

// twinEndpoint is one address of one pod.
type twinEndpoint struct {
	Endpoint
	// inEndpoints and inSlices say where it belongs.
	inEndpoints, inSlices bool
}

// twinCompute lists the endpoints that a Service has, in no order.
func twinCompute(svc *Service, pods []*Pod, opts Options) (list []twinEndpoint) {
	if svc.ExternalName || svc.Selector == nil {
		return nil
	}
	families, podDecides := twinFamilies(svc)
	for _, pod := range pods {
		ports, belongs := twinPorts(svc, pod)
		then := twinThen(pod, opts.Rules)
		if pod.Terminal || len(pod.IPs) == 0 || !belongs || then == ThenAbsent {
			continue
		}
		first := twinFamily(pod.IPs[0].Addr.Unmap())
		for _, family := range []Family{IPv4, IPv6} {
			a, ok := twinAddress(pod, family, opts.AllowedCIDRs)
			if !ok || !slices.Contains(families, family) {
				continue
			}
			e := twinEndpoint{Endpoint: Endpoint{Addr: a, Ports: ports, Target: TargetRef{Kind: "Pod", Key: pod.Key, UID: pod.UID}}, inSlices: true}
			e.Terminating, e.Serving = pod.Terminating, pod.Ready
			if pod.Terminating {
				e.Ready = svc.PublishNotReadyAddresses
			} else {
				e.Grade = slices.Min(twinRows(svc, pod, opts))
				e.Ready = e.Grade > NotReady
				doubted := !svc.PublishNotReadyAddresses && pod.NodeSilent || then == ThenReady
				e.Serving = pod.Ready || e.Grade == Reserve || e.Grade == Ready && doubted
			}
			e.inEndpoints = family == families[0] && !podDecides || podDecides && family == first
			if twinSubdomain.MatchString(pod.NodeName) && len(pod.NodeName) <= 253 {
				e.NodeName = pod.NodeName
				e.Zone = pod.Labels.Map()["topology.kubernetes.io/zone"]
			}
			if pod.Subdomain == svc.Name && labelFormat.MatchString(pod.Hostname) && len(pod.Hostname) <= 63 {
				e.Hostname = pod.Hostname
			}
			list = append(list, e)
		}
	}
	return list
}

var twinSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// twinThen is what the first rule says that applies and matches.
func twinThen(pod *Pod, rules Rules) Then {
	for i, then := range rules.Then {
		if bit := uint64(1) << i; rules.Applies&bit != 0 && pod.Matches&bit != 0 {
			return then
		}
	}
	return ThenNothing
}

// twinRows are the grades of all rows that speak of a pod that is not being deleted; the
// lowest counts.
func twinRows(svc *Service, pod *Pod, opts Options) (rows []Grade) {
	then := twinThen(pod, opts.Rules)
	shorterThan := func(span time.Duration) bool { // the time since the condition changed
		return span > 0 && pod.ReadySince != 0 && opts.Now.Unix()-pod.ReadySince < int64(span.Seconds())
	}
	silent := !pod.Ready && pod.NodeSilent
	if !svc.PublishNotReadyAddresses {
		if !pod.Ready && !silent && then != ThenReady {
			rows = append(rows, NotReady)
		}
		if silent && !shorterThan(opts.HoldSilentNodes) {
			rows = append(rows, Reserve)
		}
		if pod.Ready && pod.WasReady && shorterThan(opts.StableFor) {
			rows = append(rows, Reserve)
		}
	}
	if then == ThenNotReady {
		rows = append(rows, Reserve)
	}
	return append(rows, Ready)
}

func twinFamily(a netip.Addr) Family {
	if strings.Contains(a.String(), ":") {
		return IPv6
	}
	return IPv4
}

func twinFamilies(svc *Service) (families []Family, podDecides bool) {
	for _, f := range svc.IPFamilies {
		if (f == IPv4 || f == IPv6) && !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	switch {
	case len(families) > 0:
		return families, false
	case svc.ClusterIP == "" || svc.ClusterIP == "None":
		return []Family{IPv4, IPv6}, true
	case strings.Contains(svc.ClusterIP, ":"):
		return []Family{IPv6}, false
	}
	return []Family{IPv4}, false
}

// twinAddress is the first address of a family that an API server accepts and the
// configuration allows.
func twinAddress(pod *Pod, family Family, allowed []netip.Prefix) (netip.Addr, bool) {
	for _, ip := range pod.IPs {
		a := ip.Addr.Unmap()
		if !a.IsValid() || a.Zone() != "" || twinFamily(a) != family ||
			a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
			continue
		}
		if len(allowed) == 0 || slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// twinPorts are the Service's ports at a pod; one that has none of them does not
// belong to the Service, unless that is headless and has no ports at all.
func twinPorts(svc *Service, pod *Pod) (ports []Port, belongs bool) {
	if len(svc.Ports) == 0 {
		return nil, svc.ClusterIP == "None"
	}
	// Names are dealt out in the order of the Service: a second port of a name, or
	// one without name among several, is no port, whatever the pod says.
	taken := map[string]bool{}
	for _, p := range svc.Ports {
		port := Port{Name: p.Name, Protocol: cmp.Or(p.Protocol, TCP), Number: p.Target.Number, AppProtocol: p.AppProtocol}
		probe := port
		if p.Target.Name != "" {
			probe.Number = 1
		}
		if taken[p.Name] || p.Name == "" && len(svc.Ports) > 1 || !twinValid(probe) {
			continue
		}
		taken[p.Name] = true
		if p.Target.Name != "" {
			port.Number = 0
			for _, c := range slices.Backward(pod.Ports) {
				if c.Name == p.Target.Name && cmp.Or(c.Protocol, TCP) == port.Protocol {
					port.Number = c.Port
				}
			}
		}
		if twinValid(port) {
			ports = append(ports, port)
		}
	}
	return ports, len(ports) > 0
}

func twinValid(p Port) bool {
	return p.Number > 0 && p.Number < 65536 && slices.Contains([]string{"TCP", "UDP", "SCTP"}, p.Protocol) &&
		(p.Name == "" || len(p.Name) <= 63 && labelFormat.MatchString(p.Name)) &&
		(!p.AppProtocol.Set || qualifiedByFormat(p.AppProtocol.Value))
}

// line is an endpoint as text, with every field that is written.
func (e *twinEndpoint) line() string {
	only := e.Only
	if e.inEndpoints && !e.inSlices {
		only = KindEndpoints
	}
	if e.inSlices && !e.inEndpoints {
		only = KindEndpointSlices
	}
	ports := fmt.Sprint(e.Ports)
	return fmt.Sprintf("%v %s %v ready=%v serving=%v terminating=%v node=%s zone=%s host=%s %#v only=%d",
		e.Addr, ports, e.Grade, e.Ready, e.Serving, e.Terminating, e.NodeName, e.Zone, e.Hostname, e.Target, only)
}

// lines of a contribution.
func lines(c Contribution) (list []string) {
	for _, e := range c.Endpoints {
		t := twinEndpoint{Endpoint: e, inSlices: e.In(KindEndpointSlices),
			inEndpoints: e.In(KindEndpoints)}
		list = append(list, t.line())
	}
	return list
}

func twinLines(list []twinEndpoint) (out []string) {
	for i := range list {
		out = append(out, list[i].line())
	}
	return out
}

// throw returns a source of choices for one case.
func throw(r *rand.Rand, n int) *source {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return &source{data}
}

// epoch is about when the conditions of the pods of random tests changed, in Unix seconds.
const epoch = 1000

// options returns some settings of a member.
func (s *source) options() Options {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	opts := Options{HoldSilentNodes: seconds(10 * s.n(3)), StableFor: seconds(10 * s.n(3)), Now: time.Unix(epoch+int64(5*s.n(8)), 0)}
	if s.n(3) == 0 {
		opts.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29"), netip.MustParsePrefix("fd00::/16")}
	}
	opts.Rules.Applies = uint64(s.n(16))
	for range s.n(4) {
		opts.Rules.Then = append(opts.Rules.Then, chooseFrom(s, ThenReady, ThenNotReady, ThenAbsent, ThenUpstream))
	}
	return opts
}

// anyService is service with what fuzzing leaves out.
func (s *source) anyService() *Service {
	svc := s.service()
	if s.n(3) > 0 { // ports as most Services have them
		svc.Ports = []ServicePort{numbered("web", 80, 8080), named("http", 81, "http")}[s.n(2):]
	}
	svc.ExternalName = s.n(20) == 0
	if s.n(20) == 0 {
		svc.Selector = nil
	}
	return svc
}

func (s *source) pods(limit int) (pods []*Pod) {
	for i := range s.n(limit) {
		pods = append(pods, s.pod(i))
	}
	return pods
}

func TestRulesEqualTheirTwin(t *testing.T) {
	served := map[Grade]int{}
	for seed := range dice.Seeds(t, 4000) {
		s := throw(dice.From(seed, 1), 500)
		svc, pods, opts := s.anyService(), s.pods(12), s.options()
		c := Compute(svc, slices.Values(pods), opts)
		got, want := lines(c), twinLines(twinCompute(svc, pods, opts))
		for i := range c.Endpoints {
			served[c.Endpoints[i].Grade]++
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %+v\n got %s\nwant %s", seed, svc, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
		if !slices.IsSortedFunc(c.Endpoints, func(a, b Endpoint) int {
			return cmp.Or(strings.Compare(a.Addr.String(), b.Addr.String()), strings.Compare(a.Target.UID, b.Target.UID), strings.Compare(a.Target.Name, b.Target.Name))
		}) {
			t.Fatalf("seed %d: order of texts: %q", seed, showEndpoints(c.Endpoints))
		}
	}
	for _, grade := range []Grade{NotReady, Reserve, Ready} {
		if served[grade] < 300 {
			t.Errorf("only %d endpoints of grade %v were compared", served[grade], grade)
		}
	}
}

// twinSubsets says for each address and port whether it is ready: not ready wins.
func twinSubsets(list []twinEndpoint) map[string]bool {
	facts := map[string]bool{}
	for _, e := range list {
		if !e.inEndpoints || e.Terminating && !e.Ready {
			continue
		}
		ports := e.Ports
		if len(ports) == 0 {
			ports = []Port{{}}
		}
		for _, p := range ports {
			at := fmt.Sprint(e.Addr, e.Target.UID, p)
			ready, known := facts[at]
			facts[at] = e.Ready && (ready || !known)
		}
	}
	return facts
}

// factsOf reads the same from subsets, and fails for a fact that is there twice.
func factsOf(t *testing.T, subsets []Subset) map[string]bool {
	t.Helper()
	facts := map[string]bool{}
	note := func(a Address, p Port, ready bool) {
		at := fmt.Sprint(a.Addr, a.Target.UID, p)
		if _, told := facts[at]; told {
			t.Errorf("%s is told twice in %q", at, showSubsets(subsets))
		}
		facts[at] = ready
	}
	for _, s := range subsets {
		ports := s.Ports
		if len(ports) == 0 {
			ports = []Port{{}}
		}
		for _, p := range ports {
			for _, a := range s.Ready {
				note(a, p, true)
			}
			for _, a := range s.NotReady {
				note(a, p, false)
			}
		}
	}
	return facts
}

func TestSubsetsEqualTheirTwin(t *testing.T) {
	for seed := range dice.Seeds(t, 4000) {
		s := throw(dice.From(seed, 2), 500)
		svc, pods, opts := s.anyService(), s.pods(12), s.options()
		c := Compute(svc, slices.Values(pods), opts)
		subsets := Subsets(c.Endpoints)
		got, want := factsOf(t, subsets), twinSubsets(twinCompute(svc, pods, opts))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, want)
		}
		if again := Repack(subsets); len(again) != len(subsets) || fmt.Sprint(factsOf(t, again)) != fmt.Sprint(got) {
			t.Fatalf("seed %d: canonical subsets change when they are repacked:\n%q\n%q", seed, showSubsets(subsets), showSubsets(again))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
