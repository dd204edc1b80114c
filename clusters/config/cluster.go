// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "tributary.dev/tributary/clusters/kubeconfig"

// Connection says how one cluster is reached.
type Connection struct {
	// Kubeconfig is the path of a kubeconfig file, relative to the configuration
	// file. It is watched: a new token, certificate, CA or server takes effect
	// without a restart.
	Kubeconfig string `json:"kubeconfig"`
	// Context is the context to use in the kubeconfig. Empty means its
	// `current-context`; `check` and the log say which of several that is.
	Context string `json:"context"`
	// Client limits the requests that Tributary sends to this cluster.
	Client Client `json:"client"`
	// AllowInKubeconfig names features of kubeconfigs that are refused otherwise.
	// Whoever writes the file could use them to run programs here, to read files
	// here, or to send credentials elsewhere. They are `exec`, `authProvider`, `files`,
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
	// StaleAfter is how long the member may be out of sight, such as `30m`. After it
	// its endpoints are marked not ready wherever another member has ready ones. The
	// last ready ones of a replica never are. `0s` is never.
	StaleAfter Duration `json:"staleAfter"`
	// MaxObjects is how many Pods, or Services, or other objects of one kind the
	// member may have. One with more is not followed further. It keeps the endpoints
	// that it had, and the other members do not suffer. 0 means no limit.
	MaxObjects int `json:"maxObjects"`
	// ObserveNative watches the member's own Endpoints too, and measures how far its
	// controller manager runs behind what Tributary computes. Nothing that is
	// replicated depends on it. It needs the right to list and watch Endpoints.
	ObserveNative bool `json:"observeNative"`
	// NativeTolerance is how long the member's own Endpoints may differ from what
	// Tributary computes. After it the Service is listed as one of disagreement.
	NativeTolerance Duration `json:"nativeTolerance"`

	// unsettled is true of a Secret whose settings were never accepted.
	unsettled bool
	// meaning is what the fields above mean, compiled once by Parse.
	meaning *meaning
}

// Guard limits what a member loses on weak evidence. That is objects that a list does not
// show any more, or most pods turning not ready at once. Deletions that are seen to
// happen pass at once, however many. See docs/operations.md, "Held changes".
type Guard struct {
	// Enabled is whether lists are judged. Most pods turning not ready has its own
	// limit, `panicPercent`.
	Enabled bool `json:"enabled"`
	// MinEndpoints is how many ready endpoints lists may take in a minute beyond the
	// shares of replicas. Never the last of a replica. It is also the least number of
	// pods that can be a mass event.
	MinEndpoints int `json:"minEndpoints"`
	// Percent of a replica's ready endpoints of this member is what a list may take of
	// it. What exceeds that and `minEndpoints` is held, and asked for one by one.
	Percent int `json:"percent"`
	// ConfirmPercent of the member's ready endpoints is what a second list can confirm.
	// It counts where objects may not be read one by one. What exceeds it is held until
	// it is seen again or released by hand.
	ConfirmPercent int `json:"confirmPercent"`
	// ConfirmAfter is the time between these two lists.
	ConfirmAfter Duration `json:"confirmAfter"`
	// PanicPercent is the share of the member's ready pods. When more turn not
	// ready within a minute without being deleted, they are kept ready. That ends when less than half
	// as many are left, or when they are released by hand. 100 is never.
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
