// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"tributary.dev/tributary/syncer"
)

// three is a file of three members with extra lines of the second and of replicas.
func three(member, replicas string) string {
	text := header + "clusters:\n- {name: idc-a, kubeconfig: a}\n- name: idc-b\n  kubeconfig: b\n"
	if member != "" {
		text += indent(member)
	}
	text += "- {name: idc-c, kubeconfig: c}\n"
	if replicas != "" {
		text += "replicas:\n" + indent(strings.Split(replicas, "\n")...)
	}
	return text
}

// The nearest that says anything decides: the Service, its member, the first rule
// that matches, then what is said for all.
func TestNearestOpinionDecides(t *testing.T) {
	const rules = "mode: failover\nrules:\n- {namespaces: [s*], mode: separate}\n- {namespaces: [shop], mode: union}"
	tests := []struct {
		name, member, replicas string
		annotations            map[string]string
		want                   Mode
		order                  string
	}{
		{"by default", "", "", nil, ModeUnion, ""},
		{"for all", "", "mode: failover", nil, ModeFailover, "idc-a idc-b idc-c"},
		{"first rule that matches", "", rules, nil, ModeSeparate, ""},
		{"no rule matches", "", "mode: failover\nrules: [{namespaces: [pay], mode: separate}]", nil, ModeFailover, "idc-a idc-b idc-c"},
		{"the member before the rules", "mode: union", rules, nil, ModeUnion, ""},
		{"the member's failover in the rule's order", "mode: failover", "rules: [{namespaces: [shop], mode: separate, failover: [idc-c]}]", nil, ModeFailover, "idc-c idc-a idc-b"},
		{"the Service before its member", "mode: union", rules, map[string]string{AnnotationMode: "separate"}, ModeSeparate, ""},
		{"the Service may undo", "mode: separate", rules, map[string]string{AnnotationMode: "union"}, ModeUnion, ""},
		{"an order for all", "", "mode: failover\nfailover: [idc-c, idc-b]", nil, ModeFailover, "idc-c idc-b idc-a"},
		{"an order without a mode", "", "failover: [idc-c]", nil, ModeUnion, ""},
		{"an order of the rule alone", "", "mode: failover\nfailover: [idc-c]\nrules: [{namespaces: [shop], failover: [idc-b]}]", nil, ModeFailover, "idc-b idc-a idc-c"},
		{"the Service's order", "", "", map[string]string{AnnotationFailover: "idc-b, idc-a"}, ModeFailover, "idc-b idc-a idc-c"},
		{"the Service's order and mode", "", "", map[string]string{AnnotationFailover: "idc-b", AnnotationMode: "failover"}, ModeFailover, "idc-b idc-a idc-c"},
		{"the Service's order, another mode", "", "", map[string]string{AnnotationFailover: "idc-b", AnnotationMode: "union"}, ModeUnion, ""},
		{"the Service's mode, the common order", "", "failover: [idc-c]", map[string]string{AnnotationMode: "failover"}, ModeFailover, "idc-c idc-a idc-b"},
		{"a mode that is none", "mode: failover", "", map[string]string{AnnotationMode: "Failover!"}, ModeFailover, "idc-a idc-b idc-c"},
		{"an order of nobody", "", "", map[string]string{AnnotationFailover: " , ,"}, ModeUnion, ""},
		{"unknown and repeated names", "", "", map[string]string{AnnotationFailover: "idc-x,idc-c,idc-c,idc-b"}, ModeFailover, "idc-c idc-b idc-a"},
		{"an order that is too long", "", "", map[string]string{AnnotationFailover: strings.Repeat("idc-c,", 1000)}, ModeUnion, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := mustParse(t, three(test.member, test.replicas))
			svc := service("shop", "web")
			svc.Annotations = test.annotations
			policy := c.Policy()
			if got := policy.opinion("shop", "idc-b", svc).mode; got != test.want {
				t.Errorf("mode %q, want %q", got, test.want)
			}
			if got := strings.Join(policy.Order(svc.Key, "idc-b", svc), " "); got != test.order {
				t.Errorf("order %q, want %q", got, test.order)
			}
			replica, ok := c.Clusters[1].Place(svc)
			want := svc.Key
			if test.want == ModeSeparate {
				want.Name = "web-idc-b"
			}
			if !ok || replica != want {
				t.Errorf("placed %v as %v, want %v", ok, replica, want)
			}
		})
	}
}

func TestMisreadAnnotations(t *testing.T) {
	c := mustParse(t, three("", ""))
	policy := c.Policy()
	for value, want := range map[string]string{
		"": "use one of union, separate, failover", "union": "", "separate": "", "failover": "", "Union": `is "Union" and is ignored`,
	} {
		svc := service("shop", "web")
		svc.Annotations = map[string]string{AnnotationMode: value}
		if got := policy.Misread(svc); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("mode %q: %q, want %q", value, got, want)
		}
	}
	for value, want := range map[string]string{
		"": "", "idc-a,idc-c": "", "idc-a,idc-x": `names "idc-x", which is no configured cluster`, strings.Repeat("x", 5000): "longer than 4096",
	} {
		svc := service("shop", "web")
		svc.Annotations = map[string]string{AnnotationFailover: value}
		if got := policy.Misread(svc); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("failover %.20q: %q, want %q", value, got, want)
		}
	}
}

func TestDrain(t *testing.T) {
	c := mustParse(t, three("drain: true", ""))
	policy := c.Policy()
	for cluster, want := range map[string][2]bool{"idc-a": {}, "idc-b": {true, false}, "idc-x": {}} {
		if drain, force := policy.Drain(cluster); drain != want[0] || force != want[1] {
			t.Errorf("%s: drain %v, force %v", cluster, drain, force)
		}
	}
	c.Clusters[1].Force = true
	if _, force := c.Policy().Drain("idc-b"); !force {
		t.Error("force is lost")
	}
}

func TestSeparateNames(t *testing.T) {
	long := strings.Repeat("s", 63)
	for _, test := range []struct{ template, service, cluster, want string }{ // a want that ends with '-' goes on with a hash
		{"{service}-{cluster}", "web", "idc-a", "web-idc-a"},
		{"{cluster}-{service}", "web", "idc-a", "idc-a-web"},
		{"{service}-of-{cluster}-{namespace}", "web", "idc-a", "web-of-idc-a-shop"},
		{"{service}-{cluster}", strings.Repeat("s", 57), "idc-a", strings.Repeat("s", 57) + "-idc-a"},
		{"{service}-{cluster}", strings.Repeat("s", 58), "idc-a", strings.Repeat("s", 52) + "-"},
		{"{service}-{cluster}", strings.Repeat("s", 51) + "-aaaaaaaaaaa", "b", strings.Repeat("s", 51) + "-"}, // no "--" where it was cut
		{"{service}-{cluster}", long, long, strings.Repeat("s", 52) + "-"},
	} {
		got := separateName(test.template, syncer.Key{Namespace: "shop", Name: test.service}, test.cluster)
		if test.want != got && !(strings.HasSuffix(test.want, "-") && strings.HasPrefix(got, test.want) && len(got) == len(test.want)+hashLength) {
			t.Errorf("%s of %s in %s: %q, want %q", test.template, test.service, test.cluster, got, test.want)
		}
		if faults := validation.IsDNS1035Label(got); len(faults) > 0 {
			t.Errorf("%q: %v", got, faults)
		}
	}
}

// However long the parts are, names are labels, and names that had to be cut stay
// apart.
func TestCutNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, cluster := range []string{"a", "idc-a", "idc-b", strings.Repeat("c", 63), strings.Repeat("c", 62) + "d"} {
		for n := range 64 {
			for _, end := range []string{"x", "y"} {
				name := "w" + strings.Repeat("w", n) + end
				if len(name) > 63 {
					continue
				}
				for _, namespace := range []string{"one", "two"} {
					from := fmt.Sprint(cluster, "/", namespace, "/", name)
					got := separateName("{service}-{cluster}-{namespace}", syncer.Key{Namespace: namespace, Name: name}, cluster)
					if other, taken := seen[got]; taken {
						t.Fatalf("%s and %s are both %q", other, from, got)
					}
					seen[got] = from
					if faults := validation.IsDNS1035Label(got); len(faults) > 0 {
						t.Fatalf("%q: %v", got, faults)
					}
				}
			}
		}
	}
}

func TestTargetNamespaces(t *testing.T) {
	long := strings.Repeat("n", 60)
	tests := []struct{ name, member, from, want string }{ // want "": not placed
		{"as it is", "", "shop", "shop"},
		{"renamed", "namespaces: {rename: {shop: store}}", "shop", "store"},
		{"another is renamed", "namespaces: {rename: {shop: store}}", "pay", "pay"},
		{"prefixed", "namespaces: {prefix: b-}", "shop", "b-shop"},
		{"rename goes before prefix", "namespaces: {prefix: b-, rename: {shop: store}}", "shop", "store"},
		{"chosen by the name in the member", "namespaces: {include: [shop], rename: {shop: store}}", "shop", "store"},
		{"not chosen by the other name", "namespaces: {include: [store], rename: {shop: store}}", "shop", ""},
		{"one of Kubernetes' own, prefixed", "namespaces: {prefix: b-, exclude: []}", "kube-system", "b-kube-system"},
		{"kube- by prefix", "namespaces: {prefix: kube}", "shop", "kubeshop"},
		{"kube- by a clever prefix", "namespaces: {prefix: k}", "ube-shop", ""},
		{"onto the API server's Service", "namespaces: {rename: {shop: default}}", "shop", "default"},
		{"too long", "namespaces: {prefix: b-very-}", long, "b-very-" + strings.Repeat("n", 45) + "-"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			member := mustParse(t, one(test.member)).Clusters[0]
			got, ok := member.Place(service(test.from, "web"))
			if ok != (test.want != "") || !strings.HasPrefix(got.Namespace, test.want) || len(got.Namespace) > len(test.want)+hashLength {
				t.Errorf("placed %v in %q, want %q", ok, got.Namespace, test.want)
			}
			if ok && (len(validation.IsDNS1123Label(got.Namespace)) > 0 || got.Name != "web") {
				t.Errorf("placed as %v", got)
			}
		})
	}
	member := mustParse(t, one("namespaces: {rename: {shop: default}}")).Clusters[0]
	if got, ok := member.Place(service("shop", "kubernetes")); ok {
		t.Errorf("placed as %v", got)
	}
}

// A rule speaks of namespaces of the ingress cluster: there replicas meet.
func TestRulesGoByTheTarget(t *testing.T) {
	c := mustParse(t, one("namespaces: {rename: {shop: store}}")+"replicas: {rules: [{namespaces: [store], mode: separate}]}\n")
	if got, _ := c.Clusters[0].Place(service("shop", "web")); got.String() != "store/web-idc-a" {
		t.Errorf("placed as %v", got)
	}
}

// Neither replicas, whoever copied them, nor what each cluster has of its own.
func TestReplicasAreNoSources(t *testing.T) {
	member := mustParse(t, one("mode: separate")).Clusters[0]
	replica := service("shop", "web")
	replica.Labels = map[string]string{syncer.LabelManagedBy: "tributary"}
	replica.Annotations = map[string]string{syncer.AnnotationSources: "[]"}
	copied := service("shop", "web-copy")
	copied.Labels = map[string]string{syncer.LabelManagedBy: "somebody"}
	copied.Annotations = replica.Annotations
	for _, svc := range []*syncer.Service{replica, copied, service("default", "kubernetes")} {
		if got, ok := member.Place(svc); ok {
			t.Errorf("%v is placed as %v", svc.Key, got)
		}
	}
}

func TestPassMatcher(t *testing.T) {
	tests := []struct {
		pass, drop []string
		yes, no    []string
	}{
		{[]string{"*"}, nil, []string{"a", "a/b"}, nil},
		{nil, nil, nil, []string{"a", "a/b"}},
		{[]string{"*"}, []string{"a/*"}, []string{"a", "b/a"}, []string{"a/b", "a/"}},
		{[]string{"example.com/*"}, []string{"example.com/x"}, []string{"example.com/y"}, []string{"example.com/x", "example.org/y", "y"}},
		{[]string{"*team*"}, nil, []string{"example.com/team-a", "team"}, []string{"tea/m"}},
		{[]string{"*"}, []string{}, []string{"app.kubernetes.io/name", "nothelm.sh/chart", "helm.sh"}, []string{
			"argocd.argoproj.io/instance", "argocd.argoproj.io/tracking-id", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by",
			"kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace", "helm.sh/chart", "meta.helm.sh/release-name",
			"applyset.kubernetes.io/part-of", "config.k8s.io/owning-inventory", "objectset.rio.cattle.io/hash", "kapp.k14s.io/app",
		}},
		{[]string{"app.kubernetes.io/*", "helm.sh/chart"}, []string{}, []string{"app.kubernetes.io/name", "helm.sh/chart"}, []string{"app.kubernetes.io/instance"}},
		{[]string{"*", "app.kubernetes.io/instance"}, []string{}, []string{"app.kubernetes.io/instance"}, []string{"helm.sh/chart"}},
		{[]string{"*", "app.kubernetes.io/instance"}, []string{"app.*/instance"}, nil, []string{"app.kubernetes.io/instance"}},
		{[]string{"app", "example.com/team"}, nil, []string{"app", "example.com/team"}, []string{"application", "team"}},
	}
	for _, test := range tests {
		match := Pass{Pass: test.pass, Drop: test.drop}.Matcher()
		for _, key := range test.yes {
			if !match(key) {
				t.Errorf("%v but %v: %q does not pass", test.pass, test.drop, key)
			}
		}
		for _, key := range test.no {
			if match(key) {
				t.Errorf("%v but %v: %q passes", test.pass, test.drop, key)
			}
		}
	}
}

func TestDiffOfModes(t *testing.T) {
	old := &Loaded{Config: mustParse(t, three("", ""))}
	for _, test := range []struct {
		member, replicas string
		changed          []string
		written          bool
		policy           bool
	}{
		{"", "mode: separate", []string{"idc-a", "idc-b", "idc-c"}, true, true},
		{"", "rules: [{namespaces: [a], mode: failover}]", []string{"idc-a", "idc-b", "idc-c"}, true, true},
		{"", "failover: [idc-b]", nil, true, true},
		{"", "annotations: {pass: [a]}", nil, true, false},
		{"drain: true", "", []string{"idc-b"}, false, true},
		{"mode: failover", "", []string{"idc-b"}, false, true},
		{"namespaces: {prefix: a-}", "", []string{"idc-b"}, false, false},
	} {
		d := Compare(old, &Loaded{Config: mustParse(t, three(test.member, test.replicas))})
		if !slices.Equal(d.Changed, test.changed) || d.Replicas != test.written || d.Policy != test.policy ||
			d.Annotations != (test.replicas == "annotations: {pass: [a]}") {
			t.Errorf("%q %q: %+v", test.member, test.replicas, d)
		}
	}
	// The order of the file is an order of members.
	turned := mustParse(t, three("", ""))
	slices.Reverse(turned.Clusters)
	if d := Compare(old, &Loaded{Config: turned}); !d.Policy || d.Changed != nil {
		t.Errorf("turned round: %+v", d)
	}
}
