// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	"tributary.dev/tributary/clusters/rules"
)

// The version and kind of a configuration file.
const (
	APIVersion = "tributary.dev/v1alpha1"
	Kind       = "Config"
)

// Config is the file as a whole.
type Config struct {
	// APIVersion can only be `tributary.dev/v1alpha1`.
	APIVersion string `json:"apiVersion"`
	// Kind can only be `Config`.
	Kind string `json:"kind"`
	// Listen is the address, `host:port`, that serves everything: the page at `/`,
	// `/metrics`, `/healthz`, `/readyz` and `/debug/`. The pages name pods and
	// addresses: leave it on loopback.
	Listen string `json:"listen"`
	// MetricsListen is a further address, `host:port`, that serves `/metrics`, `/healthz`
	// and `/readyz` alone, for Prometheus and the kubelet. Empty: there is none.
	MetricsListen string `json:"metricsListen"`
	// Instance names this installation: in its Lease, and on everything that it owns in
	// the ingress cluster, as label `tributary.dev/instance`. Two installations on one
	// ingress cluster need different names; each leaves alone what is the other's.
	// A DNS label.
	Instance string `json:"instance"`
	// Namespace is Tributary's own in the ingress cluster. Its Lease is there, its record
	// of which cluster each member is, and the Secrets of `clustersFrom`. No replica is
	// ever written there. Keep tenants out of it.
	Namespace string `json:"namespace"`
	// Ingress says how the ingress cluster is reached.
	Ingress Ingress `json:"ingress"`
	// Clusters are the members. It may be empty.
	Clusters []Cluster `json:"clusters"`
	// ClusterDefaults are what all members share, those from Secrets too: the fields of
	// `clusters[]` but `name` and `kubeconfig`. What a member says itself overrides
	// them; a list as a whole, a mapping field by field.
	ClusterDefaults ClusterSettings `json:"clusterDefaults"`
	// ClustersFrom are members that the file does not name.
	ClustersFrom ClustersFrom `json:"clustersFrom"`
	// Replicas says what is written in the ingress cluster.
	Replicas Replicas `json:"replicas"`
	// Rules say which pods count as endpoints where that is not as Kubernetes has it. Of
	// those that are for a Service, the first that matches a pod counts.
	Rules []rules.Rule `json:"rules"`
	// Sinks are told, outside of Kubernetes, what replicas are: see docs/sinks.md.
	Sinks []Sink `json:"sinks"`
	// LeaderElection lets several processes of one installation run.
	LeaderElection LeaderElection `json:"leaderElection"`
}

// Ingress says how the cluster is reached that is written to, and where in it replicas may be.
type Ingress struct {
	// Kubeconfig is the path of a kubeconfig file, relative to the configuration file.
	// Left out: Tributary runs in the ingress cluster as a pod and uses its service
	// account.
	Kubeconfig string `json:"kubeconfig"`
	// Context is that of the kubeconfig. Empty means its `current-context`.
	Context string `json:"context"`
	// Identity is the UID of the ingress cluster's namespace `kube-system`. No other
	// cluster is written to. Empty: the cluster that a start finds is believed.
	Identity string `json:"identity"`
	// Namespaces are names or globs of the namespaces that may be written to. `kube-*`
	// and Tributary's own are never among them.
	Namespaces []string `json:"namespaces"`
}

// Cluster is one member.
type Cluster struct {
	// Name identifies the member in labels, metrics and logs, and becomes
	// `multicluster.kubernetes.io/source-cluster` on its slices. A DNS label
	// (lower-case letters, digits and `-`, at most 63), unique. A new name is a new
	// member.
	Name string `json:"name"`
	// Kubeconfig is the path of a kubeconfig file, relative to the configuration file.
	Kubeconfig string `json:"kubeconfig"`
	ClusterSettings
}

// ClusterSettings are what members may share.
type ClusterSettings struct {
	// Context is that of the kubeconfig. Empty means its `current-context`.
	Context string `json:"context"`
	// Namespaces chooses the namespaces whose Services are replicated.
	Namespaces Namespaces `json:"namespaces"`
	// ServiceSelector is a label selector, such as `app=web,tier!=test`, that Services
	// must match. Empty selects every Service.
	ServiceSelector string `json:"serviceSelector"`
	// AllowedCIDRs are the ranges that this member's addresses may lie in: usually its
	// pod ranges. An address outside of them is left out and counted. Empty: any
	// address that the API accepts.
	AllowedCIDRs []string `json:"allowedCIDRs"`
	// Drain makes this member's endpoints reserves: they serve only what no other member
	// can.
	Drain bool `json:"drain"`
	// HoldSilentNodes is how long a pod stays ready that became not ready only because
	// its node stopped reporting, such as `40s`. After that it is a reserve.
	HoldSilentNodes Duration `json:"holdSilentNodes"`
	// StableFor is how long a pod that was ready, became not ready and returned is a
	// reserve, such as `5s`.
	StableFor Duration `json:"stableFor"`
	// StaleAfter is how long the member may be out of sight, such as `30m`, before its
	// endpoints are reserves. `0s` is never.
	StaleAfter Duration `json:"staleAfter"`
	// ObserveNative watches the member's own Endpoints, too, and measures how far its
	// controller manager is behind.
	ObserveNative bool `json:"observeNative"`
}

// Namespaces chooses namespaces by name: those that match an entry of `include` and
// none of `exclude`. An entry is a name or a glob: `*` matches any text, `?` one
// character, `[a-c]` one of several. Where `include` has plain names alone, nothing is
// asked of any other namespace: a Role in each is enough.
type Namespaces struct {
	// Include lists the namespaces to take. It may not be empty.
	Include []string `json:"include"`
	// Exclude lists the namespaces to leave out although they are included. An explicit
	// `[]` excludes none.
	Exclude []string `json:"exclude"`
}

// ClustersFrom are members that the file does not name.
type ClustersFrom struct {
	// Secrets are members, each by its name, for as long as they exist. Left out: none.
	Secrets *SecretSource `json:"secrets"`
}

// SecretSource says which Secrets of Tributary's own namespace are members. The key
// `kubeconfig` holds the kubeconfig. The annotation `tributary.dev/settings` may hold other fields of
// `clusters[]`, as YAML. A cluster of the file with the same name counts instead.
// Whoever may write these Secrets decides what the ingress cluster routes to.
type SecretSource struct {
	// Selector is the label selector that they match.
	Selector string `json:"selector"`
}

// Replicas says what is written in the ingress cluster.
type Replicas struct {
	// Write lists the kinds that are written beside the Service: `EndpointSlices`
	// always, and `Endpoints`.
	Write []string `json:"write"`
	// CreateNamespaces creates a namespace that is missing in the ingress cluster. When
	// false, its Services wait until somebody creates it.
	CreateNamespaces bool `json:"createNamespaces"`
	// Failover says where members serve in an order instead of together. The first entry
	// whose namespaces match counts.
	Failover []Failover `json:"failover"`
	// Orphans is what becomes of the endpoints of a cluster that is no longer configured.
	// `keep`: they are reserves. `delete`: they are removed once every member has been
	// listed.
	Orphans string `json:"orphans"`
	// CopyLabels are the labels of a Service that its replica gets: keys or globs, in
	// which `*` matches any text, a slash included. Those of trackers are never copied.
	CopyLabels []string `json:"copyLabels"`
	// CopyAnnotations are the annotations that are copied, likewise.
	CopyAnnotations []string `json:"copyAnnotations"`
}

// The values of Replicas.Write and Replicas.Orphans.
const (
	WriteEndpoints      = "Endpoints"
	WriteEndpointSlices = "EndpointSlices"
	OrphansKeep         = "keep"
	OrphansDelete       = "delete"
)

// Failover is an order of members for some namespaces.
type Failover struct {
	// Namespaces are names or globs of namespaces. It may not be empty.
	Namespaces []string `json:"namespaces"`
	// Order names members, the first choice first. One that it does not name serves
	// only where none of the named can.
	Order []string `json:"order"`
}

// Sink is a receiver outside of Kubernetes, such as a load balancer's API.
type Sink struct {
	// Name identifies the sink in metrics and logs. A DNS label, unique.
	Name string `json:"name"`
	// URL is where requests are posted to: `https://` or `http://`, without credentials.
	URL string `json:"url"`
	// Auth says how requests prove who sends them.
	Auth SinkAuth `json:"auth"`
	// Namespaces are names or globs of namespaces: the replicas in them are told.
	Namespaces []string `json:"namespaces"`
	// ServiceSelector is a label selector that the labels of the replica's Service must
	// match. Empty selects every replica.
	ServiceSelector string `json:"serviceSelector"`
	// Window is for how long changes of a Service are gathered, from the first of them.
	Window Duration `json:"window"`
	// RemovalWindow is that of an address that goes, or becomes not ready.
	RemovalWindow Duration `json:"removalWindow"`
	// MaxRequestsPerSecond is how many requests may begin in a second. Less than one is
	// possible: 0.2 is one in five seconds.
	MaxRequestsPerSecond float64 `json:"maxRequestsPerSecond"`
}

// SinkAuth says how requests prove who sends them, and whom they trust. Its files are
// read again for each request.
type SinkAuth struct {
	// BearerTokenFile is a file that holds a token, sent as `Authorization: Bearer`. It
	// needs `https://`, except on loopback.
	BearerTokenFile string `json:"bearerTokenFile"`
	// TLS is a client certificate, and which servers are trusted.
	TLS SinkTLS `json:"tls"`
}

// SinkTLS are files in PEM.
type SinkTLS struct {
	// CertFile is a client certificate.
	CertFile string `json:"certFile"`
	// KeyFile is the key of `certFile`.
	KeyFile string `json:"keyFile"`
	// CAFile holds the authorities that the server's certificate must come from. Empty
	// means those of the system.
	CAFile string `json:"caFile"`
}

// LeaderElection lets several processes of one installation run.
type LeaderElection struct {
	// Enabled is whether a process asks for the Lease before it writes. Where it is
	// false, run one process alone.
	Enabled bool `json:"enabled"`
	// LeaseDuration is after how long a standby takes over from a leader that has
	// crashed: whole seconds, 2s to 1h.
	LeaseDuration Duration `json:"leaseDuration"`
}

// Duration is a length of time as Go writes it, such as 1m30s. It stays text until it
// is asked for, so that a fault in it is told with its field.
type Duration string

// Value is the length of time; 0 for a text that is none, which Validate refuses.
func (d Duration) Value() time.Duration {
	value, _ := time.ParseDuration(string(d))
	return value
}
