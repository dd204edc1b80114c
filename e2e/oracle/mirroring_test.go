// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints and the plain fake clientset are what is tested with

package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// TestHandWrittenEqualsUpstreamsMirror compares what we make of hand-written
// Endpoints: verbatim subsets, and the slices of upstream's mirroring
// controller, none where skip-mirror says so.
func TestHandWrittenEqualsUpstreamsMirror(t *testing.T) {
	seed := rand.Uint64()
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	var list []HandWritten
	var ours []syncer.Contribution
	expected := 0
	for i := range 2000 {
		h := g.handWritten(fmt.Sprintf("case-%d", i))
		decoder := store.NewDecoder(nil)
		svc, ep := decoder.Service(h.Service).Object, decoder.Endpoints(h.Endpoints).Object
		c := syncer.HandWritten(&svc, ep.Subsets, nil, ep.SkipMirror, syncer.Options{})
		if got := endpointSubsets(c.Subsets); !apiequality.Semantic.DeepEqual(got, h.Endpoints.Subsets) {
			t.Fatalf("seed %d, case %d: not verbatim:\n%s", seed, i, sideBySide(showSubsets(got), showSubsets(h.Endpoints.Subsets)))
		}
		list, ours = append(list, h), append(ours, c)
		expected += len(pack(c))
	}
	upstream, err := UpstreamMirror(t.Context(), list, expected)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	for i, h := range list {
		got, want := flatten(pack(ours[i])), flatten(spellOut(upstream[h.Service.Namespace]))
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, case %d: labels %v\n%s%s", seed, i, h.Endpoints.Labels, lines("given", showSubsets(h.Endpoints.Subsets)), sideBySide(got, want))
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

// spellOut adds what the mirroring controller leaves unset (C1).
func spellOut(list []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	for _, s := range list {
		for i := range s.Endpoints {
			conditions := &s.Endpoints[i].Conditions
			conditions.Serving, conditions.Terminating = conditions.Ready, new(false)
		}
	}
	return list
}

// handWritten draws Endpoints that an API server would take. Port names do not
// repeat within a subset (we spread those over several slices, upstream makes
// one that the server refuses), a target is known by its uid alone, and only a
// single subset has application protocols: upstream compares those by pointer,
// so that a port which several subsets repeat is several ports to it.
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
	subsets := g.subsets()
	for _, s := range subsets {
		names := map[string]bool{"": true}
		s.Ports = slices.DeleteFunc(s.Ports, func(p syncer.Port) bool {
			bad := names[p.Name] || p.Number <= 0 || p.Protocol == "" || p.AppProtocol.Set && p.AppProtocol.Value == ""
			names[p.Name] = true
			return bad
		})
		for i := range s.Ports {
			if len(subsets) > 1 {
				s.Ports[i].AppProtocol = syncer.AppProtocol{}
			}
		}
		if len(s.Ready)+len(s.NotReady) == 0 {
			continue
		}
		for _, list := range [][]syncer.Address{s.Ready, s.NotReady} {
			for i := range list {
				if list[i].Target != (syncer.TargetRef{}) {
					list[i].Target.Name = "pod-" + list[i].Target.UID
				}
			}
		}
		h.Endpoints.Subsets = append(h.Endpoints.Subsets, endpointSubsets([]syncer.Subset{s})...)
	}
	return h
}
