// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

func service(namespace, name string) *syncer.Service {
	return &syncer.Service{Key: syncer.Key{Namespace: namespace, Name: name}}
}

func TestPlace(t *testing.T) {
	labelled := func(svc *syncer.Service, labels map[string]string) *syncer.Service {
		svc.Labels = labels
		return svc
	}
	annotated := func(value string) *syncer.Service {
		svc := service("shop", "web")
		svc.Annotations = map[string]string{AnnotationReplicate: value}
		return svc
	}
	external := service("shop", "web")
	external.ExternalName = true

	tests := []struct {
		name   string
		member string
		svc    *syncer.Service
		want   bool
	}{
		{"by default", "", service("shop", "web"), true},
		{"default namespace", "", service("default", "web"), true},
		{"kube-system by default", "", service("kube-system", "dns"), false},
		{"kube-system when nothing is excluded", "namespaces: {exclude: []}", service("kube-system", "dns"), true},
		{"kube-system when only include is given", "namespaces: {include: [kube-system]}", service("kube-system", "dns"), false},
		{"a namespace called kube", "", service("kube", "web"), true},
		{"included by name", "namespaces: {include: [shop]}", service("shop", "web"), true},
		{"not included", "namespaces: {include: [shop]}", service("shop-2", "web"), false},
		{"included by one glob of several", "namespaces: {include: [a, 'sh?p']}", service("shop", "web"), true},
		{"range in a glob", "namespaces: {include: ['team-[a-c]']}", service("team-b", "web"), true},
		{"outside the range", "namespaces: {include: ['team-[a-c]']}", service("team-d", "web"), false},
		{"exclude wins", "namespaces: {include: [shop], exclude: ['s*']}", service("shop", "web"), false},
		{"ExternalName", "", external, false},
		{"default/kubernetes", "", service("default", "kubernetes"), false},
		{"default/kubernetes whatever is included", "namespaces: {include: [default], exclude: []}", service("default", "kubernetes"), false},
		{"kubernetes elsewhere", "", service("shop", "kubernetes"), true},
		{"annotated false", "", annotated("false"), false},
		{"annotated true", "", annotated("true"), true},
		{"annotated with something else", "", annotated("False"), true},
		{"a replica", "", labelled(service("shop", "web"), map[string]string{syncer.LabelManagedBy: "tributary"}), false},
		{"managed by another", "", labelled(service("shop", "web"), map[string]string{syncer.LabelManagedBy: "Helm"}), true},
		{"selected", "serviceSelector: 'app=web,tier!=test'", labelled(service("shop", "web"), map[string]string{"app": "web"}), true},
		{"not selected", "serviceSelector: 'app=web,tier!=test'", labelled(service("shop", "web"), map[string]string{"app": "web", "tier": "test"}), false},
		{"selector and no labels", "serviceSelector: app", service("shop", "web"), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			member := mustParse(t, one(test.member)).Clusters[0]
			replica, ok := member.Place(test.svc)
			if ok != test.want {
				t.Fatalf("placed = %v, want %v", ok, test.want)
			}
			if want := test.svc.Key; ok && replica != want {
				t.Errorf("replica = %v, want %v", replica, want)
			}
			if !ok && replica != (syncer.Key{}) {
				t.Errorf("not placed, yet as %v", replica)
			}
			member.meaning = nil // as a Cluster built by hand
			if _, again := member.Place(test.svc); again != test.want {
				t.Errorf("without compiled rules placed = %v, want %v", again, test.want)
			}
		})
	}
}

func TestInvalidClusterPlacesNothing(t *testing.T) {
	for _, c := range []Cluster{
		{Namespaces: Namespaces{Include: []string{"*"}}, ServiceSelector: "a in b"},
		{Namespaces: Namespaces{Include: []string{"*"}}, AllowedCIDRs: []string{"x"}},
		{Namespaces: Namespaces{Include: []string{"["}}},
		{},
	} {
		if _, ok := c.Place(service("shop", "web")); ok {
			t.Errorf("%+v places a Service", c)
		}
	}
}

func TestAllowedPrefixes(t *testing.T) {
	member := mustParse(t, one("allowedCIDRs: [10.4.0.0/16, 'fd00:4::/64']")).Clusters[0]
	want := []netip.Prefix{netip.MustParsePrefix("10.4.0.0/16"), netip.MustParsePrefix("fd00:4::/64")}
	if got := member.AllowedPrefixes(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	member.meaning = nil
	if got := member.AllowedPrefixes(); !slices.Equal(got, want) {
		t.Errorf("without compiled rules: got %v, want %v", got, want)
	}
}

func BenchmarkPlace(b *testing.B) {
	c, err := Parse("f", []byte(one("serviceSelector: app=web")))
	if err != nil {
		b.Fatal(err)
	}
	svc := service("shop", "web")
	svc.Labels = map[string]string{"app": "web"}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Clusters[0].Place(svc); !ok {
			b.Fatal("not placed")
		}
	}
}

func TestOnly(t *testing.T) {
	for _, c := range []struct {
		include, want []string
	}{
		{[]string{"shop"}, []string{"shop"}},
		{[]string{"shop", "pay", "shop", "test-a"}, []string{"pay", "shop"}},
		{[]string{"shop", "*"}, nil},
		{[]string{"sho?"}, nil},
		{[]string{"[s]hop"}, nil},
		{nil, nil},
	} {
		if got := (Namespaces{Include: c.include, Exclude: []string{"test-*"}}).Only(); !slices.Equal(got, c.want) {
			t.Errorf("only one of %q: %q, want %q", c.include, got, c.want)
		}
	}
}

// TestExcludedSaysWhy: whatever is not placed has a reason, and what is placed has none.
func TestExcludedSaysWhy(t *testing.T) {
	c := Cluster{Name: "a", ServiceSelector: "app=web"}
	c.SetDefaults()
	c.ServiceSelector = "app=web"
	for name, test := range map[string]struct {
		svc  syncer.Service
		want string
	}{
		"placed":    {syncer.Service{Key: syncer.Key{Namespace: "shop", Name: "web"}, Labels: map[string]string{"app": "web"}}, ""},
		"annotated": {syncer.Service{Key: syncer.Key{Namespace: "shop", Name: "web"}, Annotations: map[string]string{AnnotationReplicate: "false"}}, "annotation"},
		"namespace": {syncer.Service{Key: syncer.Key{Namespace: "kube-system", Name: "dns"}}, "namespaces.exclude"},
		"selector":  {syncer.Service{Key: syncer.Key{Namespace: "shop", Name: "web"}}, "serviceSelector"},
		"external":  {syncer.Service{Key: syncer.Key{Namespace: "shop", Name: "web"}, ExternalName: true}, "ExternalName"},
	} {
		got := c.Excluded(&test.svc)
		_, placed := c.Place(&test.svc)
		if !strings.Contains(got, test.want) || (got == "") != placed || (test.want == "") != placed {
			t.Errorf("%s: %q, placed %v", name, got, placed)
		}
	}
}
