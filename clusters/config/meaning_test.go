// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestReplicates(t *testing.T) {
	c := mustParse(t, `clusters: [{name: a, kubeconfig: a, serviceSelector: "tier=web", namespaces: {include: [shop, "team-*", default], exclude: ["team-x*"]}}]`).Clusters[0]
	excluded := c.Replicates()
	for _, test := range []struct {
		name   string
		change func(*syncer.Service)
		want   string
	}{
		{"shop/web", nil, ""},
		{"team-a/web", nil, ""},
		{"team-xy/web", nil, "namespaces.include and namespaces.exclude"},
		{"other/web", nil, "namespaces.include and namespaces.exclude"},
		{"default/kubernetes", nil, "every cluster has its own"},
		{"default/web", nil, ""},
		{"shop/web", func(s *syncer.Service) { s.ExternalName = true }, "ExternalName"},
		{"shop/web", func(s *syncer.Service) { s.Labels = nil }, "serviceSelector"},
		{"shop/web", func(s *syncer.Service) { s.Annotations = map[string]string{"tributary.dev/replicate": "false"} }, "tributary.dev/replicate"},
		{"shop/web", func(s *syncer.Service) { s.Annotations = map[string]string{"tributary.dev/replicate": "no"} }, ""},
		{"shop/web", func(s *syncer.Service) { s.Annotations = map[string]string{"tributary.dev/replica": "shop/web"} }, "replica itself"},
		{"shop/web", func(s *syncer.Service) { s.Labels["app.kubernetes.io/managed-by"] = "tributary" }, "replica itself"},
	} {
		key, _ := syncer.ParseKey(test.name)
		svc := &syncer.Service{Key: key, Labels: map[string]string{"tier": "web"}}
		if test.change != nil {
			test.change(svc)
		}
		if got := excluded(svc); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, not %q", test.name, got, test.want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	for text, want := range map[string]string{
		`["*"]`: "[] true", `[shop, pay, shop]`: "[pay shop] true", `[shop, "pay-*"]`: "[] false", `[kube-system, a]`: "[a] false",
	} {
		n := mustParse(t, "clusters: [{name: a, kubeconfig: a, namespaces: {include: "+text+"}}]").Clusters[0].Namespaces
		if got := fmt.Sprint(n.Plain(), " ", n.Match("pay")); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestSettingsTellMembersApart(t *testing.T) {
	texts := map[string]string{}
	for _, more := range []string{
		"", "drain: true", "stableFor: 1s", "holdSilentNodes: 1s", "staleAfter: 1s", "observeNative: true", "allowedCIDRs: [10.0.0.0/8]",
		"serviceSelector: a", "namespaces: {include: [a]}", "namespaces: {exclude: []}",
	} {
		c := mustParse(t, "clusters: [{name: a, kubeconfig: a, "+more+"}]").Clusters[0]
		if other, known := texts[c.Settings()]; known {
			t.Errorf("%q and %q are one", more, other)
		}
		texts[c.Settings()] = more
	}
	if c := mustParse(t, "clusters: [{name: a, kubeconfig: other, context: c}]").Clusters[0]; texts[c.Settings()] != "" {
		t.Error("the way to a member is one of its settings")
	}
}

func TestMayWrite(t *testing.T) {
	c := mustParse(t, `{namespace: own, ingress: {namespaces: ["*"]}}`)
	d := mustParse(t, `{namespace: own, ingress: {namespaces: [own, "team-*"]}}`)
	for namespace, want := range map[string]string{"own": "false false", "kube-system": "false false", "shop": "true false", "team-a": "true true"} {
		if got := fmt.Sprint(c.MayWrite(namespace), d.MayWrite(namespace)); got != want {
			t.Errorf("%s: %s", namespace, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	r := mustParse(t, `
clusters: [{name: a, kubeconfig: a}, {name: b, kubeconfig: b}, {name: c, kubeconfig: c}]
replicas: {write: [EndpointSlices], failover: [{namespaces: [pay-x], order: [c]}, {namespaces: ["pay-*"], order: [b, a]}]}`).Replicas
	for namespace, want := range map[string]string{"shop": "0 0 0", "pay-a": "1 0 2", "pay-x": "1 1 0"} {
		if got := fmt.Sprint(r.Place(namespace, "a"), r.Place(namespace, "b"), r.Place(namespace, "c")); got != want {
			t.Errorf("%s: %s", namespace, got)
		}
	}
	if r.WritesEndpoints() || !defaults().Replicas.WritesEndpoints() {
		t.Error("Endpoints are written where they should not be, or not where they should")
	}
}

func TestCopies(t *testing.T) {
	r := mustParse(t, `replicas: {copyAnnotations: ["nginx.ingress.kubernetes.io/*", exact, helm.sh/chart]}`).Replicas
	for key, want := range map[string]string{
		"app": "true false", "exact": "true true", "nginx.ingress.kubernetes.io/x/y": "true true", "exactly": "true false",
		"argocd.argoproj.io/instance": "false false", "kustomize.toolkit.fluxcd.io/name": "false false", "helm.sh/chart": "false false",
		"app.kubernetes.io/instance": "false false", "app.kubernetes.io/name": "true false", "nothelm.sh/x": "true false", "olm.owner": "false false",
	} {
		if got := fmt.Sprint(r.CopiesLabel(key), r.CopiesAnnotation(key)); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
}

func TestSelects(t *testing.T) {
	c := mustParse(t, `sinks: [{name: s, url: "https://x/", namespaces: ["pay-*"], serviceSelector: "!hidden"}]`)
	selects := c.Sinks[0].Selects()
	for key, want := range map[string]bool{"pay-a": true, "shop": false} {
		if got := selects(syncer.Key{Namespace: key, Name: "web"}, nil); got != want {
			t.Errorf("%s: %t", key, got)
		}
	}
	if selects(syncer.Key{Namespace: "pay-a", Name: "web"}, map[string]string{"hidden": ""}) {
		t.Error("a sink is told of a replica that the selector leaves out")
	}
}
