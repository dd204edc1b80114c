// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// TestWhateverAMemberSendsIsAccepted: a member's API server may be broken or
// hostile, and one refused field would freeze the whole replica, which other
// members share. So an API server must accept our output for any input.
func TestWhateverAMemberSendsIsAccepted(t *testing.T) {
	seed := dice.Seed(t)
	for i := range uint64(8000) {
		g := newGenerator(seed, i)
		c := NewCase(seed, i)
		c.Pods = c.Pods[:min(len(c.Pods), 15)]
		g.spoil(c)
		if err := Validate(Compute(c)); err != nil {
			t.Fatalf("seed %d, case %d: %v", seed, i, err)
		}
	}
}

// spoil puts garbage into fields for which an API server would refuse it.
func (g *generator) spoil(c *Case) {
	for i := range c.Service.Spec.Ports {
		p := &c.Service.Spec.Ports[i]
		if g.chance(30) {
			p.Name = g.garbage()
		}
		if g.chance(15) {
			p.Protocol = corev1.Protocol(pick(g, "", "tcp", "ICMP", "TCP "))
		}
		if g.chance(20) {
			p.AppProtocol = new(g.garbage())
		}
		if g.chance(20) {
			p.TargetPort.Type, p.TargetPort.IntVal = 0, pick[int32](g, 0, -1, 65536, 1<<30)
		}
	}
	for _, p := range c.Pods {
		if g.chance(10) {
			p.Spec.NodeName = g.garbage()
		}
		if g.chance(10) {
			p.Spec.Hostname, p.Spec.Subdomain = g.garbage(), c.Service.Name
		}
		for i := range p.Status.PodIPs {
			if g.chance(10) {
				p.Status.PodIPs[i].IP = g.addressText()
			}
		}
		for i := range p.Spec.Containers {
			for j := range p.Spec.Containers[i].Ports {
				if g.chance(10) {
					p.Spec.Containers[i].Ports[j].ContainerPort = pick[int32](g, 0, -1, 65536, 1<<30)
				}
			}
		}
	}
}

func (g *generator) garbage() string {
	return pick(g, "", "http", "UPPER", "-dash", "dash-", "dot.ted", "a/b", "a/b/c", "\x00", "ü", " ", strings.Repeat("x", 64), strings.Repeat("x", 254),
		strings.Repeat("x.", 126)+"x", "_under", "1.2.3.4", "\n")
}

// TestWhateverIsWrittenByHandIsAccepted is the same for Endpoints and slices of
// Services without a selector.
func TestWhateverIsWrittenByHandIsAccepted(t *testing.T) {
	seed := dice.Seed(t)
	for i := range uint64(8000) {
		g := newGenerator(seed, i)
		service := g.service("shop")
		service.Spec.Selector, service.Spec.Type = nil, corev1.ServiceTypeClusterIP
		svc := decode.New(decode.Options{}).Service(service).Object
		subsets := g.garbledSubsets()
		c := syncer.HandWritten(&svc, subsets, g.garbledSlices(), g.chance(20), syncer.Options{})
		packed := syncer.Pack(nil, c.Endpoints, c.Families, syncer.PackOptions{Service: svc.Key, Cluster: "member"})
		if err := Validate(&Ours{Contribution: c, Subsets: c.Subsets, Slices: packed}); err != nil {
			t.Fatalf("seed %d, case %d: %v\n%s", seed, i, err, lines("input", showSubsets(endpointSubsets(subsets))))
		}
	}
}

func (g *generator) garbledSubsets() []syncer.Subset {
	subsets := g.subsets()
	for i := range subsets {
		s := &subsets[i]
		for _, a := range slices.Concat(pointersOf(s.Ready), pointersOf(s.NotReady)) {
			g.garble(a)
		}
		for j := range s.Ports {
			if g.chance(10) {
				s.Ports[j].Name = g.garbage()
			}
		}
	}
	return subsets
}

func (g *generator) garble(a *syncer.Address) {
	if g.chance(10) {
		a.Addr, _ = syncer.ParseAddr(g.ip(3, true))
	}
	if g.chance(5) {
		a.Hostname = g.garbage()
	}
	if g.chance(5) {
		a.NodeName = g.garbage()
	}
}

func (g *generator) garbledSlices() []syncer.Slice {
	var out []syncer.Slice
	for _, s := range g.garbledSubsets() {
		slice := syncer.Slice{Name: "s", Family: pick[syncer.Family](g, syncer.IPv4, syncer.IPv6, "FQDN", ""), Ports: s.Ports}
		for _, a := range s.Ready {
			slice.Endpoints = append(slice.Endpoints, syncer.Endpoint{Addr: a.Addr, Hostname: a.Hostname, NodeName: a.NodeName, Target: a.Target})
		}
		out = append(out, slice)
	}
	return out
}

func pointersOf[T any](list []T) []*T {
	return slices.Collect(pointers(list))
}
