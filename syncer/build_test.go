// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// The builders of this package's tests: a pod or Service that works, changed by
// the options that a case is about.

const testNamespace = "shop"

type podOption func(*Pod)

func newPod(name, ip string, options ...podOption) *Pod {
	p := &Pod{Key: Key{Namespace: testNamespace, Name: name}, UID: "uid-" + name, NodeName: "node-1", Ready: true, ReadySince: 100}
	if ip != "" {
		p.IPs = []PodIP{podIP(ip)}
	}
	for _, option := range options {
		option(p)
	}
	return p
}

func podIP(text string) PodIP {
	if addr, ok := ParseAddr(text); ok {
		return PodIP{Addr: addr}
	}
	return PodIP{Raw: text}
}

func notReady(p *Pod)    { p.Ready = false }
func terminating(p *Pod) { p.Terminating = true }
func terminal(p *Pod)    { p.Terminal = true }

func withIPs(texts ...string) podOption {
	return func(p *Pod) {
		p.IPs = nil
		for _, text := range texts {
			p.IPs = append(p.IPs, podIP(text))
		}
	}
}

func silent(p *Pod)                   { p.Ready, p.NodeSilent = false, true }
func wasReady(p *Pod)                 { p.WasReady = true }
func since(at int64) podOption        { return func(p *Pod) { p.ReadySince = at } }
func matching(rules uint64) podOption { return func(p *Pod) { p.Matches = rules } }
func inZone(zone string) podOption {
	return func(p *Pod) { p.Labels = LabelsOf(map[string]string{"app": "web", labelZone: zone}) }
}

func withPorts(ports ...ContainerPort) podOption { return func(p *Pod) { p.Ports = ports } }
func withUID(uid string) podOption               { return func(p *Pod) { p.UID = uid } }
func onNode(name string) podOption               { return func(p *Pod) { p.NodeName = name } }
func withHostname(host, sub string) podOption {
	return func(p *Pod) { p.Hostname, p.Subdomain = host, sub }
}

type serviceOption func(*Service)

// newService is a ClusterIP Service "web" with port http, number 80 → 8080.
func newService(options ...serviceOption) *Service {
	s := &Service{Key: Key{Namespace: testNamespace, Name: "web"}, UID: "uid-web", Created: 50,
		Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", IPFamilies: []Family{IPv4},
		Ports: []ServicePort{numbered("http", 80, 8080)}}
	for _, option := range options {
		option(s)
	}
	return s
}

func numbered(name string, port, target int32) ServicePort {
	return ServicePort{Name: name, Protocol: TCP, Port: port, Target: TargetPort{Number: target}}
}

func named(name string, port int32, target string) ServicePort {
	return ServicePort{Name: name, Protocol: TCP, Port: port, Target: TargetPort{Name: target}}
}

func servicePorts(ports ...ServicePort) serviceOption { return func(s *Service) { s.Ports = ports } }
func ipFamilies(f ...Family) serviceOption            { return func(s *Service) { s.IPFamilies = f } }
func clusterIP(ip string) serviceOption               { return func(s *Service) { s.ClusterIP = ip } }
func publishNotReady(s *Service)                      { s.PublishNotReadyAddresses = true }

// compute is Compute for a list of pods.
func compute(svc *Service, pods ...*Pod) Contribution {
	return Compute(svc, slices.Values(pods), Options{})
}

// showEndpoint renders an endpoint as a line that a table can hold.
func showEndpoint(e Endpoint) string {
	var b strings.Builder
	fmt.Fprint(&b, e.Addr)
	for _, p := range e.Ports {
		fmt.Fprintf(&b, " %s", p)
		if p.AppProtocol.Set {
			fmt.Fprintf(&b, "(%s)", p.AppProtocol.Value)
		}
	}
	for _, flag := range []struct {
		text string
		on   bool
	}{{"ready", e.Ready}, {"serving", e.Serving}, {"terminating", e.Terminating}} {
		if flag.on {
			b.WriteString(" " + flag.text)
		}
	}
	switch e.Only {
	case KindEndpoints:
		b.WriteString(" (Endpoints only)")
	case KindEndpointSlices:
		b.WriteString(" (slices only)")
	}
	return b.String()
}

func showEndpoints(endpoints []Endpoint) []string {
	var lines []string
	for _, e := range endpoints {
		lines = append(lines, showEndpoint(e))
	}
	return lines
}

// showSubsets renders subsets as "ready | not ready | ports".
func showSubsets(subsets []Subset) []string {
	var lines []string
	list := func(addresses []Address) string {
		var texts []string
		for _, a := range addresses {
			text := a.Addr.String()
			if a.Target.UID != "" && !strings.HasPrefix(a.Target.UID, "uid-") {
				text += "#" + a.Target.UID
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, " ")
	}
	for _, s := range subsets {
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, p.String())
		}
		lines = append(lines, list(s.Ready)+" | "+list(s.NotReady)+" | "+strings.Join(ports, " "))
	}
	return lines
}

func wantLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got  %s\n want %s", what, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }
