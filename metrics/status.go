// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"tributary.dev/tributary/metrics/record"
)

// Status is the state of a running process: what /debug/status serves, what
// `tributary status` prints, and where every gauge gets its value, so that the
// three cannot disagree. Times are in UTC; the zero time means never.
type Status struct {
	Version string `json:"version"`
	// Instance is the name of the installation; versions before it was told leave it out.
	Instance string    `json:"instance,omitempty"`
	Started  time.Time `json:"started"`
	// Time is when this status was taken.
	Time  time.Time `json:"time"`
	Ready bool      `json:"ready"`
	// NotReady says what readiness waits for; empty when Ready.
	NotReady []string        `json:"notReady,omitempty"`
	Leader   LeaderStatus    `json:"leader"`
	Config   ConfigStatus    `json:"config"`
	Ingress  IngressStatus   `json:"ingress"`
	Clusters []ClusterStatus `json:"clusters"`
	Lanes    []LaneStatus    `json:"lanes"`
	Sinks    []SinkStatus    `json:"sinks,omitempty"`
	// Orphans are clusters that are not configured and of which endpoints stand.
	Orphans []OrphanStatus `json:"orphans,omitempty"`
	// Conflicts, Held and Rejected are bounded lists; the Count of each is not.
	Conflicts     []Conflict   `json:"conflicts"`
	ConflictCount int          `json:"conflictCount"`
	Held          []HeldChange `json:"held"`
	HeldCount     int          `json:"heldCount"`
	Rejected      []Rejection  `json:"rejected"`
	RejectedCount int          `json:"rejectedCount"`
	// Slowest are the slowest live changes among those remembered.
	Slowest []*record.Change `json:"slowest"`
}

// LeaderStatus is about who writes.
type LeaderStatus struct {
	// State is "leading" or "standby"; "alone" where this process writes and asks no
	// Lease for it, because of Reason; empty before the ingress cluster was reached.
	State  string    `json:"state"`
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"`
	// Phase is where the life of the process stands: "waiting" for the ingress cluster,
	// "listing" it, "standby", "leading", or "exchanging" the connection to it.
	Phase string `json:"phase"`
	// Identity is this process's name, Holder that of the one that leads, as far as is
	// known; Lease is namespace and name of what they ask for.
	Identity string `json:"identity,omitempty"`
	Holder   string `json:"holder,omitempty"`
	Lease    string `json:"lease,omitempty"`
	// Error is why the Lease cannot be read or written at present.
	Error string `json:"error,omitempty"`
}

// Writes reports whether the process writes to the ingress cluster.
func (l *LeaderStatus) Writes() bool { return l.State == "leading" || l.State == "alone" }

// ConfigStatus is about the configuration file.
type ConfigStatus struct {
	File string `json:"file,omitempty"`
	// LoadedAt is when the running configuration was taken.
	LoadedAt time.Time `json:"loadedAt,omitzero"`
	// Error is why the file on disk was refused; empty if it is the running one.
	Error string `json:"error,omitempty"`
}

// IngressStatus is about the ingress cluster.
type IngressStatus struct {
	// State is one word for people, such as "live" or "unreachable".
	State   string `json:"state"`
	Up      bool   `json:"up"`
	Synced  bool   `json:"synced"`
	Version string `json:"version,omitempty"`
	// Replicas counts the Services that Tributary owns.
	Replicas    int       `json:"replicas"`
	LastContact time.Time `json:"lastContact,omitzero"`
	LastError   string    `json:"lastError,omitempty"`
}

// ClusterStatus is about one member cluster.
type ClusterStatus struct {
	Name string `json:"name"`
	// State is one word for people, such as "syncing", "live" or "silent"; Reason
	// says more, in a word that can be looked up; Since is when both began.
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Up is whether the cluster answers; Synced whether it has been seen whole
	// since the process started.
	Up     bool `json:"up"`
	Synced bool `json:"synced"`
	// Panic is whether pods are kept ready that all turned not ready at once; Stale
	// whether the cluster has been out of sight for longer than its staleAfter.
	Panic bool `json:"panic,omitempty"`
	Stale bool `json:"stale,omitempty"`
	// DrainSince is since when the configuration takes the cluster's endpoints out; zero:
	// it does not. The last ready ones of a replica may be held all the same.
	DrainSince time.Time `json:"drainSince,omitzero"`
	Version    string    `json:"version,omitempty"`
	Services   int       `json:"services"`
	Pods       int       `json:"pods"`
	Endpoints  struct {
		Ready    int `json:"ready"`
		NotReady int `json:"notReady"`
		// Damped are those not ready ones whose pods are ready, and have not been for as
		// long as the setting readiness.stableFor wants it.
		Damped int `json:"damped,omitempty"`
	} `json:"endpoints"`
	// Rules are the rules of the configuration that are for the cluster, in their order.
	Rules []RuleStatus `json:"rules,omitempty"`
	// LagSeconds is the age of the oldest change that is not yet written.
	LagSeconds  float64   `json:"lagSeconds"`
	LastContact time.Time `json:"lastContact,omitzero"`
	// CredentialExpires is when the token or client certificate in use ends; zero: it
	// does not, or does not say.
	CredentialExpires time.Time `json:"credentialExpires,omitzero"`
	// CredentialRenewed is from when on Tributary asks for another token; zero: it does not.
	CredentialRenewed time.Time `json:"credentialRenewed,omitzero"`
	LastError         string    `json:"lastError,omitempty"`
	LastErrorAt       time.Time `json:"lastErrorAt,omitzero"`
	// Unreadable counts what the cluster sent and could not be used.
	Unreadable uint64 `json:"unreadable,omitempty"`
	// Remarks say what the cluster cannot be asked for and can do without.
	Remarks []string `json:"remarks,omitempty"`
	// Native compares with what the cluster's own controllers write; nil where
	// nobody asked for that.
	Native *NativeStatus `json:"native,omitempty"`
}

// RuleStatus is how a rule fares in one member cluster.
type RuleStatus struct {
	Name string `json:"name"`
	Then string `json:"then"`
	// Matches are the pods that it decides now, each for each of its Services; Takes are the
	// ready endpoints that it takes away, Held those of them that the guard holds.
	Matches int `json:"matches"`
	Takes   int `json:"takes,omitempty"`
	Held    int `json:"held,omitempty"`
	// Since the rules were last changed: evaluations, those that failed, what they cost in
	// Kubernetes' units, and the time they took.
	Evaluations uint64  `json:"evaluations"`
	Errors      uint64  `json:"errors,omitempty"`
	Cost        uint64  `json:"cost"`
	Seconds     float64 `json:"seconds"`
	// LastError is why it last failed on a pod.
	LastError string `json:"lastError,omitempty"`
}

// NativeStatus is how a member's own controllers compare with Tributary.
type NativeStatus struct {
	// BehindSeconds is how long the oldest change has been waiting for them.
	BehindSeconds float64 `json:"behindSeconds"`
	// Differing are the Services about which both have differed for longer than
	// the member's nativeTolerance, oldest first: all of them as Options.Status
	// tells, bounded in what is served; the Count is not.
	Differing      []NativeDifference `json:"differing"`
	DifferingCount int                `json:"differingCount"`
}

// NativeDifference is a Service of a member about which its own controllers
// and Tributary differ.
type NativeDifference struct {
	Cluster   string    `json:"cluster"`
	Namespace string    `json:"namespace"`
	Service   string    `json:"service"`
	Since     time.Time `json:"since"`
	// Ours and Theirs are all addresses of both sides, as "ip:port/protocol", with
	// " not ready" behind those that are not.
	Ours   []string `json:"ours"`
	Theirs []string `json:"theirs"`
}

// LaneStatus is about one lane of the queue.
type LaneStatus struct {
	Name  string `json:"name"`
	Depth int    `json:"depth"`
	// Working is the number of keys that workers hold.
	Working int `json:"working"`
	// OldestSeconds is how long the oldest key has been dirty, whether it waits, is in
	// backoff or is with a worker.
	OldestSeconds float64 `json:"oldestSeconds"`
	// UnfinishedSeconds is how long workers have held their keys, in sum;
	// LongestSeconds is the longest of these times.
	UnfinishedSeconds float64 `json:"unfinishedSeconds"`
	LongestSeconds    float64 `json:"longestSeconds"`
}

// SinkStatus is about one receiver outside of Kubernetes.
type SinkStatus struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// State is "live", "failing" (the last request was not acknowledged), or "standby":
	// another process tells it.
	State string `json:"state"`
	// LagSeconds is the age of the oldest change that is not acknowledged, the window
	// included.
	LagSeconds float64 `json:"lagSeconds"`
	// Services are told; Pending are not acknowledged as they are, Refused are those among
	// them that the receiver does not take.
	Services int `json:"services"`
	Pending  int `json:"pending"`
	Refused  int `json:"refused"`
	// Requests were sent by this process; Failures were not acknowledged.
	Requests         uint64    `json:"requests"`
	Failures         uint64    `json:"failures"`
	LastAcknowledged time.Time `json:"lastAcknowledged,omitzero"`
	LastError        string    `json:"lastError,omitempty"`
	// Unkept is why what was acknowledged does not outlast a restart; empty where it does.
	Unkept string `json:"unkept,omitempty"`
}

// OrphanStatus is about a cluster that is not configured and of which endpoints stand in
// the ingress cluster: nobody knows whether they live.
type OrphanStatus struct {
	Cluster string `json:"cluster"`
	// Replicas are those in which they stand.
	Replicas  int `json:"replicas"`
	Endpoints int `json:"endpoints"`
	// Since is when this process first saw one of them.
	Since time.Time `json:"since"`
}

// Conflict is a disagreement about one replica that a person should mend.
type Conflict struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	// Reason is one of a closed set: it is a metric label.
	Reason string `json:"reason"`
	// Cluster is the member whose wish lost; empty for an object that is not ours.
	Cluster string `json:"cluster,omitempty"`
	// Message names both sides and the remedy.
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// HeldChange is a change that is kept back.
type HeldChange struct {
	// Namespace and Service are empty when the whole cluster is meant.
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service,omitempty"`
	Cluster   string `json:"cluster"`
	// Reason is one of a closed set: it is a metric label.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Release says how a person lets the change pass.
	Release string    `json:"release,omitempty"`
	Since   time.Time `json:"since"`
}

// Rejection is an address that is left out of a replica.
type Rejection struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	Cluster   string `json:"cluster"`
	// Address is the text as found, shortened if it is long.
	Address string `json:"address"`
	// Reason is one of a closed set: it is a metric label.
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}
