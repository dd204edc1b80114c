// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubernetes/pkg/api/v1/endpoints"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// TestHandWrittenEqualsUpstreamsMirror compares what we compute from hand-written
// Endpoints: verbatim subsets, and the slices of upstream's mirroring controller,
// none with the label skip-mirror.
func TestHandWrittenEqualsUpstreamsMirror(t *testing.T) {
	compareMirror(t, dice.Seed(t))
	compareMirror(t, metDoubled)
}

// mirrored is how many objects are compared.
const mirrored = 2000

func compareMirror(t *testing.T, seed uint64) {
	t.Helper()
	g := newGenerator(seed, 0)
	var list []HandWritten
	var ours []syncer.Contribution
	for i := range mirrored {
		h := g.handWritten(fmt.Sprintf("case-%d", i))
		decoder := decode.New(decode.Options{})
		svc, ep := decoder.Service(h.Service).Object, decoder.Endpoints(h.Endpoints).Object
		c := syncer.HandWritten(&svc, ep.Subsets, nil, ep.SkipMirror, syncer.Options{})
		if got := endpointSubsets(c.Subsets); !apiequality.Semantic.DeepEqual(got, h.Endpoints.Subsets) {
			t.Fatalf("seed %d, case %d: not verbatim:\n%s", seed, i, sideBySide(showSubsets(got), showSubsets(h.Endpoints.Subsets)))
		}
		list, ours = append(list, h), append(ours, c)
	}
	upstream, err := UpstreamMirror(t.Context(), list)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for i, h := range list {
		got, want := flatten(pack(ours[i])), flatten(spellOut(upstream[h.Service.Namespace]))
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, case %d: labels %v\n%s%s", seed, i, h.Endpoints.Labels, lines("input", showSubsets(h.Endpoints.Subsets)), sideBySide(got, want))
		}
	}
}

func pack(c syncer.Contribution) []*discoveryv1.EndpointSlice {
	packed := syncer.Pack(nil, c.Endpoints, c.Families, syncer.PackOptions{Service: c.Service.Key, Cluster: "member"})
	out := make([]*discoveryv1.EndpointSlice, len(packed))
	for i := range packed {
		out[i] = endpointSlice(&packed[i])
	}
	return out
}

// spellOut sets what the mirroring controller leaves unset (C1).
func spellOut(list []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	for _, s := range list {
		for i := range s.Endpoints {
			conditions := &s.Endpoints[i].Conditions
			conditions.Serving, conditions.Terminating = conditions.Ready, new(false)
		}
	}
	return list
}

// handWritten draws Endpoints that an API server would accept, without what is known
// to differ (docs/semantics.md): a name never means two ports of one address, in one
// subset or in two, for we spread those over several slices and upstream makes one
// that the server refuses; a target has only a uid; and only a single subset has
// application protocols, which upstream compares by pointer, so that a port which
// several subsets repeat is several ports to it.
func (g *generator) handWritten(namespace string) HandWritten {
	h := HandWritten{Service: g.service(namespace), Endpoints: &corev1.Endpoints{}}
	h.Service.Spec.Selector = nil
	h.Service.Spec.Type = corev1.ServiceTypeClusterIP
	h.Endpoints.Namespace, h.Endpoints.Name = namespace, h.Service.Name
	if g.chance(30) {
		h.Endpoints.Labels = map[string]string{discoveryv1.LabelSkipMirror: pick(g, "true", "false", "True")}
	}
	if g.chance(5) {
		h.Endpoints.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}
	}
	// Odd addresses have one list of ports, even ones another: names repeat between them.
	var meaning [2]map[string]syncer.Port
	meaning[0], meaning[1] = map[string]syncer.Port{}, map[string]syncer.Port{}
	subsets := g.subsets()
	for _, s := range subsets {
		parity := g.IntN(2)
		s.Ports = oneMeaning(s.Ports, meaning[parity])
		for i := range s.Ports {
			if len(subsets) > 1 {
				s.Ports[i].AppProtocol = syncer.AppProtocol{}
			}
		}
		if len(s.Ready)+len(s.NotReady) == 0 {
			continue
		}
		for _, a := range slices.Concat(pointersOf(s.Ready), pointersOf(s.NotReady)) {
			a.Addr = withParity(a.Addr, parity)
			if a.Target != (syncer.TargetRef{}) {
				a.Target.Name = "pod-" + a.Target.UID
			}
		}
		h.Endpoints.Subsets = append(h.Endpoints.Subsets, endpointSubsets([]syncer.Subset{s})...)
	}
	return h
}

// oneMeaning returns each name of a list once, with the port that it first meant.
func oneMeaning(ports []syncer.Port, meaning map[string]syncer.Port) []syncer.Port {
	var unique []syncer.Port
	for _, p := range ports {
		bad := p.Name == "" || p.Number <= 0 || p.Protocol == "" || p.AppProtocol.Set && p.AppProtocol.Value == ""
		if bad || slices.ContainsFunc(unique, func(k syncer.Port) bool { return k.Name == p.Name }) {
			continue
		}
		if _, ok := meaning[p.Name]; !ok {
			meaning[p.Name] = p
		}
		unique = append(unique, meaning[p.Name])
	}
	return unique
}

// withParity makes the address odd or even.
func withParity(a netip.Addr, parity int) netip.Addr {
	b := a.AsSlice()
	b[len(b)-1] = b[len(b)-1]&^1 | byte(parity)
	a, _ = netip.AddrFromSlice(b)
	return a
}

// metDoubled is a seed that drew a name with two ports for one address, in two
// subsets, when handWritten looked for that within each subset only.
const metDoubled = 3872559564845097822

// TestHandWrittenLeavesOut checks that handWritten draws what it promises, and still
// draws what is worth comparing.
func TestHandWrittenLeavesOut(t *testing.T) {
	var shared, repeated int
	for seed := range dice.Seeds(t, 20) {
		s, r := checkHandWritten(t, seed)
		shared, repeated = shared+s, repeated+r
	}
	checkHandWritten(t, metDoubled)
	if shared < 1000 || repeated < 1000 {
		t.Errorf("%d addresses are in several subsets, %d names mean several ports of an object; too few to compare anything", shared, repeated)
	}
}

// checkHandWritten counts the addresses that several subsets share, and the names that
// mean several ports of one object.
func checkHandWritten(t *testing.T, seed uint64) (shared, repeated int) {
	t.Helper()
	g := newGenerator(seed, 0)
	for i := range mirrored {
		h := g.handWritten(fmt.Sprintf("case-%d", i))
		meaning, byAddress := map[string]map[corev1.EndpointPort]bool{}, map[string]map[string]corev1.EndpointPort{}
		for _, s := range h.Endpoints.Subsets {
			for _, p := range s.Ports {
				if meaning[p.Name] == nil {
					meaning[p.Name] = map[corev1.EndpointPort]bool{}
				}
				p.AppProtocol = nil
				meaning[p.Name][p] = true
			}
			for _, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
				ports := byAddress[a.IP]
				if ports == nil {
					ports = map[string]corev1.EndpointPort{}
					byAddress[a.IP] = ports
				} else {
					shared++
				}
				for _, p := range s.Ports {
					p.AppProtocol = nil
					if was, ok := ports[p.Name]; ok && was != p {
						t.Fatalf("seed %d, case %d: %s of %s is %v and %v", seed, i, p.Name, a.IP, was, p)
					}
					ports[p.Name] = p
				}
			}
		}
		for _, ports := range meaning {
			if len(ports) > 1 {
				repeated++
			}
		}
		for _, s := range endpoints.RepackSubsets(h.Endpoints.Subsets) {
			names := map[string]bool{}
			for _, p := range s.Ports {
				if names[p.Name] {
					t.Fatalf("seed %d, case %d: canonical subset has %q twice:\n%s", seed, i, p.Name, lines("input", showSubsets(h.Endpoints.Subsets)))
				}
				names[p.Name] = true
			}
		}
	}
	return shared, repeated
}
