// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "tributary.dev/tributary/clusters/kubeconfig"

// The version and kind that a configuration file must state.
const (
	APIVersion = "tributary.dev/v1alpha1"
	Kind       = "Config"
)

// Config is the file as a whole.
type Config struct {
	// APIVersion must be `tributary.dev/v1alpha1`.
	APIVersion string `json:"apiVersion"`
	// Kind must be `Config`.
	Kind string `json:"kind"`
	// Listen is the address, `host:port`, that serves `/metrics`, `/healthz`,
	// `/readyz` and `/debug/`. An empty host means every interface of the machine.
	// The pages name pods and addresses: keep them away from strangers.
	Listen string `json:"listen"`
	// Ingress says how the ingress cluster is reached: the one that is written to.
	// Without `ingress.kubeconfig`, Tributary runs in that cluster as a pod and uses
	// its service account.
	Ingress Ingress `json:"ingress"`
	// Clusters are the members: the clusters whose endpoints are carried over. The
	// field must be given; `[]` is allowed, so that the last member can be taken
	// away while Tributary runs.
	Clusters []Cluster `json:"clusters"`
	// Replicas says what is written in the ingress cluster.
	Replicas Replicas `json:"replicas"`
}

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

	// rules is what the fields above mean, compiled once by Parse.
	rules *rules
}

// Namespaces chooses namespaces by name: one that matches an entry of `include` and
// none of `exclude`. An entry is a name or a glob: `*` stands for any text, `?` for
// one character, `[a-c]` for one of several.
type Namespaces struct {
	// Include lists the namespaces to take. It may not be empty.
	Include []string `json:"include"`
	// Exclude lists the namespaces to leave out although they are included. An
	// explicit `[]` excludes none, not even those of Kubernetes itself.
	Exclude []string `json:"exclude"`
}

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
	c.Ingress.AllowInKubeconfig = []kubeconfig.Feature{}
	c.Replicas = Replicas{
		Write:                []OutputKind{WriteEndpoints, WriteEndpointSlices},
		CreateNamespaces:     true,
		MaxEndpointsPerSlice: 100,
	}
}

// SetDefaults puts the defaults of a member in place.
func (c *Cluster) SetDefaults() {
	c.AllowInKubeconfig = []kubeconfig.Feature{}
	c.Namespaces = Namespaces{Include: []string{"*"}, Exclude: []string{"kube-*"}}
	c.AllowedCIDRs = []string{}
}
