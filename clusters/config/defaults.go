// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "tributary.dev/tributary/clusters/rules"

// defaults is a file that says nothing.
func defaults() *Config {
	return &Config{
		APIVersion: APIVersion, Kind: Kind,
		Listen: "127.0.0.1:9440", Instance: "default", Namespace: "tributary-system",
		Ingress:         Ingress{Namespaces: []string{"*"}},
		Clusters:        []Cluster{},
		ClusterDefaults: defaultSettings(),
		Replicas: Replicas{
			Write: []string{WriteEndpoints, WriteEndpointSlices}, CreateNamespaces: true,
			Failover: []Failover{}, Orphans: OrphansKeep, CopyLabels: []string{"*"}, CopyAnnotations: []string{},
		},
		Rules: []rules.Rule{}, Sinks: []Sink{},
		LeaderElection: LeaderElection{Enabled: true, LeaseDuration: "15s"},
	}
}

// defaultSettings are those of a member of which nothing is said.
func defaultSettings() ClusterSettings {
	return ClusterSettings{
		Namespaces:   Namespaces{Include: []string{"*"}, Exclude: []string{"kube-*"}},
		AllowedCIDRs: []string{}, HoldSilentNodes: "0s", StableFor: "0s", StaleAfter: "0s",
	}
}

// defaultSink is a sink of which nothing is said.
func defaultSink() Sink {
	return Sink{Namespaces: []string{"*"}, Window: "2s", RemovalWindow: "0s", MaxRequestsPerSecond: 5}
}
