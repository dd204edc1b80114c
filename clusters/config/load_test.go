// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"testing"

	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/store"
)

func mustParse(t *testing.T, text string) Config {
	t.Helper()
	c, err := Parse("tributary.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDefaultsAreThoseOfTheContract holds a file that gives only what must be
// given against one that spells out every default.
func TestDefaultsAreThoseOfTheContract(t *testing.T) {
	short := mustParse(t, header+"clusters: [{name: idc-a, kubeconfig: idc-a.kubeconfig}]")
	long := mustParse(t, `
apiVersion: tributary.dev/v1alpha1
kind: Config
listen: 127.0.0.1:9440
ingress:
  kubeconfig: ""
  context: ""
  client: {qps: 0, burst: 0}
  allowInKubeconfig: []
clusters:
- name: idc-a
  kubeconfig: idc-a.kubeconfig
  context: ""
  client: {qps: 0, burst: 0}
  allowInKubeconfig: []
  namespaces: {include: ["*"], exclude: ["kube-*"]}
  serviceSelector: ""
  allowedCIDRs: []
  tolerateUnreadyAnnotation: false
  guard: {enabled: true, minEndpoints: 10, percent: 15, confirmPercent: 50, confirmAfter: 3s, panicPercent: 55}
  readiness: {stableFor: "", namespaces: []}
  holdSilentNodes: 0s
  staleAfter: 0s
  maxObjects: 300000
replicas:
  write: [Endpoints, EndpointSlices]
  createNamespaces: true
  maxEndpointsPerSlice: 100
readiness: {stableFor: 0s, keepOne: true, namespaces: []}
leases: {enabled: true, namespace: ""}
leaderElection: {enabled: true, namespace: "", leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 2s}
sinks: []
`)
	if !reflect.DeepEqual(short, long) {
		t.Errorf("defaults differ\n got %+v\nwant %+v", short, long)
	}
}

func TestEveryFieldIsTaken(t *testing.T) {
	got := mustParse(t, `# JSON is YAML, and so is a mix of both
{"apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "listen": ":0", "instance": "blue", "namespace": "mine",
 "ingress": {"kubeconfig": "in", "identity": "uid", "namespaces": ["shop", "team-*"], "context": "c", "client": {"qps": 50.5, "burst": 7}, "allowInKubeconfig": ["files"]},
 "clusters": [{"name": "b", "kubeconfig": "/abs", "context": "d", "client": {"qps": 1e2}, "allowInKubeconfig": ["exec", "proxyURL"],
	"namespaces": {"include": ["a-*", "b"], "exclude": [], "rename": {"a-b": "c"}, "prefix": "p-"}, "mode": "union", "drain": true, "force": true, "serviceSelector": "app", "allowedCIDRs": ["10.0.0.0/8", "fd00::/8"], "tolerateUnreadyAnnotation": true,
	"guard": {"enabled": false, "minEndpoints": 1, "percent": 2, "confirmPercent": 3, "confirmAfter": "1m", "panicPercent": 4},
	"readiness": {"stableFor": "10s", "keepOne": false, "namespaces": [{"names": ["a-*"], "stableFor": "0s"}]}, "holdSilentNodes": "40s", "staleAfter": "1h30m", "maxObjects": 5}],
 "clusterDefaults": {"serviceSelector": "b"}, "clustersFrom": {"secrets": {"namespace": "n", "selector": "a=b"}},
 "rules": [{"name": "r", "clusters": ["b*"], "namespaces": ["x"], "serviceSelector": "y", "when": "true", "then": "Absent"}],
 "readiness": {"stableFor": "5s", "keepOne": false, "namespaces": [{"names": ["b"], "keepOne": true}]},
 "leases": {"enabled": false, "namespace": "own"},
 "leaderElection": {"enabled": false, "namespace": "elsewhere", "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "500ms"},
 "sinks": [{"name": "slb", "type": "HTTP", "url": "https://slb/x", "auth": {"bearerTokenFile": "t", "tls": {"certFile": "c", "keyFile": "k", "caFile": "a", "serverName": "s"}},
	"namespaces": ["shop"], "serviceSelector": "a=b", "window": "1s", "removalWindow": "500ms", "maxRequestsPerSecond": 0.5, "maxServicesPerRequest": 7, "timeout": "3s"}],
 "replicas": {"write": ["EndpointSlices"], "createNamespaces": false, "maxEndpointsPerSlice": 1000,
	"mode": "failover", "separateName": "{cluster}-{service}", "failover": ["b"], "orphans": "delete",
	"rules": [{"namespaces": ["x-*"], "mode": "separate", "separateName": "{service}-of-{cluster}", "failover": ["b"]}],
	"labels": {"pass": ["a/*"], "drop": ["a/b"]}, "annotations": {"pass": ["*"], "drop": ["c"]}}}
---
`)
	got.Clusters[0].meaning, got.program = nil, nil
	shared := Cluster{}
	shared.SetDefaults()
	shared.ServiceSelector = "b"
	want := Config{
		APIVersion: APIVersion, Kind: Kind, Listen: ":0", Instance: "blue", Namespace: "mine",
		Ingress: Ingress{Connection: Connection{
			Kubeconfig: "in", Context: "c", Client: Client{QPS: 50.5, Burst: 7}, AllowInKubeconfig: []kubeconfig.Feature{kubeconfig.Files},
		}, Identity: "uid", Namespaces: []string{"shop", "team-*"}},
		Clusters: []Cluster{{
			Name: "b",
			Connection: Connection{
				Kubeconfig: "/abs", Context: "d", Client: Client{QPS: 100},
				AllowInKubeconfig: []kubeconfig.Feature{kubeconfig.Exec, kubeconfig.ProxyURL},
			},
			Namespaces: Namespaces{Include: []string{"a-*", "b"}, Exclude: []string{}, Rename: map[string]string{"a-b": "c"}, Prefix: "p-"},
			Mode:       ModeUnion, Drain: true, Force: true,
			ServiceSelector: "app", AllowedCIDRs: []string{"10.0.0.0/8", "fd00::/8"}, TolerateUnreadyAnnotation: true,
			Guard: Guard{MinEndpoints: 1, Percent: 2, ConfirmPercent: 3, ConfirmAfter: "1m", PanicPercent: 4},
			Readiness: ClusterReadiness{Damping: Damping{StableFor: "10s", KeepOne: new(false)},
				Namespaces: []NamespaceReadiness{{Names: []string{"a-*"}, Damping: Damping{StableFor: "0s"}}}},
			HoldSilentNodes: "40s", StaleAfter: "1h30m", MaxObjects: 5, NativeTolerance: "30s",
		}},
		ClusterDefaults: shared, ClustersFrom: ClustersFrom{Secrets: &SecretSource{Namespace: "n", Selector: "a=b"}},
		Rules: []PodRule{{Name: "r", Clusters: []string{"b*"}, Namespaces: []string{"x"}, ServiceSelector: "y", When: "true", Then: store.Absent}},
		Readiness: Readiness{StableFor: "5s",
			Namespaces: []NamespaceReadiness{{Names: []string{"b"}, Damping: Damping{KeepOne: new(true)}}}},
		Leases:         Leases{Namespace: "own"},
		LeaderElection: LeaderElection{Namespace: "elsewhere", LeaseDuration: "15s", RenewDeadline: "10s", RetryPeriod: "500ms"},
		Sinks: []Sink{{Name: "slb", Type: SinkHTTP, URL: "https://slb/x",
			Auth:       SinkAuth{BearerTokenFile: "t", TLS: SinkTLS{CertFile: "c", KeyFile: "k", CAFile: "a", ServerName: "s"}},
			Namespaces: []string{"shop"}, ServiceSelector: "a=b", Window: "1s", RemovalWindow: "500ms", MaxRequestsPerSecond: 0.5, MaxServicesPerRequest: 7, Timeout: "3s"}},
		Replicas: Replicas{Write: []OutputKind{WriteEndpointSlices}, MaxEndpointsPerSlice: 1000,
			Mode: ModeFailover, SeparateName: "{cluster}-{service}", Failover: []string{"b"}, Orphans: OrphansDelete,
			Rules:  []Rule{{Namespaces: []string{"x-*"}, Mode: ModeSeparate, SeparateName: "{service}-of-{cluster}", Failover: []string{"b"}}},
			Labels: Pass{Pass: []string{"a/*"}, Drop: []string{"a/b"}}, Annotations: Pass{Pass: []string{"*"}, Drop: []string{"c"}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNoMembersIsValid(t *testing.T) {
	if got := mustParse(t, header+"clusters: []\ningress:\n"); len(got.Clusters) != 0 {
		t.Errorf("got %d clusters", len(got.Clusters))
	}
}

// FuzzParse holds that no text makes the parser panic, and that what it accepts
// is valid and means the same when it is read again.
func FuzzParse(f *testing.F) {
	f.Add(header + "clusters: []")
	f.Add(one("namespaces: {include: ['*'], exclude: []}", "serviceSelector: a in (b)", "allowedCIDRs: [10.0.0.0/8]"))
	f.Add(one("name: twice", "color: &a [*a]", "? [x]\n  : y"))
	f.Add("a: !!int foo\n---\n--- !!binary x")
	f.Add("\xff\xfea\x00")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f", []byte(text))
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without text")
			}
			return
		}
		if faults := c.Validate(); len(faults) > 0 {
			t.Fatalf("accepted although %v", faults)
		}
		again, err := Parse("f", []byte(text))
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("read twice, understood differently: %+v, %+v, %v", c, again, err)
		}
		for i := range c.Clusters {
			if c.Clusters[i].meaning == nil {
				t.Fatalf("clusters[%d] was not compiled", i)
			}
		}
	})
}
