// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/rules"
)

// The version and kind that a configuration file must state.
const (
	APIVersion = "tributary.dev/v1alpha1"
	Kind       = "Config"
)

// DefaultInstance is the name of an installation that is given none.
const DefaultInstance = "default"

// Config is the file as a whole.
type Config struct {
	// APIVersion must be `tributary.dev/v1alpha1`.
	APIVersion string `json:"apiVersion"`
	// Kind must be `Config`.
	Kind string `json:"kind"`
	// Listen is the address, `host:port`, that serves everything: the page at `/`,
	// `/metrics`, `/healthz`, `/readyz` and `/debug/`. An empty host means every interface
	// of the machine. The pages name pods and addresses: leave it on loopback.
	Listen string `json:"listen"`
	// MetricsListen is a further address, `host:port`, that serves `/metrics`, `/healthz`
	// and `/readyz` alone, for Prometheus and the kubelet. Empty: there is none.
	MetricsListen string `json:"metricsListen"`
	// MetricsTLS is the certificate of `metricsListen`. Without one it is plain HTTP.
	MetricsTLS MetricsTLS `json:"metricsTLS"`
	// MetricsTokenReview has requests for `/metrics` at `metricsListen` prove by a
	// bearer token that they may `get` the path `/metrics`. The ingress cluster is
	// asked, by TokenReview and SubjectAccessReview. Probes need no token. It needs
	// `metricsTLS`, and the rights of the ClusterRole `system:auth-delegator`.
	MetricsTokenReview bool `json:"metricsTokenReview"`
	// Instance names this installation: in its Lease, and on everything that it owns in
	// the ingress cluster, as label `tributary.dev/instance`. Two installations on one ingress
	// cluster need different names; each leaves alone what is the other's. A DNS
	// label. It cannot be changed while Tributary runs.
	Instance string `json:"instance"`
	// Namespace is Tributary's own in the ingress cluster, where it records by which
	// identity each cluster is known. No replica is ever written there. Empty means
	// the namespace of its pod if it runs in the ingress cluster
	// (`ingress.kubeconfig` is left out). Else it is the environment's
	// `POD_NAMESPACE`, else `tributary-system`. It is created where it is missing. Keep tenants out of it.
	Namespace string `json:"namespace"`
	// Ingress says how the ingress cluster is reached: the one that is written to.
	// Without `ingress.kubeconfig`, Tributary runs in that cluster as a pod and uses
	// its service account.
	Ingress Ingress `json:"ingress"`
	// Clusters are the members: the clusters whose endpoints are carried over. The
	// field must be given; `[]` is allowed, so that the last member can be taken
	// away while Tributary runs.
	Clusters []Cluster `json:"clusters" base:"clusterDefaults"`
	// ClusterDefaults are what all members share, of the file and from Secrets: the
	// fields of `clusters[]` but `name` and `kubeconfig`. What a member says itself
	// overrides them; a list as a whole, a mapping field by field.
	ClusterDefaults Cluster `json:"clusterDefaults"`
	// ClustersFrom are members that the file does not name.
	ClustersFrom ClustersFrom `json:"clustersFrom"`
	// Replicas says what is written in the ingress cluster.
	Replicas Replicas `json:"replicas"`
	// Rules say which pods count as endpoints where that is not as Kubernetes has it.
	// They are asked in their order for each pod of a Service; the first that matches
	// decides. See docs/rules.md.
	Rules []PodRule `json:"rules"`
	// Readiness says when an endpoint that turned not ready returns.
	Readiness Readiness `json:"readiness"`
	// Leases show in the ingress cluster how fresh each member is.
	Leases Leases `json:"leases"`
	// LeaderElection lets one of several processes of this installation write.
	LeaderElection LeaderElection `json:"leaderElection"`
	// Sinks are told, outside of Kubernetes, what replicas are.
	Sinks []Sink `json:"sinks"`

	// program is what Rules mean, compiled once by Parse.
	program *rules.Program
}

// MetricsTLS is a certificate and its key, PEM. Paths are relative to the configuration
// file. Both are watched: a renewed certificate is used within two seconds.
type MetricsTLS struct {
	// CertFile holds the certificate, and what leads from it to its CA.
	CertFile string `json:"certFile"`
	// KeyFile holds its private key.
	KeyFile string `json:"keyFile"`
}

// Ingress says how the ingress cluster is reached.
type Ingress struct {
	Connection
	// Identity is the UID of the ingress cluster's `kube-system` namespace. Another
	// cluster than that is refused: nothing is written to it. Empty means the cluster
	// that was reached first; see docs/operations.md, "Another ingress cluster".
	Identity string `json:"identity"`
	// Namespaces are names or globs of the namespaces that may be written to.
	// `kube-*` and Tributary's own are never among them. Objects of all namespaces are
	// read all the same.
	Namespaces []string `json:"namespaces"`
	// RolesOnly says that the ingress cluster grants Roles alone, in the namespaces that
	// `namespaces` names and in Tributary's own. Nothing else is asked of it then. These
	// namespaces are taken to be there, and another cluster at its address is not
	// recognised.
	RolesOnly bool `json:"rolesOnly"`
}

// Leases are objects of `coordination.k8s.io/v1`, one for each member, named
// `tributary-` and the member's name. Each is renewed every ten seconds for as long
// as its member is seen, and not otherwise. A Lease that has run out is a member
// whose endpoints are as they were at its `renewTime`.
type Leases struct {
	// Enabled is whether they are written.
	Enabled bool `json:"enabled"`
	// Namespace is where. Empty means the namespace of Tributary's pod if it runs in
	// the ingress cluster (`ingress.kubeconfig` is left out). Otherwise none is written.
	Namespace string `json:"namespace"`
}

// LeaderElection lets several processes of one installation run: one writes, the
// others follow everything and write nothing. Who writes holds the Lease
// `tributary-leader.` and the name of the installation. A process that may not write
// Leases writes alone; see docs/operations.md, "High availability".
type LeaderElection struct {
	// Enabled is whether a process asks for the Lease before it writes. Where it is
	// false, run one process alone.
	Enabled bool `json:"enabled"`
	// Namespace is where the Lease is. Empty means Tributary's own. A running process
	// refuses to change it: another would take the Lease that it lets go.
	Namespace string `json:"namespace"`
	// LeaseDuration is after how long a standby takes over from a leader that has
	// ended without a word. Whole seconds, and more than `renewDeadline`.
	LeaseDuration Duration `json:"leaseDuration"`
	// RenewDeadline is for how long a leader that cannot renew the Lease writes on. More
	// than 1.2 times `retryPeriod`.
	RenewDeadline Duration `json:"renewDeadline"`
	// RetryPeriod is the time between two renewals.
	RetryPeriod Duration `json:"retryPeriod"`
}

// SetDefaults puts the defaults in place. Clusters stays nil, which Validate
// tells from an empty list.
func (c *Config) SetDefaults() {
	c.Listen = "127.0.0.1:9440"
	c.Instance = DefaultInstance
	c.Ingress.AllowInKubeconfig = []kubeconfig.Feature{}
	c.Ingress.Namespaces = []string{"*"}
	c.Replicas = Replicas{
		Write:                []OutputKind{WriteEndpoints, WriteEndpointSlices},
		CreateNamespaces:     true,
		MaxEndpointsPerSlice: 100,
		Mode:                 ModeUnion,
		SeparateName:         "{service}-{cluster}",
		Failover:             []string{},
		Rules:                []Rule{},
		Orphans:              OrphansKeep,
		Labels:               Pass{Pass: []string{"*"}, Drop: []string{}},
		Annotations:          Pass{Pass: []string{}, Drop: []string{}},
	}
	c.Rules = []PodRule{}
	c.Readiness = Readiness{StableFor: "0s", KeepOne: true, Namespaces: []NamespaceReadiness{}}
	c.Leases = Leases{Enabled: true}
	c.ClusterDefaults.SetDefaults()
	c.LeaderElection = LeaderElection{Enabled: true, LeaseDuration: "10s", RenewDeadline: "8s", RetryPeriod: "2s"}
	c.Sinks = []Sink{}
}
