// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubernetes/pkg/api/v1/endpoints"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/internal/subsettext"
	"tributary.dev/tributary/syncer"
)

// upstreamRepack runs upstream's RepackSubsets over our values. It compares
// application protocols by pointer, so equal ones share a pointer here, as they
// have within one Service.
func upstreamRepack(subsets []syncer.Subset) []corev1.EndpointSubset {
	input := endpointSubsets(subsets)
	shared := map[string]*string{}
	for i := range input {
		for j := range input[i].Ports {
			p := &input[i].Ports[j].AppProtocol
			if *p == nil {
				continue
			}
			if shared[**p] == nil {
				shared[**p] = *p
			}
			*p = shared[**p]
		}
	}
	return endpoints.RepackSubsets(input)
}

func diffRepack(subsets []syncer.Subset) string {
	got, want := endpointSubsets(syncer.Repack(subsets)), upstreamRepack(subsets)
	if apiequality.Semantic.DeepEqual(got, want) {
		return ""
	}
	return lines("input", showSubsets(endpointSubsets(subsets))) + lines("ours", showSubsets(got)) + lines("upstream", showSubsets(want))
}

// TestUpstreamAgreesWithTheRepackCases runs the cases of syncer's own tests.
func TestUpstreamAgreesWithTheRepackCases(t *testing.T) {
	text, err := os.ReadFile("../../syncer/testdata/repack.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := subsettext.ParseCases(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 33 {
		t.Errorf("%d cases, upstream's test has 33", len(cases))
	}
	for _, c := range cases {
		want := upstreamRepack(c.In)
		if got := endpointSubsets(c.Out); !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s:\n%s%s", c.Rule, lines("expected", showSubsets(got)), lines("upstream", showSubsets(want)))
		}
	}
}

// TestRepackEqualsUpstream compares random subsets, order included. The order
// of ports and subsets is that of hashes over a dump of the values, so a single
// wrong byte in the text of our dump would show here at once.
func TestRepackEqualsUpstream(t *testing.T) {
	seed := dice.Seed(t)
	for i := range 10_000 {
		g := newGenerator(seed, uint64(i))
		if d := diffRepack(g.subsets()); d != "" {
			t.Fatalf("seed %d, case %d:\n%s", seed, i, d)
		}
	}
}

// subsets draws subsets of few values, so that they collide.
func (g *generator) subsets() []syncer.Subset {
	subsets := make([]syncer.Subset, g.IntN(6))
	for i := range subsets {
		s := &subsets[i]
		for range g.IntN(5) {
			s.Ready = append(s.Ready, g.address())
		}
		for range g.IntN(3) {
			s.NotReady = append(s.NotReady, g.address())
		}
		for range g.IntN(5) {
			s.Ports = append(s.Ports, g.endpointPort())
		}
	}
	return subsets
}

func (g *generator) address() syncer.Address {
	a := syncer.Address{Addr: netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", g.IntN(12)))}
	if g.chance(20) {
		a.Addr = netip.MustParseAddr(fmt.Sprintf("fd00::%x", g.IntN(20)))
	}
	a.Hostname = pick(g, "", "", "h", "db-0")
	a.NodeName = pick(g, "", "node-1", "node-2")
	if g.chance(70) {
		a.Target = syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: pick(g, "", "ns"), Name: pick(g, "a", "b")}, UID: pick(g, "", "u1", "u2")}
	}
	return a
}

func (g *generator) endpointPort() syncer.Port {
	p := syncer.Port{Name: pick(g, "", "http", "metrics", "a"), Protocol: pick(g, syncer.TCP, syncer.UDP, syncer.SCTP, ""),
		Number: pick[int32](g, 80, 80, 8080, 65535, 0, -1)}
	if g.chance(30) {
		p.AppProtocol = syncer.AppProtocol{Value: pick(g, "", "http", "kubernetes.io/h2c"), Set: true}
	}
	return p
}
