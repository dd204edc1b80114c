// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/clusters/store"
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
	// MetricsTokenReview asks the ingress cluster, by TokenReview and
	// SubjectAccessReview, whether the bearer token of a request for `/metrics` at
	// `metricsListen` may `get` the path `/metrics`. Probes need no token. It needs
	// `metricsTLS`, and the rights of the ClusterRole `system:auth-delegator`.
	MetricsTokenReview bool `json:"metricsTokenReview"`
	// Instance names this installation: in its Lease, and on everything that it owns in
	// the ingress cluster, as label `tributary.dev/instance`. Two installations on one ingress
	// cluster need different names; each leaves alone what is the other's. A DNS
	// label. It cannot be changed while Tributary runs.
	Instance string `json:"instance"`
	// Namespace is Tributary's own in the ingress cluster, where it records by which
	// identity each cluster is known; no replica is ever written there. Empty means
	// the namespace of its pod if it runs in the ingress cluster
	// (`ingress.kubeconfig` is left out), else the environment's `POD_NAMESPACE`, else
	// `tributary-system`. It is created where it is missing. Keep tenants out of it.
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

// ClustersFrom are members that the file does not name.
type ClustersFrom struct {
	// Secrets are members, each by its name, for as long as they exist. The key
	// `kubeconfig` holds what a kubeconfig file would; annotations such as
	// `tributary.dev/staleAfter: 30m` are the other fields of `clusters[]`, lists and
	// mappings as in `[a, b]` and `{a: b}`. `allowInKubeconfig` is not among them. A
	// cluster of the file with the same name counts instead.
	Secrets *SecretSource `json:"secrets"`
}

// SecretSource says which Secrets of the ingress cluster are members. Whoever may
// write them decides what the ingress cluster routes to.
type SecretSource struct {
	// Namespace holds the Secrets. Empty means Tributary's own.
	Namespace string `json:"namespace"`
	// Selector is the label selector that they match.
	Selector string `json:"selector"`
}

// SetDefaults puts the defaults of a source in place.
func (s *SecretSource) SetDefaults() { s.Selector = SecretLabel + "=" + SecretLabelValue }

// Connection says how one cluster is reached.
type Connection struct {
	// Kubeconfig is the path of a kubeconfig file, relative to the configuration
	// file. It is watched: a new token, certificate, CA or server takes effect
	// without a restart.
	Kubeconfig string `json:"kubeconfig"`
	// Context is the context to use in the kubeconfig. Empty means its
	// `current-context`.
	Context string `json:"context"`
	// Client limits the requests that Tributary sends to this cluster.
	Client Client `json:"client"`
	// AllowInKubeconfig names features of kubeconfigs that are refused otherwise,
	// because whoever writes the file could use them to run programs here, to read
	// files here, or to send credentials elsewhere: `exec`, `authProvider`, `files`,
	// `insecureSkipTLSVerify`, `proxyURL`, `impersonation`.
	AllowInKubeconfig []kubeconfig.Feature `json:"allowInKubeconfig"`
}

// Client is the client-side limit of requests to one cluster.
type Client struct {
	// QPS is the mean number of requests a second. 0 means no limit on this side;
	// the server's own limits (API Priority and Fairness) are obeyed in any case.
	QPS float64 `json:"qps"`
	// Burst is how many requests may be sent at once before `qps` holds them back. 0
	// means twice `qps`. It has no meaning without `qps`.
	Burst int `json:"burst"`
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
}

// Cluster is one member.
type Cluster struct {
	// Name identifies the member in labels, metrics and logs, and becomes
	// `multicluster.kubernetes.io/source-cluster` on its slices. It is a DNS label
	// (lower-case letters, digits and `-`, at most 63 characters) and unique. A new
	// name is a new member.
	Name string `json:"name"`
	Connection
	// Namespaces chooses the namespaces whose Services are replicated.
	Namespaces Namespaces `json:"namespaces"`
	// RolesOnly says that the member grants Roles alone, in the namespaces that
	// `namespaces.include` names, as `tributary link --namespaces` makes them. Nothing
	// else is asked of it then: endpoints carry no zones, and another cluster at its
	// address is not recognised.
	RolesOnly bool `json:"rolesOnly"`
	// ServiceSelector is a label selector, such as `app=web,tier!=test`, that
	// Services must match. Empty selects every Service.
	ServiceSelector string `json:"serviceSelector"`
	// AllowedCIDRs are the ranges that this member's addresses may lie in: usually
	// its pod ranges. An address outside of them is left out and counted, so that a
	// member cannot direct traffic at other networks. Empty allows any address that
	// the API accepts.
	AllowedCIDRs []string `json:"allowedCIDRs"`
	// TolerateUnreadyAnnotation honours the annotation
	// `service.alpha.kubernetes.io/tolerate-unready-endpoints: "true"` as
	// `publishNotReadyAddresses`, as Kubernetes did before 1.24.
	TolerateUnreadyAnnotation bool `json:"tolerateUnreadyAnnotation"`
	// Mode overrides `replicas.mode` and `replicas.rules` for this member's Services:
	// `union`, `separate` or `failover`. Empty overrides nothing. An annotation on the
	// Service overrides this.
	Mode Mode `json:"mode"`
	// Drain takes this member's endpoints out of every replica, for as long as it is
	// true. The last ready endpoints of a replica stay, and are reported as held,
	// until another member has ready ones.
	Drain bool `json:"drain"`
	// Force takes out the last ready endpoints as well: what only this member serves
	// is then served by nobody. It has no meaning without `drain`.
	Force bool `json:"force"`

	// Guard says how far this member is believed when it seems to lose endpoints.
	Guard Guard `json:"guard"`
	// Readiness overrides the top level's `readiness` for this member.
	Readiness ClusterReadiness `json:"readiness"`
	// HoldSilentNodes is how long a pod stays ready that turned not ready only
	// because its node stopped reporting, such as `40s`. `0s` follows Kubernetes at
	// once.
	HoldSilentNodes Duration `json:"holdSilentNodes"`
	// StaleAfter is how long the member may be out of sight, such as `30m`, before its
	// endpoints are marked not ready wherever another member has ready ones; the last
	// ready ones of a replica never are. `0s` is never.
	StaleAfter Duration `json:"staleAfter"`
	// MaxObjects is how many Pods, or Services, or other objects of one kind the
	// member may have. One with more is not followed further: it keeps the endpoints
	// that it had, and the other members do not suffer. 0 means no limit.
	MaxObjects int `json:"maxObjects"`
	// ObserveNative watches the member's own Endpoints too, and measures how far its
	// controller manager runs behind what Tributary computes. Nothing that is
	// replicated depends on it. It needs the right to list and watch Endpoints.
	ObserveNative bool `json:"observeNative"`
	// NativeTolerance is how long the member's own Endpoints may differ from what
	// Tributary computes before the Service is listed as one of disagreement.
	NativeTolerance Duration `json:"nativeTolerance"`

	// meaning is what the fields above mean, compiled once by Parse.
	meaning *meaning
}

// Readiness damps flaps on the way up: an endpoint that turned not ready returns only
// after it has been ready for a while. A removal is never delayed, nor is an endpoint
// that is new. For each field the narrowest that says anything decides: the annotations
// `tributary.dev/ready-stable-for` and `tributary.dev/ready-keep-one` of a Service of a
// member, `namespaces` of the member, `namespaces` here, the member, and what is said
// here for all. See docs/rules.md.
type Readiness struct {
	// StableFor is how long the endpoint must have been ready, such as `10s`, at most
	// `1h`. `0s` waits for nothing.
	StableFor Duration `json:"stableFor"`
	// KeepOne lets an endpoint return at once where its replica would have no ready
	// endpoint otherwise, of this member or of another one.
	KeepOne bool `json:"keepOne"`
	// Namespaces are exceptions for some namespaces of the members. The first that
	// matches counts.
	Namespaces []NamespaceReadiness `json:"namespaces"`
}

// ClusterReadiness overrides `readiness` for a member. What is left out is as there.
type ClusterReadiness struct {
	Damping
	// Namespaces are exceptions for some namespaces of this member. The first that
	// matches counts.
	Namespaces []NamespaceReadiness `json:"namespaces"`
}

// NamespaceReadiness overrides `readiness` for some namespaces of members.
type NamespaceReadiness struct {
	// Names are names or globs of namespaces in the member. It may not be empty.
	Names []string `json:"names"`
	Damping
}

// Damping is what may be overridden.
type Damping struct {
	// StableFor overrides `readiness.stableFor`. Empty overrides nothing.
	StableFor Duration `json:"stableFor"`
	// KeepOne overrides `readiness.keepOne`. Left out, it overrides nothing.
	KeepOne *bool `json:"keepOne"`
}

// Guard limits what a member loses on weak evidence: objects that a list does not
// show any more, or most pods turning not ready at once. Deletions that are seen to
// happen pass at once, however many. See docs/operations.md, "Held changes".
type Guard struct {
	// Enabled is whether lists are judged. Most pods turning not ready has its own
	// limit, `panicPercent`.
	Enabled bool `json:"enabled"`
	// MinEndpoints is how many ready endpoints a list may take at once in any case,
	// and the least number of pods that can be a mass event.
	MinEndpoints int `json:"minEndpoints"`
	// Percent of the member's ready endpoints is what a list may take at once if that
	// is more. What exceeds both, and what leaves a replica without endpoints of this
	// member, is held until a second list confirms it.
	Percent int `json:"percent"`
	// ConfirmPercent of the member's ready endpoints is what a second list can
	// confirm. What exceeds it is held until it is seen again or released by hand.
	ConfirmPercent int `json:"confirmPercent"`
	// ConfirmAfter is the time between the two lists.
	ConfirmAfter Duration `json:"confirmAfter"`
	// PanicPercent: when more of the member's ready pods turn not ready within a
	// minute without being deleted, they are kept ready until less than half as many
	// are left, or until they are released by hand. 100 is never.
	PanicPercent int `json:"panicPercent"`
}

// Namespaces chooses namespaces by name: one that matches an entry of `include` and
// none of `exclude`. An entry is a name or a glob: `*` stands for any text, `?` for
// one character, `[a-c]` for one of several. `rename` and `prefix` say what a
// namespace is called in the ingress cluster.
type Namespaces struct {
	// Include lists the namespaces to take. It may not be empty.
	Include []string `json:"include"`
	// Exclude lists the namespaces to leave out although they are included. An
	// explicit `[]` excludes none, not even those of Kubernetes itself.
	Exclude []string `json:"exclude"`
	// Rename gives namespaces another name in the ingress cluster, by the name they
	// have in the member. Two that get one name share it: Services of the same name
	// then feed one replica.
	Rename map[string]string `json:"rename"`
	// Prefix goes before the names of all namespaces that `rename` does not name.
	// What grows longer than 63 characters is cut and ends with a hash. A namespace
	// that would come to begin with `kube-` by it is left out.
	Prefix string `json:"prefix"`
}

// Mode says how the Services of one name share a replica.
type Mode string

// The modes. An empty one, where it is allowed, leaves the decision to others.
const (
	// ModeUnion: one replica with the endpoints of all members.
	ModeUnion Mode = "union"
	// ModeSeparate: a replica for each member.
	ModeSeparate Mode = "separate"
	// ModeFailover: one replica with the endpoints of one member, the first in an
	// order that has a ready endpoint.
	ModeFailover Mode = "failover"
)

// Orphans says what becomes of the endpoints of a cluster that is not configured
// any more.
type Orphans string

// The policies for orphans.
const (
	OrphansKeep   Orphans = "keep"
	OrphansDelete Orphans = "delete"
)

// Replicas says what is written in the ingress cluster.
type Replicas struct {
	// Write lists the kinds to write beside the Service: `Endpoints`,
	// `EndpointSlices`, or both. EndpointSlices need Kubernetes 1.21 or newer in the
	// ingress cluster.
	Write []OutputKind `json:"write"`
	// CreateNamespaces creates a namespace that is missing in the ingress cluster.
	// When false, its Services wait until somebody creates it.
	CreateNamespaces bool `json:"createNamespaces"`
	// MaxEndpointsPerSlice is how many endpoints one EndpointSlice may hold, 1 to
	// 1000. Smaller slices make a change cheaper to send to every watcher, larger
	// ones make fewer objects.
	MaxEndpointsPerSlice int `json:"maxEndpointsPerSlice"`
	// Mode is what becomes of Services that have the same name in several members:
	// `union` makes one replica with the endpoints of all, `separate` a replica for
	// each member, `failover` one replica with the endpoints of the first member in an
	// order that has a ready one. `rules`, `clusters[].mode` and the annotation
	// `tributary.dev/mode` on a Service override it, the later named the earlier.
	Mode Mode `json:"mode"`
	// SeparateName is the name of a replica in mode `separate`. `{service}` and
	// `{cluster}` must be in it, `{namespace}` (that of the member) may be. A name
	// that grows longer than 63 characters is cut and ends with a hash.
	SeparateName string `json:"separateName"`
	// Failover is the order in which members serve in mode `failover`, by name.
	// Members that it does not name follow in the order of the file. The annotation
	// `tributary.dev/failover: "idc-a,idc-b"` on a Service overrides it.
	Failover []string `json:"failover"`
	// Rules are exceptions for some namespaces. The first one that matches counts,
	// alone.
	Rules []Rule `json:"rules"`
	// Orphans is what becomes of the endpoints of a cluster that has been taken out of
	// `clusters`: `keep` leaves them as they are until the cluster is drained,
	// `delete` takes them away. While a member has not been read yet, the last ready
	// endpoints of a replica are kept in any case.
	Orphans Orphans `json:"orphans"`
	// Labels chooses, by key, which labels of a Service its replica gets, and the
	// Endpoints and EndpointSlices with it.
	Labels Pass `json:"labels"`
	// Annotations chooses, by key, which annotations of a Service its replica gets,
	// the Service alone.
	Annotations Pass `json:"annotations"`
}

// Rule says for some namespaces what `replicas` says for all. A field that is left
// out is as `replicas` has it.
type Rule struct {
	// Namespaces are names or globs of namespaces of the ingress cluster. It may not
	// be empty.
	Namespaces []string `json:"namespaces"`
	// Mode overrides `replicas.mode`.
	Mode Mode `json:"mode"`
	// SeparateName overrides `replicas.separateName`.
	SeparateName string `json:"separateName"`
	// Failover overrides `replicas.failover`.
	Failover []string `json:"failover"`
}

// PodRule decides about the pods that it matches.
type PodRule struct {
	// Name names the rule in records, metrics and explanations: a DNS label, unique.
	Name string `json:"name"`
	// Clusters are names or globs of the members that the rule is for. Empty means all.
	Clusters []string `json:"clusters"`
	// Namespaces are names or globs of the members' namespaces. Empty means all.
	Namespaces []string `json:"namespaces"`
	// ServiceSelector is a label selector of the members' Services. Empty selects all.
	ServiceSelector string `json:"serviceSelector"`
	// When is a condition in CEL, the expression language of Kubernetes, over `pod`,
	// `service` (both as in the API), `node` (`name`, `zone`) and `cluster` (the
	// member's name). A pod on which it fails, for a key that is missing, does not match.
	When string `json:"when"`
	// Then is what a pod that matches counts as: `Ready` (unless it is being deleted, or
	// has finished), `NotReady`, `Absent` (no endpoint), or `Upstream` (as Kubernetes has it).
	Then store.Outcome `json:"then"`
}

// SetDefaults puts the defaults of a rule in place: it is for everything.
func (r *PodRule) SetDefaults() { r.Clusters, r.Namespaces = []string{}, []string{} }

// Pass chooses keys: those that match an entry of `pass` and none of `drop`. An
// entry is a key or a glob, in which `*` stands for any text, a slash included. Keys
// that Tributary or Kubernetes itself gives a meaning on the written objects never
// pass, nor does what an API server would refuse. Keys by which a tool tracks what is
// its own (Argo CD, Flux, Helm, kustomize, `app.kubernetes.io/instance` among them)
// pass only where `pass` has them without a wildcard.
type Pass struct {
	// Pass lists the keys to take over.
	Pass []string `json:"pass"`
	// Drop lists the keys to leave out although they pass.
	Drop []string `json:"drop"`
}

// Leases are objects of `coordination.k8s.io/v1`, one for each member, named
// `tributary-` and the member's name. Each is renewed every ten seconds for as long
// as its member is seen, and not otherwise: a Lease that has run out is a member
// whose endpoints are as they were at its `renewTime`.
type Leases struct {
	// Enabled is whether they are written.
	Enabled bool `json:"enabled"`
	// Namespace is where. Empty means the namespace of Tributary's pod if it runs in
	// the ingress cluster (`ingress.kubeconfig` is left out); otherwise none is written.
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
	// Namespace is where the Lease is. Empty means Tributary's own.
	Namespace string `json:"namespace"`
	// LeaseDuration is after how long a standby takes over from a leader that has
	// ended without a word: whole seconds, and more than `renewDeadline`.
	LeaseDuration Duration `json:"leaseDuration"`
	// RenewDeadline is for how long a leader that cannot renew the Lease writes on. More
	// than 1.2 times `retryPeriod`.
	RenewDeadline Duration `json:"renewDeadline"`
	// RetryPeriod is the time between two renewals.
	RetryPeriod Duration `json:"retryPeriod"`
}

// OutputKind is a kind of object written beside the replica Service.
type OutputKind string

// The kinds that `replicas.write` may list.
const (
	WriteEndpoints      OutputKind = "Endpoints"
	WriteEndpointSlices OutputKind = "EndpointSlices"
)

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

// SetDefaults puts the defaults of a rule in place: it changes nothing.
func (r *Rule) SetDefaults() { r.Failover = []string{} }

// SetDefaults puts the defaults of a member in place.
func (c *Cluster) SetDefaults() {
	c.AllowInKubeconfig = []kubeconfig.Feature{}
	c.Namespaces = Namespaces{Include: []string{"*"}, Exclude: []string{"kube-*"}, Rename: map[string]string{}}
	c.AllowedCIDRs = []string{}
	c.Guard = Guard{Enabled: true, MinEndpoints: 10, Percent: 15, ConfirmPercent: 50, ConfirmAfter: "3s", PanicPercent: 55}
	c.Readiness.Namespaces = []NamespaceReadiness{}
	c.HoldSilentNodes, c.StaleAfter = "0s", "0s"
	c.MaxObjects = 300_000
	c.NativeTolerance = "30s"
}
