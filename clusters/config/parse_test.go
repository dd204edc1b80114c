// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mustParse(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Parse("/t/tributary.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const oneMember = "clusters: [{name: idc-a, kubeconfig: idc-a.kubeconfig}]"

// TestDefaultsAreThoseOfTheContract: a file that has only what it must have is equal to the
// one that spells out every default, and that one has every field.
func TestDefaultsAreThoseOfTheContract(t *testing.T) {
	short := mustParse(t, "ingress: {kubeconfig: ingress.kubeconfig}\n"+oneMember)
	long := mustParse(t, read(t, "testdata/defaults.yaml"))
	if !reflect.DeepEqual(short, long) {
		t.Errorf("defaults differ\n got %+v\nwant %+v", short, long)
	}
	var written map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "testdata/defaults.yaml")), &written); err != nil {
		t.Fatal(err)
	}
	hold := func(of any, t2 reflect.Type) {
		for f := range t2.Fields() {
			if name := f.Tag.Get("json"); name != "" && of.(map[string]any)[name] == nil {
				t.Errorf("%s is not in testdata/defaults.yaml", name)
			}
		}
	}
	hold(written, reflect.TypeFor[Config]())
	hold(written["ingress"], reflect.TypeFor[Ingress]())
	hold(written["clusters"].([]any)[0], reflect.TypeFor[Cluster]())
	hold(written["clusters"].([]any)[0], reflect.TypeFor[ClusterSettings]())
	hold(written["replicas"], reflect.TypeFor[Replicas]())
}

func TestMembersInherit(t *testing.T) {
	c := mustParse(t, `
clusterDefaults: {holdSilentNodes: 40s, drain: true, allowedCIDRs: [10.0.0.0/8], namespaces: {exclude: [test]}}
clusters:
- {name: a, kubeconfig: a}
- {name: b, kubeconfig: /b, drain: false, allowedCIDRs: [], namespaces: {include: [shop]}, holdSilentNodes: 0s}
- {name: c, kubeconfig: c, namespaces: {exclude: }, stableFor: }
sinks: [{name: s, url: "https://x/", auth: {bearerTokenFile: token}}]`)
	a, b := c.Clusters[0], c.Clusters[1]
	if a.HoldSilentNodes != "40s" || !a.Drain || len(a.AllowedCIDRs) != 1 || a.Namespaces.Include[0] != "*" || a.Namespaces.Exclude[0] != "test" {
		t.Errorf("a is %+v", a)
	}
	if b.HoldSilentNodes != "0s" || b.Drain || len(b.AllowedCIDRs) != 0 || b.Namespaces.Include[0] != "shop" || b.Namespaces.Exclude[0] != "test" {
		t.Errorf("b is %+v", b)
	}
	if c := c.Clusters[2]; c.Namespaces.Exclude[0] != "test" || c.StableFor != "0s" {
		t.Errorf("a field without a value is as one that is left out: %+v", c)
	}
	if a.Kubeconfig != "/t/a" || b.Kubeconfig != "/b" || c.Sinks[0].Auth.BearerTokenFile != "/t/token" || c.Sinks[0].Window != "2s" {
		t.Errorf("%q %q %+v", a.Kubeconfig, b.Kubeconfig, c.Sinks[0])
	}
}

// TestFaults: all that is wrong is reported at once, each with its field and what to do.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "is empty; it may be cut off",
		"# only a comment\n":            "is empty; it may be cut off",
		"listen: :1\n---\nkind: Config": "has a second document after ---; make one of them",
		"clusters: [":                   "line 1: did not find expected node content",
		"[]":                            "must be a mapping, not array",
		"clusters:\n- name: a\n  kubeconfig: a\n  kubeconfg: b": `clusters[0].kubeconfg: Forbidden: unknown field; docs/reference/configuration.md has all`,
		"xyzzy: 1": "xyzzy: Forbidden: unknown field; docs/reference/configuration.md has all",
		"ingress: {kubeconfig: a}\nlisten: :1\nclusters:\n- {name: a, kubeconfig: a, drain: true, drain: false}\nlisten: :2": "clusters[0].drain: Duplicate value: is given in line 4 and in line 4; keep one\n" +
			"listen: Duplicate value: is given in line 2 and in line 5; keep one",
		"instance: 1":                                                     "instance: Invalid value: must be a string, not number",
		"clusters: {a: b}":                                                "clusters: Invalid value: must be a list, not object",
		"replicas: {createNamespaces: \"yes\"}":                           "replicas.createNamespaces: Invalid value: must be a bool, not string",
		"apiVersion: v2\nkind: C":                                         `apiVersion: Unsupported value: "v2": supported values: "tributary.dev/v1alpha1"` + "\n" + `kind: Unsupported value: "C": supported values: "Config"`,
		"listen: 9440\nmetricsListen: localhost":                          "listen: Invalid value: must be a string, not number",
		"listen: \"9440\"\nmetricsListen: localhost":                      `listen: Invalid value: "9440": write host:port, such as 127.0.0.1:9440` + "\n" + `metricsListen: Invalid value: "localhost": write host:port, such as 127.0.0.1:9440`,
		"listen: 127.0.0.1:70000":                                         `listen: Invalid value: "127.0.0.1:70000": write host:port, such as 127.0.0.1:9440`,
		"instance: A\nnamespace: \"\"":                                    `instance: Invalid value: "A": is not a DNS label; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit` + "\nnamespace: Required value: write a short name, such as idc-a",
		"ingress: {context: x}":                                           `ingress.context: Invalid value: "x": has no meaning without ingress.kubeconfig; give that, or leave the context out`,
		"listen: \"foo bar:1\"":                                           `listen: Invalid value: "foo bar:1": write host:port, such as 127.0.0.1:9440`,
		"listen: \":1\"\nmetricsListen: \":1\"":                           `metricsListen: Duplicate value: ":1": listen has it; leave this out, or give another port`,
		"clusters: [{name: a, kubeconfig: a}, {name: 12, kubeconfig: b}]": "clusters[1].name: Invalid value: must be a string, not number",
		"listen: \"\"":                                                    `listen: Invalid value: "": write host:port, such as 127.0.0.1:9440`,
		"clusters: [{}]":                                                  "clusters[0].name: Required value: write a short name, such as idc-a\nclusters[0].kubeconfig: Required value: name a kubeconfig file; a relative path starts at this file's directory",
		"clusters: [{name: a, kubeconfig: a}, {name: a, kubeconfig: b}]":  `clusters[1].name: Duplicate value: "a": clusters[0] has it; give each its own`,
		"clusterDefaults: {stableFor: 5}":                                 "clusterDefaults.stableFor: Invalid value: must be a string, not number",
		"clusterDefaults: {name: a, kubeconfig: b, stableFor: x}\n" + oneMember: "clusterDefaults.kubeconfig: Forbidden: unknown field; docs/reference/configuration.md has all\n" +
			"clusterDefaults.name: Forbidden: unknown field; docs/reference/configuration.md has all\n" +
			`clusterDefaults.stableFor: Invalid value: "x": write a length of time, such as 30s or 1h30m`,
		"clusters: [{name: a, kubeconfig: a, namespaces: {include: [], exclude: [A]}, serviceSelector: \"=\", allowedCIDRs: [x, 10.0.0.1/8, \"::ffff:10.0.0.0/104\"], holdSilentNodes: -1s}]": `clusters[0].namespaces.include: Required value: would match nothing; write ["*"] for everything, or leave the field out` + "\n" +
			`clusters[0].namespaces.exclude[0]: Invalid value: "A": is neither a name nor a glob; use lower-case letters, digits, '-', and the wildcards * and ?` + "\n" +
			`clusters[0].serviceSelector: Invalid value: "=": write a label selector, such as app=web,tier!=test` + "\n" +
			`clusters[0].allowedCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)` + "\n" +
			`clusters[0].allowedCIDRs[1]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length` + "\n" +
			`clusters[0].allowedCIDRs[2]: Invalid value: "::ffff:10.0.0.0/104": must not have an IPv4-mapped IPv6 address` + "\n" +
			`clusters[0].holdSilentNodes: Invalid value: "-1s": write a length of time, such as 30s or 1h30m`,
		"clusters: [{name: a, kubeconfig: a, namespaces: {include: [kube-system, kube-public]}}]":       `clusters[0].namespaces.exclude: Invalid value: ["kube-*"]: leaves out all that include names; include another, or write [] to exclude none`,
		"clusterDefaults: {stableFor: x}\nclusters: [{name: a, kubeconfig: a, serviceSelector: \"=\"}]": `clusterDefaults.stableFor: Invalid value: "x": write a length of time, such as 30s or 1h30m`,
		"clustersFrom: {secrets: {selector: \",\"}}":                                                    `clustersFrom.secrets.selector: Invalid value: ",": write a label selector, such as app=web,tier!=test`,
		"replicas: {write: [Endpoints, Pods], orphans: drop, copyLabels: [\"\"], copyAnnotations: [\"[\"], failover: [{namespaces: [a], order: [idc-a, idc-a, idc-x, idc-*]}, {}]}\n" + oneMember: `replicas.write[1]: Unsupported value: "Pods": supported values: "Endpoints", "EndpointSlices"` + "\n" +
			"replicas.write: Required value: must contain EndpointSlices: they are always written\n" +
			`replicas.failover[0].order[1]: Duplicate value: "idc-a"` + "\n" +
			`replicas.failover[0].order[2]: Not found: "idc-x": name one of clusters[], or leave it out` + "\n" +
			`replicas.failover[0].order[3]: Invalid value: "idc-*": is not a DNS label; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit` + "\n" +
			`replicas.failover[1].namespaces: Required value: would match nothing; write ["*"] for everything, or leave the field out` + "\n" +
			"replicas.failover[1].order: Required value: name members, the first choice first\n" +
			`replicas.orphans: Unsupported value: "drop": supported values: "keep", "delete"` + "\n" +
			`replicas.copyLabels[0]: Invalid value: "": is neither a key nor a glob, such as example.com/*` + "\n" +
			`replicas.copyAnnotations[0]: Invalid value: "[": is neither a key nor a glob, such as example.com/*`,
		"rules: [{}, {name: a, clusters: [x], when: \"pod.metadata.nme == ''\", then: Ready}]\n" + oneMember: "rules[0].name: Required value: write a short name, such as idc-a\n" +
			`rules[1].clusters[0]: Not found: "x": name one of clusters[], or leave it out` + "\n" +
			"rules[0].when: Required value: write a condition in CEL; docs/rules.md has examples\n" +
			`rules[0].then: Unsupported value: "": supported values: "Absent", "NotReady", "Ready", "Upstream"` + "\n" +
			`rules[1].when: Invalid value: 1:13: undefined field 'nme'; kubectl explain pod --recursive names the fields`,
		"rules: [" + strings.Repeat("{name: r, when: \"true\", then: Ready}, ", 65) + "]": "rules: Too many: 65: must have at most 64 items",
		"sinks: [{name: s, url: \"ftp://secret\"}, {name: t, url: \"https://secret@x/\", namespaces: [], window: 2h, maxRequestsPerSecond: 0}]": "sinks[0].url: Invalid value: write it as https://slb.example.com/v1/members; credentials belong into auth\n" +
			"sinks[1].url: Invalid value: write it as https://slb.example.com/v1/members; credentials belong into auth\n" +
			`sinks[1].namespaces: Required value: would match nothing; write ["*"] for everything, or leave the field out` + "\n" +
			`sinks[1].window: Invalid value: "2h": write at most 1h0m0s` + "\n" +
			"sinks[1].maxRequestsPerSecond: Invalid value: 0: write 0.001 to 1000",
		"sinks: [{name: s, url: \"http://x/\", auth: {bearerTokenFile: t, tls: {certFile: c}}}, {name: l, url: \"http://127.0.0.1:1/\", auth: {bearerTokenFile: t}}]": "sinks[0].auth.tls: Required value: give both certFile and keyFile, or neither\n" +
			"sinks[0].auth.bearerTokenFile: Forbidden: would be sent in the clear; write url with https://",
		"leaderElection: {leaseDuration: 1500ms}": `leaderElection.leaseDuration: Invalid value: "1500ms": write whole seconds, 2s to 1h`,
	} {
		c, err := Parse("tributary.yaml", []byte(text))
		if c != nil || err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		lines := strings.Split(want, "\n")
		got := strings.Split(strings.ReplaceAll(err.Error(), "tributary.yaml: ", ""), "\n")
		if strings.HasPrefix(want, "rules: Too many") {
			got = got[64:] // after the names that repeat the first
		}
		if !reflect.DeepEqual(got, lines) {
			t.Errorf("%s\n got %s\nwant %s", text, strings.Join(got, "\n     "), strings.Join(lines, "\n     "))
		}
	}
}

func TestWhatIsTaken(t *testing.T) {
	for _, text := range []string{
		"{}", "clusters: []", "clusters:", "apiVersion: tributary.dev/v1alpha1\nkind: Config", `{"listen": ":0"}`,
		"x-no: &a\n", oneMember + "\nlisten: '[::1]:1'\nmetricsListen: localhost:2",
		"clusterDefaults: {drain: true}\nclustersFrom: {secrets: {}}\nreplicas: {failover: [{namespaces: [a], order: [who-knows]}]}\nrules: [{name: a, clusters: [x-*], when: cluster == 'x', then: Upstream}]",
		"clusters:\n- &a {name: a, kubeconfig: a}\n- <<: *a\n  name: b",
		"leaderElection: {enabled: false}\nreplicas: {write: [EndpointSlices]}",
	} {
		if _, err := Parse("f", []byte(text)); err != nil && !strings.Contains(err.Error(), "x-no") {
			t.Errorf("%q: %v", text, err)
		}
	}
	mustParse(t, read(t, "testdata/example.yaml"))
}

// FuzzParse: no text makes Parse panic, and what it accepts is valid and means the same when
// it is written again.
func FuzzParse(f *testing.F) {
	f.Add(read(f, "testdata/defaults.yaml"))
	f.Add(read(f, "testdata/example.yaml"))
	f.Add("clusters: [{name: a, kubeconfig: a}, {name: a}]\nlisten: 1\nlisten: 2")
	f.Add("a: &a [*a]\n---\n? {b: c}\n: d")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("/t/f", []byte(text))
		if err != nil {
			if err.Error() == "" {
				t.Fatal("a fault without a text")
			}
			return
		}
		if faults := c.Validate(); len(faults) > 0 {
			t.Fatal(faults)
		}
		again, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if next, err := Parse("/t/f", again); err != nil || len(next.Clusters) != len(c.Clusters) || next.Listen != c.Listen {
			t.Fatalf("%s\n%v", again, err)
		}
	})
}
