// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

const header = "apiVersion: tributary.dev/v1alpha1\nkind: Config\n"

// one is a valid file with one member, to which lines of that member are added.
func one(lines ...string) string {
	return header + "clusters:\n- name: idc-a\n  kubeconfig: a\n" + indent(lines...)
}

func indent(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

func TestParseNamesEveryFault(t *testing.T) {
	tests := []struct {
		name string
		file string
		want []string
	}{
		{"empty", "", []string{`is empty`}},
		{"only comments", "# nothing yet\n", []string{`is empty`}},
		{"explicit null", "~\n", []string{`is empty`}},
		{"a list", "- a\n", []string{`is not a mapping of fields to values`}},
		{"text", "hello", []string{`is not a mapping of fields to values`}},
		{"several documents", one() + "---\nkind: Config\n", []string{`holds several documents, the second on line 6; keep one`}},
		{"not YAML", header + "clusters: [\n", []string{`is not valid YAML: did not find expected node content`}},
		{"a tab for indentation", header + "clusters:\n\t- name: a\n", []string{`is not valid YAML: found character that cannot start any token`}},
		{"control characters", "\x00\x01", []string{`is not valid YAML: control characters are not allowed`}},
		{"no version, no kind, no clusters", "{listen: ':1'}", []string{
			`apiVersion: must be given; write apiVersion: tributary.dev/v1alpha1`,
			`kind: must be given; write kind: Config`,
			`clusters: must be given; list the member clusters, or write [] to run without any`,
		}},
		{"a name for all", header + "clusterDefaults: {name: q, staleAfter: x}\nclusters: [{name: A_, kubeconfig: a}, {name: b}]\n", []string{
			`clusterDefaults.name: is each cluster's own; give it in clusters[]`,
			`clusterDefaults.staleAfter: "x" is not a length of time; write a number with its unit, such as 30s, 5m or 1h30m`,
			`clusters[0].name: "A_" is not a DNS label; use lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`clusters[1].kubeconfig: must be given; name a kubeconfig file; a relative path starts at this file's directory`,
		}},
		{"another version", "apiVersion: tributary.dev/v2\nkind: Configuration\nclusters: []", []string{
			`apiVersion: "tributary.dev/v2" is not known to this version; write tributary.dev/v1alpha1`,
			`kind: "Configuration" is not known to this version; write Config`,
		}},
		{"a kubeconfig by mistake", "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ncurrent-context: a\n", []string{
			`users: unknown field; known here: apiVersion, kind, listen, metricsListen, metricsTLS, metricsTokenReview, instance, namespace, ingress, clusters, clusterDefaults, clustersFrom, replicas, rules, readiness, leases, leaderElection, sinks`,
			`current-context: unknown field; known here: apiVersion, kind, listen, metricsListen, metricsTLS, metricsTokenReview, instance, namespace, ingress, clusters, clusterDefaults, clustersFrom, replicas, rules, readiness, leases, leaderElection, sinks`,
			`apiVersion: "v1" is not known to this version; write tributary.dev/v1alpha1`,
		}},
		{"unknown field of the second member", one() + "- name: b\n  kubeconfg: b\n", []string{
			`clusters[1].kubeconfg: unknown field; did you mean "kubeconfig"?`,
			`clusters[1].kubeconfig: must be given; name a kubeconfig file; a relative path starts at this file's directory`,
		}},
		{"wrong case", header + "Clusters: []", []string{
			`Clusters: unknown field; did you mean "clusters"?`,
			`clusters: must be given; list the member clusters, or write [] to run without any`,
		}},
		{"unknown field deep down", one("namespaces: {includes: [a]}", "client: {color: red}"), []string{
			`clusters[0].namespaces.includes: unknown field; did you mean "include"?`,
			`clusters[0].client.color: unknown field; known here: qps, burst`,
		}},
		{"repeated field", one("name: idc-b"), []string{`clusters[0].name: repeated field, on line 4 and on line 6; keep one`}},
		{"repeated at the top", header + "kind: Config\nclusters: []\n", []string{`kind: repeated field, on line 2 and on line 3; keep one`}},
		{"repeated unknown field", one("color: a", "color: b"), []string{
			`clusters[0].color: unknown field; known here: name, kubeconfig, context, client, allowInKubeconfig, namespaces, rolesOnly, serviceSelector, allowedCIDRs, tolerateUnreadyAnnotation, mode, drain, force, guard, readiness, holdSilentNodes, staleAfter, maxObjects, observeNative, nativeTolerance`,
			`clusters[0].color: repeated field, on line 6 and on line 7; keep one`,
		}},
		{"wrong types", header + "listen: 9440\ningress: in-cluster\nclusters: {}\nreplicas: {write: Endpoints, createNamespaces: maybe, maxEndpointsPerSlice: many}\n", []string{
			`listen: must be text; put it in quotes`,
			`ingress: must be a mapping of fields to values`,
			`clusters: must be a list`,
			`replicas.write: must be a list`,
			`replicas.createNamespaces: must be true or false`,
			`replicas.maxEndpointsPerSlice: must be a whole number`,
		}},
		{"wrong types of a member", header + "clusters:\n- idc-a\n- {name: 7, kubeconfig: [a], client: {qps: fast, burst: 1.5}}\n", []string{
			`clusters[0]: must be a mapping of fields to values`,
			`clusters[1].name: must be text; put it in quotes`,
			`clusters[1].kubeconfig: must be text`,
			`clusters[1].client.qps: must be a number`,
			`clusters[1].client.burst: must be a whole number`,
		}},
		{"values left empty where that is ambiguous", one("namespaces: {exclude: }", "allowedCIDRs: [~]"), []string{
			`clusters[0].namespaces.exclude: has no value; write [] for an empty list, or leave the field out for its default`,
			`clusters[0].allowedCIDRs[0]: has no value; write one, or remove the item`,
		}},
		{"clusters left empty", header + "clusters:\n", []string{`clusters: has no value; write [] for an empty list, or leave the field out for its default`}},
		{"an empty member", header + "clusters:\n-\n", []string{`clusters[0]: has no value; write one, or remove the item`}},
		{"anchors", one("allowedCIDRs: &r [10.0.0.0/8]") + "- {name: b, kubeconfig: b, allowedCIDRs: *r}\n", []string{
			`clusters[0].allowedCIDRs: uses a YAML anchor or alias; write the value out, or quote it if it begins with & or *`,
			`clusters[1].allowedCIDRs: uses a YAML anchor or alias; write the value out, or quote it if it begins with & or *`,
		}},
		{"an unquoted star", one("namespaces: {include: [*]}"), []string{
			`is not valid YAML: did not find expected alphabetic or numeric character`,
		}},
		{"an unquoted star before text", one("namespaces: {include: [*-prod]}"), []string{
			`is not valid YAML: an alias names an unknown anchor (a value that begins with * must be quoted)`,
		}},
		{"listen", header + "listen: localhost\nclusters: []", []string{`listen: "localhost" is not host:port; write host:port, such as 127.0.0.1:9440`}},
		{"listen port", header + "listen: 'a_b:http'\nclusters: []", []string{
			`listen: "http" is not a port number from 0 to 65535; write host:port, such as 127.0.0.1:9440`,
			`listen: "a_b" is neither an address nor a host name; write host:port, such as 127.0.0.1:9440`,
		}},
		{"one address twice", header + "listen: '127.0.0.1:9440'\nmetricsListen: ':9440'\nclusters: []", []string{
			`metricsListen: ":9440" and listen, "127.0.0.1:9440", are one address; give it another port`,
		}},
		{"a certificate for nothing", header + "metricsTLS: {certFile: c, keyFile: k}\nclusters: []", []string{
			`metricsTLS: has no meaning without metricsListen; give metricsListen, or leave metricsTLS out`,
		}},
		{"half a certificate", header + "metricsListen: ':1'\nmetricsTLS: {keyFile: k}\nclusters: []", []string{
			`metricsTLS.certFile: must be given with keyFile; give both, or none for plain HTTP`,
		}},
		{"tokens in clear", header + "metricsListen: 'x'\nmetricsTokenReview: true\nclusters: []", []string{
			`metricsListen: "x" is not host:port; write host:port, such as 127.0.0.1:9440`,
			`metricsTokenReview: would have tokens sent in clear; give metricsTLS`,
		}},
		{"ingress without kubeconfig", header + "ingress: {context: a, allowInKubeconfig: [exec]}\nclusters: []", []string{
			`ingress.context: has no meaning without ingress.kubeconfig; give the kubeconfig, or leave the context out`,
			`ingress.allowInKubeconfig: has no meaning without ingress.kubeconfig; give the kubeconfig, or leave the list out`,
		}},
		{"Roles where no namespace is named", one("rolesOnly: true"), []string{
			`clusters[0].rolesOnly: needs namespaces.include to name namespaces, without a pattern; list the namespaces in which there are Roles`,
		}},
		{"client limits", one("client: {qps: -1}") + "- {name: b, kubeconfig: b, client: {qps: .inf, burst: -1}}\n- {name: c, kubeconfig: c, client: {burst: 1}}\n", []string{
			`clusters[0].client.qps: must not be negative or infinite; write 0 for no limit`,
			`clusters[1].client.qps: must not be negative or infinite; write 0 for no limit`,
			`clusters[1].client.burst: must not be negative; write 0 for twice qps`,
			`clusters[2].client.burst: has no meaning without clusters[2].client.qps; give qps, or leave burst out`,
		}},
		{"allowInKubeconfig", one("allowInKubeconfig: [exec, Exec, files, exec]"), []string{
			`clusters[0].allowInKubeconfig[1]: "Exec" is not known; use one of exec, authProvider, files, insecureSkipTLSVerify, proxyURL, impersonation`,
			`clusters[0].allowInKubeconfig[3]: "exec" repeats clusters[0].allowInKubeconfig[0]; keep one`,
		}},
		{"member without name and kubeconfig", header + "clusters: [{}]", []string{
			`clusters[0].name: must be given; choose a short name, such as idc-a`,
			`clusters[0].kubeconfig: must be given; name a kubeconfig file; a relative path starts at this file's directory`,
		}},
		{"names", header + "clusters:\n- {name: IDC_A, kubeconfig: a}\n- {name: a.b, kubeconfig: a}\n- {name: " + strings.Repeat("x", 64) + ", kubeconfig: a}\n", []string{
			`clusters[0].name: "IDC_A" is not a DNS label; use lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`clusters[1].name: "a.b" is not a DNS label; use lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`clusters[2].name: has 64 characters; use at most 63`,
		}},
		{"a cluster named twice", one() + "- {name: b, kubeconfig: b}\n- {name: idc-a, kubeconfig: c}\n- {name: idc-a, kubeconfig: d}\n", []string{
			`clusters[2].name: "idc-a" repeats clusters[0].name; give each cluster its own name`,
			`clusters[3].name: "idc-a" repeats clusters[0].name; give each cluster its own name`,
		}},
		{"namespaces", one("namespaces: {include: [], exclude: ['a[', Prod, '', kube-*]}"), []string{
			`clusters[0].namespaces.include: is empty: no Service would be replicated; write ["*"] for every namespace, or leave the field out`,
			`clusters[0].namespaces.exclude[0]: "a[" is not a glob: a '[' without its ']', or a '\' at the end; close it`,
			`clusters[0].namespaces.exclude[1]: "Prod" cannot match any namespace; use lower-case letters, digits, '-', and the wildcards * and ?`,
			`clusters[0].namespaces.exclude[2]: "" cannot match any namespace; use lower-case letters, digits, '-', and the wildcards * and ?`,
		}},
		{"selector", one("serviceSelector: 'app in web'"), []string{
			`clusters[0].serviceSelector: "app in web" is not a label selector: found 'web' expected: '('; write it as for kubectl get -l, such as app=web,tier!=test`,
		}},
		{"CIDRs", one("allowedCIDRs: [10.0.0.0, 10.4.1.2/16, '::ffff:10.0.0.0/104', 'fd00::/200', 10.4.0.0/16]"), []string{
			`clusters[0].allowedCIDRs[0]: "10.0.0.0" is not a CIDR; write an address and a length, such as 10.4.0.0/16 or fd00:4::/64`,
			`clusters[0].allowedCIDRs[1]: "10.4.1.2/16" has bits set beyond its length; write 10.4.0.0/16`,
			`clusters[0].allowedCIDRs[2]: "::ffff:10.0.0.0/104" is an IPv4 range in IPv6 form; write it in IPv4 form`,
			`clusters[0].allowedCIDRs[3]: "fd00::/200" is not a CIDR; write an address and a length, such as 10.4.0.0/16 or fd00:4::/64`,
		}},
		{"replicas", header + "clusters: []\nreplicas: {write: [], maxEndpointsPerSlice: 0}", []string{
			`replicas.write: is empty: no endpoint would be written; list one or both of Endpoints, EndpointSlices`,
			`replicas.maxEndpointsPerSlice: 0 is out of range; use 1 to 1000`,
		}},
		{"kinds to write", header + "clusters: []\nreplicas: {write: [Endpoints, endpoints, Endpoints], maxEndpointsPerSlice: 1001}", []string{
			`replicas.write[1]: "endpoints" is not known; use one of Endpoints, EndpointSlices`,
			`replicas.write[2]: "Endpoints" repeats replicas.write[0]; keep one`,
			`replicas.maxEndpointsPerSlice: 1001 is out of range; use 1 to 1000`,
		}},
		{"rules", one() + "rules: [{}, {name: A, when: 'true', then: Gone, clusters: [idc-b, 'x['], namespaces: [A], serviceSelector: 'a in'}, {name: a, when: 'pod.metadata.nme == 1', then: Ready}, {name: a, when: 'cluster', then: Absent, than: x}]", []string{
			`rules[3].than: unknown field; did you mean "then"?`,
			`rules[0].name: must be given; name the rule; records, metrics and tributary explain show the name`,
			`rules[0].when: must be given; write a condition in CEL; docs/rules.md has examples`,
			`rules[0].then: must be given; write one of Ready, NotReady, Absent, Upstream`,
			`rules[1].name: "A" is not a DNS label; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`rules[1].clusters[0]: "idc-b" matches no cluster of this file; name one of clusters[], or leave it out`,
			`rules[1].clusters[1]: "x[" is not a glob; write the name of a cluster, or a glob such as idc-*`,
			`rules[1].namespaces[0]: "A" cannot match any namespace; use lower-case letters, digits, '-', and the wildcards * and ?`,
			`rules[1].serviceSelector: "a in" is not a label selector: found '' expected: '('; write it as for kubectl get -l, such as app=web,tier!=test`,
			`rules[1].then: "Gone" is not known; use one of Ready, NotReady, Absent, Upstream`,
			`rules[3].name: "a" repeats rules[2].name; give each rule its own name`,
			`rules[2].when: undefined field 'nme'; did you mean "name"?`,
			`rules[3].when: is of type string; write a condition: an expression that is true or false`,
		}},
		{"modes", one("mode: Union", "force: true") + "replicas: {mode: both, orphans: drop, failover: [idc-a, idc-x, idc-a], rules: [{namespaces: [], mode: x}, {mode: union}, {namespaces: [A], failover: [b]}]}", []string{
			`clusters[0].mode: "Union" is not known; use one of union, separate, failover`,
			`clusters[0].force: has no meaning without clusters[0].drain; write drain: true beside it, or leave it out`,
			`replicas.mode: "both" is not known; use one of union, separate, failover`,
			`replicas.failover[1]: "idc-x" is not the name of a cluster of this file; name one of clusters[], or leave it out`,
			`replicas.failover[2]: "idc-a" repeats replicas.failover[0]; keep one`,
			`replicas.rules[0].namespaces: is empty: the rule would never apply; list names or globs of namespaces`,
			`replicas.rules[0].mode: "x" is not known; use one of union, separate, failover`,
			`replicas.rules[1].namespaces: is empty: the rule would never apply; list names or globs of namespaces`,
			`replicas.rules[2].namespaces[0]: "A" cannot match any namespace; use lower-case letters, digits, '-', and the wildcards * and ?`,
			`replicas.rules[2].failover[0]: "b" is not the name of a cluster of this file; name one of clusters[], or leave it out`,
			`replicas.orphans: "drop" is not known; use one of keep, delete`,
		}},
		{"name template", one() + "replicas: {separateName: '{service}', rules: [{namespaces: [a], separateName: '{service}_{cluster}'}, {namespaces: [a], separateName: '{service}-{cluster}-{zone}'}]}", []string{
			`replicas.separateName: "{service}" lacks {service} or {cluster}: replicas of several members would have one name; write it as {service}-{cluster}`,
			`replicas.rules[0].separateName: "{service}_{cluster}" has more than lower-case letters, digits, '-' and {service}, {cluster}, {namespace}; write it as {service}-{cluster}`,
			`replicas.rules[1].separateName: "{service}-{cluster}-{zone}" has more than lower-case letters, digits, '-' and {service}, {cluster}, {namespace}; write it as {service}-{cluster}`,
		}},
		{"ends of a name template", one() + "- {name: 1b, kubeconfig: b}\nreplicas: {separateName: '{cluster}-{service}', rules: [{namespaces: [a], separateName: '{service}-{cluster}-'}, {namespaces: [a], separateName: '-{service}-{cluster}'}, {namespaces: [a], separateName: '{namespace}-{service}-{cluster}'}, {namespaces: [a], separateName: 'x-{service}-{cluster}-0123456789012345678901234567'}]}", []string{
			`replicas.separateName: "{cluster}-{service}" would make names that begin with the digit of cluster 1b; begin with {service}`,
			`replicas.rules[0].separateName: "{service}-{cluster}-" ends with '-'; write it as {service}-{cluster}`,
			`replicas.rules[1].separateName: "-{service}-{cluster}" would make names that do not begin with a letter; begin with {service} or a letter`,
			`replicas.rules[2].separateName: "{namespace}-{service}-{cluster}" would make names that do not begin with a letter; begin with {service} or a letter`,
			`replicas.rules[3].separateName: "x-{service}-{cluster}-0123456789012345678901234567" has 32 characters of its own; use at most 30`,
		}},
		{"the installation", header + "instance: Prod.1\nnamespace: Own_\ningress: {kubeconfig: k, identity: ' a', namespaces: [shop, kube-system, 'a[']}\nclusters: []\n", []string{
			`instance: "Prod.1" is not a DNS label; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`namespace: "Own_" is not the name of a namespace; use lower-case letters, digits and '-'`,
			`ingress.namespaces[2]: "a[" is not a glob: a '[' without its ']', or a '\' at the end; close it`,
			`ingress.namespaces[1]: "kube-system" is of Kubernetes itself, and never written to; leave it out`,
			`ingress.identity: " a" is not a UID; write what kubectl get namespace kube-system -o jsonpath={.metadata.uid} prints`,
		}},
		{"nowhere to write, no name", header + "instance: ''\ningress: {kubeconfig: k, namespaces: []}\nclusters: []\n", []string{
			`instance: "" is not a DNS label; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`ingress.namespaces: is empty: nothing could be written; write ["*"] for every namespace, or leave the field out`,
		}},
		{"Roles in the ingress cluster where no namespace is named", header + "ingress: {rolesOnly: true}\nclusters: []\n", []string{
			`ingress.rolesOnly: needs ingress.namespaces to name namespaces, without a pattern; list the namespaces in which there are Roles`,
		}},
		{"a namespace of Kubernetes as target", one("namespaces: {rename: {shop: kube-public}}"), []string{
			`clusters[0].namespaces.rename: "kube-public" is one of Kubernetes itself, and is never written to; choose another`,
		}},
		{"target namespaces", one("namespaces: {rename: {Shop: store, pay: a.b}, prefix: A}") + "- {name: b, kubeconfig: b, namespaces: {prefix: kube-x}}\n- {name: c, kubeconfig: c, namespaces: {prefix: " + strings.Repeat("x", 41) + "}}\n", []string{
			`clusters[0].namespaces.rename: "Shop" is not a namespace; use lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`clusters[0].namespaces.rename: "a.b" is not a namespace; use lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`clusters[0].namespaces.prefix: "A" cannot begin a namespace; use lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`clusters[1].namespaces.prefix: "kube-x" would make namespaces of Kubernetes itself; choose another`,
			`clusters[2].namespaces.prefix: has 41 characters; use at most 40`,
		}},
		{"readiness", one("readiness: {stableFor: 2h, namespaces: [{stableFor: -1s}]}") + "readiness: {stableFor: soon, keepOne: 1, namespaces: [{names: ['A'], stableFor: 61m}]}", []string{
			`readiness.keepOne: must be true or false`,
			`clusters[0].readiness.stableFor: "2h" is out of range; use 0s to 1h`,
			`clusters[0].readiness.namespaces[0].names: is empty: the entry would apply to nothing; name namespaces, or remove the entry`,
			`clusters[0].readiness.namespaces[0].stableFor: "-1s" is not a length of time; write a number with its unit, such as 30s, 5m or 1h30m`,
			`readiness.stableFor: "soon" is not a length of time; write a number with its unit, such as 30s, 5m or 1h30m`,
			`readiness.namespaces[0].names[0]: "A" cannot match any namespace; use lower-case letters, digits, '-', and the wildcards * and ?`,
			`readiness.namespaces[0].stableFor: "61m" is out of range; use 0s to 1h`,
		}},
		{"what passes", header + "clusters: []\nreplicas: {labels: {pass: ['a[']}, annotations: {pass: ['a/*'], drop: ['']}}", []string{
			`replicas.labels.pass[0]: "a[" is not a glob; write a key such as example.com/team, or a glob such as example.com/*`,
			`replicas.annotations.drop[0]: "" is not a glob; write a key such as example.com/team, or a glob such as example.com/*`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("tributary.yaml", []byte(test.file))
			var want strings.Builder
			for _, line := range test.want {
				want.WriteString("tributary.yaml: " + line + "\n")
			}
			if err == nil {
				t.Fatalf("no error, want\n%s", &want)
			}
			if got := place.ReplaceAllString(err.Error(), ": ") + "\n"; got != want.String() {
				t.Errorf("got\n%swant\n%s", got, &want)
			}
			if _, ok := errors.AsType[Faults](err); !ok {
				t.Errorf("error is a %T, want Faults", err)
			}
		})
	}
}

// place is where a fault stands; strict tests that it is right.
var place = regexp.MustCompile(`(:[0-9]+){1,2}: `)

// TestFaultsOfExpressionsTellTheirPlace: the line and column of what is wrong in the file,
// however the expression is written there.
func TestFaultsOfExpressionsTellTheirPlace(t *testing.T) {
	_, err := Parse("tributary.yaml", []byte(header+`clusters: [{name: a, kubeconfig: a}]
rules:
- name: misspelt
  when: |
    pod.spec.containers.all(c,
      c.imagePullPolice == 'Always')
  then: NotReady
- name: wrong-type
  when: "cluster == 'a' && pod.metadata.generation == 'x'"
  then: Ready
- name: too-dear
  when: >-
    pod.spec.containers.all(a, pod.spec.containers.all(b, pod.spec.containers.all(c,
    pod.spec.containers.all(d, a.name + b.name + c.name + d.name != ''))))
  then: Absent
`))
	if err == nil {
		t.Fatal("no error")
	}
	base := strings.Count(header, "\n")
	for _, want := range []string{
		fmt.Sprintf("tributary.yaml:%d:8: rules[0].when: undefined field 'imagePullPolice'; ", base+6),
		fmt.Sprintf("tributary.yaml:%d:52: rules[1].when: found no matching overload for '_==_' applied to '(int, string)'; ", base+9),
		fmt.Sprintf("tributary.yaml:%d:3: rules[2].when: may cost ", base+12),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// TestFaultsTellTheirPlace: of a wrong value, an unknown field, and the place around a
// field that is missing.
func TestFaultsTellTheirPlace(t *testing.T) {
	_, err := Parse("tributary.yaml", []byte("apiVersion: tributary.dev/v1alpha1\nkind: Config\nlisten: nowhere\nclusters:\n- name: A_B\n  kubeconfig: a\n- nmae: b\n  kubeconfig: b\n"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"tributary.yaml:3:1: listen: ", "tributary.yaml:5:3: clusters[0].name: ", "tributary.yaml:7:3: clusters[1].nmae: unknown field"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
