// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"time"
)

// Status is the state of a running process: what /debug/status serves, what
// `tributary status` prints, and where every gauge gets its value, so that the
// three cannot disagree. Times are in UTC; the zero time means never.
type Status struct {
	Version string `json:"version"`
	// Instance is the name of the installation.
	Instance string    `json:"instance"`
	Started  time.Time `json:"started"`
	// Time is when this status was read.
	Time  time.Time `json:"time"`
	Ready bool      `json:"ready"`
	// NotReady says what readiness waits for; empty when Ready.
	NotReady []string        `json:"notReady,omitempty"`
	Leader   LeaderStatus    `json:"leader"`
	Config   ConfigStatus    `json:"config"`
	Ingress  IngressStatus   `json:"ingress"`
	Clusters []ClusterStatus `json:"clusters"`
	// Comparing is the number of replicas that wait for a comparison or are in one.
	Comparing int          `json:"comparing"`
	Lanes     []LaneStatus `json:"lanes"`
	Sinks     []SinkStatus `json:"sinks,omitempty"`
	// Orphans are clusters that are not configured and of which there are endpoints, in
	// OrphanReplicas replicas together.
	Orphans        []OrphanStatus `json:"orphans,omitempty"`
	OrphanReplicas int            `json:"orphanReplicas"`
	// Conflicts and Rejected are bounded lists; the Count of each is not.
	Conflicts     []Conflict  `json:"conflicts"`
	ConflictCount int         `json:"conflictCount"`
	Rejected      []Rejection `json:"rejected"`
	RejectedCount int         `json:"rejectedCount"`
}

// LeaderStatus is about who writes.
type LeaderStatus struct {
	// State is "leading" or "standby"; "alone" where leader election is disabled and
	// this process writes; empty before the ingress cluster was listed.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
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
	// LoadedAt is when the running configuration was loaded.
	LoadedAt time.Time `json:"loadedAt,omitzero"`
	// Error is why the file on disk was refused; empty if it is the running one.
	Error string `json:"error,omitempty"`
	// Restart names the fields of which a change waits for a restart.
	Restart []string `json:"restart,omitempty"`
	// Refused are the member Secrets that are not used, each with the reason.
	Refused []string `json:"refused,omitempty"`
}

// IngressStatus is about the ingress cluster.
type IngressStatus struct {
	// State is for people: "listing", "live", "unreachable" or "other cluster".
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
	// State is for people: "live" where all of it is followed, else what prevents
	// that, such as "listing", "unreachable" or "refused". Since is when it began.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Conditions are what is wrong with it or doubted of it, the gravest first.
	Conditions []Condition `json:"conditions,omitempty"`
	// Up is whether the cluster answers; Synced whether it has been listed completely
	// since the process started.
	Up       bool   `json:"up"`
	Synced   bool   `json:"synced"`
	Version  string `json:"version,omitempty"`
	Services int    `json:"services"`
	Pods     int    `json:"pods"`
	// Endpoints are what it contributes, by grade; a pod behind two Services counts twice.
	Endpoints EndpointCounts `json:"endpoints"`
	// Missing are the objects that a complete list lacked and that were asked for, without
	// an answer yet.
	Missing int `json:"missing"`
	// LagSeconds is the age of the oldest change that is not yet written.
	LagSeconds  float64   `json:"lagSeconds"`
	LastContact time.Time `json:"lastContact,omitzero"`
	// CredentialExpires is when the token or client certificate in use ends; zero: it
	// does not, or does not say.
	CredentialExpires time.Time `json:"credentialExpires,omitzero"`
	LastError         string    `json:"lastError,omitempty"`
	LastErrorAt       time.Time `json:"lastErrorAt,omitzero"`
	// Native compares with what the cluster's own controllers write; nil where
	// nobody asked for that.
	Native *NativeStatus `json:"native,omitempty"`
}

// Drained reports whether somebody has the member take no traffic.
func (c *ClusterStatus) Drained() bool { return c.Has("Drained") }

// Has reports whether a condition of that reason holds.
func (c *ClusterStatus) Has(reason string) bool {
	return slices.ContainsFunc(c.Conditions, func(o Condition) bool { return o.Reason == reason })
}

// Condition is what is wrong with a member, or doubted of it.
type Condition struct {
	// Reason is one of a closed set: it is a metric label.
	Reason string `json:"reason"`
	// Message says what follows from it, and what to do.
	Message string `json:"message,omitempty"`
}

// EndpointCounts are endpoints by grade; those that terminate are in no grade.
type EndpointCounts struct {
	Ready       int `json:"ready"`
	Reserve     int `json:"reserve"`
	NotReady    int `json:"notReady"`
	Terminating int `json:"terminating"`
}

// NativeStatus is how a member's own controllers compare with Tributary.
type NativeStatus struct {
	// BehindSeconds is how long the oldest change has been waiting for them.
	BehindSeconds float64 `json:"behindSeconds"`
	// Differing are the Services about which both have differed for long, oldest first: a
	// bounded list; the Count is not.
	Differing      []NativeDifference `json:"differing,omitempty"`
	DifferingCount int                `json:"differingCount"`
}

// NativeDifference is a Service of a member about which its own controllers
// and Tributary differ.
type NativeDifference struct {
	Namespace string    `json:"namespace"`
	Service   string    `json:"service"`
	Since     time.Time `json:"since"`
	// Ours and Theirs are all addresses of both sides, as "ip:port/protocol", with
	// " not ready" behind those that are not.
	Ours   []string `json:"ours"`
	Theirs []string `json:"theirs"`
}

// LaneStatus is about the requests of one lane.
type LaneStatus struct {
	Name string `json:"name"`
	// Waiting is the number of requests without a place, or in backoff; Sent is the number
	// of those under way.
	Waiting int `json:"depth"`
	Sent    int `json:"working"`
	// OldestSeconds is how long the oldest of both has been known.
	OldestSeconds float64 `json:"oldestSeconds"`
}

// SinkStatus is about one receiver outside of Kubernetes.
type SinkStatus struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// State is "live", "failing" (the last request was not acknowledged), or "standby":
	// another process tells it.
	State string `json:"state"`
	// LagSeconds is how long the oldest change that is not acknowledged has been due.
	LagSeconds float64 `json:"lagSeconds"`
	// Services are sent; Pending are not acknowledged as they are, Refused are those among
	// them that the receiver does not accept.
	Services int `json:"services"`
	Pending  int `json:"pending"`
	Refused  int `json:"refused"`
	// Requests were sent by this process; Failures were not acknowledged.
	Requests         uint64    `json:"requests"`
	Failures         uint64    `json:"failures"`
	LastAcknowledged time.Time `json:"lastAcknowledged,omitzero"`
	LastError        string    `json:"lastError,omitempty"`
}

// OrphanStatus is about a cluster that is not configured and of which there are endpoints in
// the ingress cluster: nobody knows whether they live.
type OrphanStatus struct {
	Cluster string `json:"cluster"`
	// Replicas are those that have them.
	Replicas  int `json:"replicas"`
	Endpoints int `json:"endpoints"`
}

// Conflict is a disagreement about one replica that a person should mend.
type Conflict struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	// Reason is one of a closed set: it is a metric label.
	Reason string `json:"reason"`
	// Cluster is the member that lost; empty for an object that is not ours.
	Cluster string `json:"cluster,omitempty"`
	// Message names both sides and the remedy.
	Message string    `json:"message"`
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
	Reason string `json:"reason"`
}

// Status is the status as /debug/status serves it.
func (m *Metrics) Status() Status {
	s := m.whole()
	s.Conflicts, s.Rejected = bounded(s.Conflicts), bounded(s.Rejected)
	return s
}

// whole is the status with all troubles.
func (m *Metrics) whole() Status {
	s := m.status()
	if s.Time.IsZero() {
		s.Time = time.Now().UTC()
	}
	m.troubles.addTo(&s)
	return s
}

func bounded[T any](list []T) []T { return append([]T{}, list[:min(len(list), MaxTroubles)]...) }
