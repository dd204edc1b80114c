// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Headlines of the reference, in its order.
const (
	groupChanges  = "Changes"
	groupClusters = "Member clusters"
	groupIngress  = "Ingress cluster"
	groupQueue    = "Queue"
	groupSinks    = "Sinks"
	groupProcess  = "Process"
)

// Families that say how fast changes pass.
var (
	changeLatency = family(Histogram, groupChanges, "change_latency_seconds", "member_cluster lane stage",
		"Time that live changes took, by stage. Only written changes that a watch event caused count; first fills, relists and repairs do not.",
		"`stage`: `queue`, from the event read to the comparison; `compute`, from there to the difference being known; `write`, from there to the last write acknowledged; `total`, all of it. `lane`: `removal`, `addition`, `bulk`. Exemplars carry the `trace_id` of the change.")
	syncLag = family(Gauge, groupChanges, "sync_lag_seconds", "member_cluster",
		"Age of the oldest change of the member that is not yet written, or whose question to the member is not yet answered.",
		"0 if none is waiting.")
	sourceDelay = family(Histogram, groupChanges, "source_delay_seconds", "member_cluster",
		"How late an event was when it was read, counted from the time that the member tells for the change of a pod's readiness, or for its deletion.",
		"Members tell whole seconds, by their own clocks. A clock that is ahead shows as 0, and more than an hour as an hour.")
	nativeLag = family(Histogram, groupChanges, "native_lag_seconds", "member_cluster",
		"How far the member's own controller manager runs behind what Tributary computed, per change.",
		"Only for members with `observeNative: true`.")
	nativeBehind = family(Gauge, groupChanges, "native_behind_seconds", "member_cluster",
		"How long the oldest change has been waiting for the member's own controller manager.",
		"0 if none is waiting. Only for members with `observeNative: true`.")
)

// Families about the member clusters.
var (
	clusterUp = family(Gauge, groupClusters, "cluster_up", "member_cluster",
		"Whether the member cluster answers (1) or not (0).")
	clusterSynced = family(Gauge, groupClusters, "cluster_synced", "member_cluster",
		"Whether all of the member cluster has been listed (1) or not (0).")
	clusterCondition = family(Gauge, groupClusters, "cluster_condition", "member_cluster reason",
		"What is wrong with the member cluster, or what is doubted of it, by reason; always 1.",
		"`reason`: `Unreachable`, `Refused`, `OtherCluster`, `Kubeconfig`, `Missing`; `Drained` and `Stale` mean that its endpoints are reserves. Absent where nothing is wrong.")
	clusterLastContact = family(Gauge, groupClusters, "cluster_last_contact_seconds", "member_cluster",
		"Time since the member cluster was last heard of: an event, a bookmark or an answer.",
		"Absent until the first contact.")
	kubeconfigExpiry = family(Gauge, groupClusters, "kubeconfig_expiry_timestamp_seconds", "member_cluster",
		"When the credential in use for the member cluster ends, in Unix time: its token or its client certificate.",
		"Absent where it does not end, or does not say when.")
	services = family(Gauge, groupClusters, "services", "member_cluster",
		"Services of the member cluster that are replicated.")
	endpoints = family(Gauge, groupClusters, "endpoints", "member_cluster state",
		"Endpoints that the member cluster contributes, by grade. A pod behind two Services counts twice.",
		"`state`: `ready`; `reserve`, which serves where nobody else does; `not_ready`; `terminating`.")
	missing = family(Gauge, groupClusters, "missing", "member_cluster",
		"Objects of the member cluster that a complete list lacks, and about which its API server has not answered yet.")
	rejectedAddresses = family(Gauge, groupClusters, "rejected_addresses", "member_cluster reason",
		"Addresses that are left out of replicas, by reason; `tributary status` names them. One behind two Services counts twice.",
		"`reason`: `not_allowed` by `allowedCIDRs`, or why the API would refuse it: `malformed`, `unspecified`, `loopback`, `link_local`, `multicast`, `port`, `hostname`, `node_name`, `fqdn`. Absent where there is none.")
	clientRequests = family(Counter, groupClusters, "client_requests_total", "role member_cluster method code",
		"Requests that API servers answered, by status code.",
		"`role`: `member` or `ingress` (then `member_cluster` is empty). `method`: that of HTTP, in small letters. `code`: the HTTP status; `429` is the server asking to slow down.")
	clientRequestDuration = family(Histogram, groupClusters, "client_request_duration_seconds", "role member_cluster method",
		"Time until an API server began to answer; for a watch until it was established.")
)

// Families about what is written.
var (
	ingressUp = family(Gauge, groupIngress, "ingress_up", "",
		"Whether the ingress cluster answers (1) or not (0).")
	replicas = family(Gauge, groupIngress, "replicas", "",
		"Services in the ingress cluster that Tributary owns.")
	orphanReplicas = family(Gauge, groupIngress, "orphan_replicas", "",
		"Replicas that have endpoints of a cluster that is not configured.")
	writes = family(Counter, groupIngress, "writes_total", "kind verb result",
		"Writes sent to the ingress cluster. When nothing changes, nothing is written.",
		"`kind`: `Namespace`, `Service`, `Endpoints`, `EndpointSlice`. `verb`: `create`, `update`, `delete`. `result`: `ok`, `conflict` (resolved by looking again), `not_found`, `exists`, `throttled`, `forbidden`, `invalid`, `timeout`, `error`.")
	conflicts = family(Gauge, groupIngress, "conflicts", "reason",
		"Conflicts between members, or with objects that are not ours, by reason; `tributary status` names each.",
		"`reason`: see operations.md, Conflicts. Absent where there is none.")
)

// Families about the queue of comparisons, and about the requests that wait for a place.
// The names are those of every client-go workqueue.
var (
	queueDepth = family(Gauge, groupQueue, "workqueue_depth", "name",
		"Replicas that wait for a comparison.")
	queueAdds = family(Counter, groupQueue, "workqueue_adds_total", "name",
		"Replicas that were added to the queue; one that already waits is not added.")
	queueDuration = family(Histogram, groupQueue, "workqueue_queue_duration_seconds", "name",
		"Time that a replica waited for its comparison.")
	queueWork = family(Histogram, groupQueue, "workqueue_work_duration_seconds", "name",
		"Time that a comparison took.")
	queueUnfinished = family(Gauge, groupQueue, "workqueue_unfinished_work_seconds", "name",
		"How long the comparisons under way have run, in sum.")
	queueLongest = family(Gauge, groupQueue, "workqueue_longest_running_processor_seconds", "name",
		"How long the comparison that has run the longest has run.")
	requestsWaiting = family(Gauge, groupQueue, "requests_waiting", "lane",
		"Writes that wait for a place, or for the end of their backoff.",
		"`lane`: `removal`, `addition`, `bulk`; removals overtake the others.")
)

// Families about receivers outside of Kubernetes.
var (
	sinkLag = family(Gauge, groupSinks, "sink_lag_seconds", "sink",
		"Age of the oldest change that the receiver has not acknowledged, from the end of its window.",
		"0 if none is waiting. Only of the process that leads.")
	sinkRequests = family(Counter, groupSinks, "sink_requests_total", "sink result",
		"Requests to the receiver, by what became of them.",
		"`result`: `ok`, `refused` (400, 409, 413, 422), `throttled` (429), `server_error` (any other status), `timeout`, `unreachable`, `credentials` (a file of `auth` is of no use, nothing was sent), `stopped` (this process leads no longer).")
)

// Families about the process.
var (
	ready = family(Gauge, groupProcess, "ready", "",
		"Whether /readyz says yes (1) or no (0).")
	leader = family(Gauge, groupProcess, "leader", "",
		"Whether this process writes to the ingress cluster (1) or is on standby (0).",
		"The sum over the processes of an installation is 1, and 0 while nobody leads.")
	configReloads = family(Counter, groupProcess, "config_reloads_total", "result",
		"Times that an edited configuration was read.",
		"`result`: `ok`, or `refused` (invalid; the running one stays).")
	configLastOK = family(Gauge, groupProcess, "config_last_reload_successful", "",
		"Whether the configuration on disk is the running one (1), or was refused (0).")
	configRestart = family(Gauge, groupProcess, "config_restart_needed", "",
		"Whether the configuration on disk has a change that only a restart puts into effect (1) or not (0); `tributary status` names the fields.")
	buildInfo = family(Gauge, groupProcess, "build_info", "version revision goversion",
		"Version of the running binary; the value is always 1.")
)

// Type is the type of a family, spelt as in the exposition format.
type Type string

// The types of families.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Family describes one metric family. The table of families is the only place
// where they are named: collectors, docs/reference/metrics.md and the checks on queries
// of dashboards and alerts are made from it.
type Family struct {
	// Name is without the prefix; it ends with the unit, then _total for a counter.
	Name string
	Type Type
	// Labels are in the order of the values.
	Labels []string
	Help   string
	// Values explains closed sets of label values and what 0 means; only for the docs.
	Values string
	// Group is the headline under which the docs list the family.
	Group string
}

// families are the rows of the table, in the order of the docs.
var families []Family

// Families returns the table of all families of ours, in the order of the docs.
func Families() []Family { return slices.Clone(families) }

// family is a row of the table. labels are separated by blanks; values are sentences.
func family(t Type, group, name, labels, help string, values ...string) Family {
	f := Family{Name: name, Type: t, Labels: strings.Fields(labels), Help: help, Values: strings.Join(values, " "), Group: group}
	families = append(families, f)
	return f
}

// FullName is the name in the exposition, with the prefix.
func (f Family) FullName() string { return "tributary_" + f.Name }

// LatencyBuckets are the classic buckets of every histogram, in seconds: fine
// around the milliseconds that a healthy change takes, and up to the minute
// that nobody should ever see. There is a native histogram beside them.
func LatencyBuckets() []float64 {
	return []float64{
		.0005, .001, .0015, .002, .003, .005, .0075, .01, .015, .025, .05,
		.1, .25, .5, 1, 2.5, 5, 10, 30, 60,
	}
}

func (f Family) desc() *prometheus.Desc {
	return prometheus.NewDesc(f.FullName(), f.Help, f.Labels, nil)
}

func (f Family) counter(r prometheus.Registerer) *prometheus.CounterVec {
	return promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: f.FullName(), Help: f.Help}, f.Labels)
}

func (f Family) gauge(r prometheus.Registerer) *prometheus.GaugeVec {
	return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Name: f.FullName(), Help: f.Help}, f.Labels)
}

// histogram has classic buckets for every Prometheus, and a native histogram
// (resolution 10 %) for one that scrapes protobuf.
func (f Family) histogram(r prometheus.Registerer) *prometheus.HistogramVec {
	return promauto.With(r).NewHistogramVec(prometheus.HistogramOpts{
		Name: f.FullName(), Help: f.Help, Buckets: LatencyBuckets(),
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, f.Labels)
}
