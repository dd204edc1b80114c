// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

// Headlines of the reference, in its order.
const (
	groupChanges  = "Changes"
	groupClusters = "Member clusters"
	groupIngress  = "Ingress cluster"
	groupSinks    = "Sinks"
	groupQueue    = "Queue"
	groupProcess  = "Process"
)

// Families that say how fast changes pass, and what became of them.
var (
	changeLatency = Family{
		Name: "change_latency_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"member_cluster", "lane", "stage"}, Group: groupChanges,
		Help: "Time that live changes took, by stage. Only written changes that a watch event caused count; first fills, relists and repairs do not.",
		Values: "`stage`: `queue` (event read to worker), `compute` (worker to first write sent), `write` (first write sent to last one acknowledged), " +
			"`total` (event read to last write acknowledged), `echo` (event read to our own watch of the ingress cluster having shown the writes). " +
			"`lane`: `removal`, `addition`, `bulk`. Exemplars carry the `trace_id` of the change.",
	}
	sourceDelay = Family{
		Name: "source_delay_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"member_cluster"}, Group: groupChanges,
		Help:   "How late an event was when it was read: from the moment that the member gives for the change of a pod's readiness, or for its deletion.",
		Values: "Only of pods that were known before. Members tell whole seconds, by their own clocks: a clock that is ahead shows as 0, and more than an hour as an hour.",
	}
	changesTotal = Family{
		Name: "changes_total", Type: Counter, Labels: []string{"member_cluster", "result"}, Group: groupChanges,
		Help:   "Changes of replicas that a worker finished, by the member that caused them and by how they ended.",
		Values: "`result`: `written`, `dropped` (nothing to write), `held`, `failed` (will be tried again). `member_cluster` is empty for repairs and changes of configuration.",
	}
	syncLag = Family{
		Name: "sync_lag_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"member_cluster"}, Group: groupChanges,
		Help:   "Age of the oldest change of the member that is not yet written.",
		Values: "0 if none is waiting. A Service whose writes fail five times in a row while others are taken does not count; it is a conflict `failing` or `refused`.",
	}
	nativeLag = Family{
		Name: "native_lag_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"member_cluster"}, Group: groupChanges,
		Help:   "How far the member's own controller manager runs behind what Tributary computed, per change.",
		Values: "Only for members with `observeNative: true`.",
	}
	nativeBehind = Family{
		Name: "native_behind_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"member_cluster"}, Group: groupChanges,
		Help:   "How long the oldest change has been waiting for the member's own controller manager.",
		Values: "0 if none is waiting. Only for members with `observeNative: true`.",
	}
	nativeDiffering = Family{
		Name: "native_differing_services", Type: Gauge, Labels: []string{"member_cluster"}, Group: groupChanges,
		Help:   "Services about which the member's own controller manager and Tributary have differed for longer than `nativeTolerance`.",
		Values: "Only for members with `observeNative: true`.",
	}
)

// Families about the member clusters.
var (
	clusterUp = Family{
		Name: "cluster_up", Type: Gauge, Labels: []string{"member_cluster"}, Group: groupClusters,
		Help: "Whether the member cluster answers (1) or not (0). Its endpoints stay as last known while it does not.",
	}
	clusterSynced = Family{
		Name: "cluster_synced", Type: Gauge, Labels: []string{"member_cluster"}, Group: groupClusters,
		Help: "Whether the member cluster has been seen whole since the process started (1) or not (0).",
	}
	clusterCondition = Family{
		Name: "cluster_condition", Type: Gauge, Labels: []string{"member_cluster", "reason"}, Group: groupClusters,
		Help:   "What is wrong with the member cluster, by reason; always 1.",
		Values: "`reason`: the word that `tributary status` shows behind the state. Absent where nothing is wrong.",
	}
	kubeconfigExpiry = Family{
		Name: "kubeconfig_expiry_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"member_cluster"}, Group: groupClusters,
		Help:   "When the credential in use for the member cluster ends, in Unix time: its token or its client certificate.",
		Values: "Absent where it does not end, or does not say when.",
	}
	clusterPanic = Family{
		Name: "cluster_panic", Type: Gauge, Labels: []string{"member_cluster"}, Group: groupClusters,
		Help: "Whether the member cluster is in panic (1): too many of its pods turned not ready at once, and are kept ready.",
	}
	clusterStale = Family{
		Name: "cluster_stale", Type: Gauge, Labels: []string{"member_cluster"}, Group: groupClusters,
		Help: "Whether the member cluster has been out of sight for longer than its `staleAfter` (1): other members' ready endpoints are preferred.",
	}
	clusterLastContact = Family{
		Name: "cluster_last_contact_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"member_cluster"}, Group: groupClusters,
		Help:   "Time since the member cluster was last heard of: an event, a bookmark or an answer.",
		Values: "Absent until the first contact.",
	}
	services = Family{
		Name: "services", Type: Gauge, Labels: []string{"member_cluster"}, Group: groupClusters,
		Help: "Services of the member cluster that are replicated.",
	}
	pods = Family{
		Name: "pods", Type: Gauge, Labels: []string{"member_cluster"}, Group: groupClusters,
		Help: "Pods of the member cluster in memory.",
	}
	endpoints = Family{
		Name: "endpoints", Type: Gauge, Labels: []string{"member_cluster", "state"}, Group: groupClusters,
		Help:   "Endpoints that the member cluster contributes, by state. A pod behind two Services counts twice.",
		Values: "`state`: `ready`, `not_ready`.",
	}
	dampedEndpoints = Family{
		Name: "damped_endpoints", Type: Gauge, Labels: []string{"member_cluster"}, Group: groupClusters,
		Help: "Endpoints of the member cluster that turned not ready, are ready again, and wait until they have been for as long as `readiness.stableFor`. They are among those that `tributary_endpoints` counts as not ready.",
	}
	ruleMatches = Family{
		Name: "rule_matches", Type: Gauge, Labels: []string{"member_cluster", "rule"}, Group: groupClusters,
		Help: "Pods of the member cluster that a rule of the configuration decides now. A pod behind two Services counts twice.",
	}
	ruleErrors = Family{
		Name: "rule_errors_total", Type: Counter, Labels: []string{"member_cluster", "rule"}, Group: groupClusters,
		Help: "Evaluations of a rule that failed, as for a key that is missing: it does not match then. `tributary status` has the last error.",
	}
	ruleEvaluations = Family{
		Name: "rule_evaluations_total", Type: Counter, Labels: []string{"member_cluster", "rule"}, Group: groupClusters,
		Help: "Evaluations of a rule, since the rules were last changed.",
	}
	ruleCost = Family{
		Name: "rule_cost_total", Type: Counter, Labels: []string{"member_cluster", "rule"}, Group: groupClusters,
		Help: "What evaluations of a rule have cost, in the units of Kubernetes' limits for expressions.",
	}
	ruleSeconds = Family{
		Name: "rule_evaluation_seconds_total", Type: Counter, Unit: "seconds", Labels: []string{"member_cluster", "rule"}, Group: groupClusters,
		Help: "Time that evaluations of a rule have taken.",
	}
	rejectedAddresses = Family{
		Name: "rejected_addresses_total", Type: Counter, Labels: []string{"member_cluster", "reason"}, Group: groupClusters,
		Help: "Addresses that were left out of a replica, counted once for as long as they stay; the other addresses of the Service pass.",
		Values: "`reason`: why the API would refuse the address (`malformed`, `unspecified`, `loopback`, `link_local`, `multicast`, `port`, `hostname`, " +
			"`node_name`, `fqdn`), `not_allowed` by `allowedCIDRs`, or `refused` by the ingress cluster's API server.",
	}
	// The name is not that of the counter without _total: that is what OpenMetrics
	// calls the counter's family.
	rejectedNow = Family{
		Name: "rejected_addresses_current", Type: Gauge, Labels: []string{"member_cluster", "reason"}, Group: groupClusters,
		Help:   "Addresses that are left out of replicas now, by reason; the status page names them. One behind two Services counts twice.",
		Values: "`reason`: that of `tributary_rejected_addresses_total`. Absent where there is none.",
	}
	watchEvents = Family{
		Name: "watch_events_total", Type: Counter, Labels: []string{"member_cluster", "resource", "event"}, Group: groupClusters,
		Help:   "Events read from the member cluster's watches.",
		Values: "`event`: `added`, `modified`, `deleted`, `bookmark`.",
	}
	watchRestarts = Family{
		Name: "watch_restarts_total", Type: Counter, Labels: []string{"member_cluster", "resource", "reason"}, Group: groupClusters,
		Help:   "Watches of the member cluster that ended, by reason. One that the server closes after some minutes costs nothing.",
		Values: "`reason`: `closed` (by the server, in order), `broken`, `expired`, `silent`, `garbled`, `replaced`, `rewound`.",
	}
	lists = Family{
		Name: "lists_total", Type: Counter, Labels: []string{"member_cluster", "resource", "reason"}, Group: groupClusters,
		Help:   "Complete lists read from the member cluster, by reason. A list costs its API server more than anything else done here.",
		Values: "`reason`: `first_fill`, or why a list had to be read again: `expired` (the server no longer knew the revision), `requested`, `garbled`, `rewound`.",
	}
	listDuration = Family{
		Name: "list_duration_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"member_cluster", "resource"}, Group: groupClusters,
		Help: "Time that a complete list took.",
	}
	unreadable = Family{
		Name: "unreadable_objects_total", Type: Counter, Labels: []string{"member_cluster", "resource"}, Group: groupClusters,
		Help: "Events and objects of the member cluster that could not be used.",
	}
	clientRequests = Family{
		Name: "client_requests_total", Type: Counter, Labels: []string{"role", "member_cluster", "verb", "code"}, Group: groupClusters,
		Help: "Requests sent to API servers, by status code.",
		Values: "`role`: `member` or `ingress` (then `member_cluster` is empty). `verb`: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `other`. " +
			"`code`: the HTTP status (`429` is the server asking to slow down), or `error` if there was no answer.",
	}
	clientRequestDuration = Family{
		Name: "client_request_duration_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"role", "member_cluster", "verb"}, Group: groupClusters,
		Help: "Time until an API server began to answer; for a watch until it was established.",
	}
)

// Families about what is written and what is kept back.
var (
	ingressUp = Family{
		Name: "ingress_up", Type: Gauge, Group: groupIngress,
		Help: "Whether the ingress cluster answers (1) or not (0).",
	}
	replicas = Family{
		Name: "replicas", Type: Gauge, Group: groupIngress,
		Help: "Services in the ingress cluster that Tributary owns.",
	}
	writes = Family{
		Name: "writes_total", Type: Counter, Labels: []string{"kind", "verb", "result"}, Group: groupIngress,
		Help: "Writes sent to the ingress cluster. When nothing changes, nothing is written.",
		Values: "`kind`: `Namespace`, `Service`, `Endpoints`, `EndpointSlice`. `verb`: `create`, `update`, `delete`. `result`: `ok`, `conflict` (resolved by looking again), " +
			"`not_found`, `exists`, `throttled`, `forbidden`, `invalid`, `timeout`, `error`.",
	}
	writeDuration = Family{
		Name: "write_duration_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"kind", "verb"}, Group: groupIngress,
		Help: "Time from sending a write to its acknowledgement.",
	}
	conflicts = Family{
		Name: "conflicts", Type: Gauge, Labels: []string{"reason"}, Group: groupIngress,
		Help: "Conflicts between members, or with objects that are not ours, by reason; the status page names each with its remedy.",
		Values: "`reason`: `foreign_object` (an object of that name is not ours and is left alone), `other_instance` (it is of another installation), `unrecorded` (it carries our mark and no record that fits), `namespace` (a replica stands outside of `ingress.namespaces`), and disagreements between members: `port`, `headless`, " +
			"`duplicate_ip`, `name`; `selector` (somebody gave the replica one), `annotation` (a source's is not understood), " +
			"`refused` (the API server refuses what a member gives), `failing` (writes of the replica fail again and again, and those of others do not).",
	}
	heldChanges = Family{
		Name: "held_changes", Type: Gauge, Labels: []string{"member_cluster", "reason"}, Group: groupIngress,
		Help:   "Changes that are kept back, by reason; the status page says how to release them.",
		Values: heldValues(),
	}
)

// Families about the queue of dirty Services.
var (
	queueDepth = Family{
		Name: "workqueue_depth", Type: Gauge, Labels: []string{"lane"}, Group: groupQueue,
		Help:   "Services that wait in the lane, those in backoff included.",
		Values: "`lane`: `removal`, `addition`, `bulk`; removals overtake the others.",
	}
	queueOldest = Family{
		Name: "workqueue_oldest_age_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"lane"}, Group: groupQueue,
		Help: "How long the oldest Service of the lane has been dirty: waiting, in backoff, or with a worker that has not ended.",
	}
	queueUnfinished = Family{
		Name: "workqueue_unfinished_work_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"lane"}, Group: groupQueue,
		Help: "How long workers have held the Services that they hold now, in sum. Large and growing: requests hang.",
	}
	queueLongest = Family{
		Name: "workqueue_longest_running_processor_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"lane"}, Group: groupQueue,
		Help: "How long a worker has held its Service at most.",
	}
	queueAdds = Family{
		Name: "workqueue_adds_total", Type: Counter, Labels: []string{"lane"}, Group: groupQueue,
		Help: "Causes that were added to the lane; those for a Service that already waits merge.",
	}
	queueRetries = Family{
		Name: "workqueue_retries_total", Type: Counter, Labels: []string{"lane"}, Group: groupQueue,
		Help: "Services that returned to the lane because a write failed or the server asked to wait.",
	}
	queueDuration = Family{
		Name: "workqueue_queue_duration_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"lane"}, Group: groupQueue,
		Help: "Time that a Service waited in the lane, backoff included.",
	}
	workDuration = Family{
		Name: "workqueue_work_duration_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"lane"}, Group: groupQueue,
		Help: "Time that a worker spent on a Service, writes included.",
	}
)

// Families about receivers outside of Kubernetes.
var (
	sinkLag = Family{
		Name: "sink_lag_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"sink"}, Group: groupSinks,
		Help:   "Age of the oldest change that the receiver has not acknowledged, its window included.",
		Values: "0 if none is waiting. As the other gauges of sinks, only of the process that leads.",
	}
	sinkServices = Family{
		Name: "sink_services", Type: Gauge, Labels: []string{"sink"}, Group: groupSinks,
		Help: "Services that the sink is told of.",
	}
	sinkPending = Family{
		Name: "sink_pending_services", Type: Gauge, Labels: []string{"sink"}, Group: groupSinks,
		Help: "Services of which the receiver has not acknowledged what they are now.",
	}
	sinkRefused = Family{
		Name: "sink_refused_services", Type: Gauge, Labels: []string{"sink"}, Group: groupSinks,
		Help: "Services that the receiver refuses; others are told.",
	}
	sinkLastAck = Family{
		Name: "sink_last_acknowledgement_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"sink"}, Group: groupSinks,
		Help:   "When the receiver last acknowledged a request of this process, in Unix time.",
		Values: "Absent until then.",
	}
	sinkFailing = Family{
		Name: "sink_failing", Type: Gauge, Labels: []string{"sink"}, Group: groupSinks,
		Help: "Whether the last request to the receiver was not acknowledged (1), one that it found fault with aside.",
	}
	sinkUnkept = Family{
		Name: "sink_state_unkept", Type: Gauge, Labels: []string{"sink"}, Group: groupSinks,
		Help: "Whether what the receiver acknowledged cannot be written down (1): after a restart it is told everything.",
	}
	sinkRequests = Family{
		Name: "sink_requests_total", Type: Counter, Labels: []string{"sink", "result"}, Group: groupSinks,
		Help: "Requests to the receiver, by what became of them.",
		Values: "`result`: `ok`; `refused` (a status of 400 to 499), `throttled` (429), `server_error`, `redirect`, `invalid` (no HTTP), `timeout`, " +
			"`unreachable`, `credentials` (a file of `auth` is of no use, nothing was sent), `stopped` (this process leads no longer).",
	}
	sinkRequestDuration = Family{
		Name: "sink_request_duration_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"sink"}, Group: groupSinks,
		Help: "Time that requests to the receiver took.",
	}
)

// Families about the process.
var (
	buildInfo = Family{
		Name: "build_info", Type: Gauge, Labels: []string{"version", "revision", "goversion"}, Group: groupProcess,
		Help: "Version of the running binary; the value is always 1.",
	}
	ready = Family{
		Name: "ready", Type: Gauge, Group: groupProcess,
		Help: "Whether /readyz says yes (1) or no (0).",
	}
	leader = Family{
		Name: "leader", Type: Gauge, Group: groupProcess,
		Help:   "Whether this process writes to the ingress cluster (1) or stands by (0).",
		Values: "The sum over the processes of an installation is 1, and 0 for as long as nobody leads.",
	}
	leaderAlone = Family{
		Name: "leader_alone", Type: Gauge, Group: groupProcess,
		Help:   "Whether this process writes without asking a Lease for it (1): it may not write Leases, or leader election is turned off.",
		Values: "Run no second process then.",
	}
	configReloads = Family{
		Name: "config_reloads_total", Type: Counter, Labels: []string{"result"}, Group: groupProcess,
		Help:   "Times that an edited configuration was read.",
		Values: "`result`: `ok`, or `refused` (invalid; the running one stays).",
	}
	configLastOK = Family{
		Name: "config_last_reload_successful", Type: Gauge, Group: groupProcess,
		Help: "Whether the configuration on disk is the running one (1), or was refused (0).",
	}
	configLastTime = Family{
		Name: "config_last_reload_success_timestamp_seconds", Type: Gauge, Unit: "seconds", Group: groupProcess,
		Help: "When the running configuration was taken, in Unix time.",
	}
)

// conflictReasons are the values of the label of conflicts that are always
// shown, at 0 too.
func conflictReasons() []string {
	return []string{"foreign_object", "other_instance", "unrecorded", "namespace", "port", "headless", "duplicate_ip", "selector", "name", "annotation", "refused", "failing"}
}

// rejectReasons are the values of the label of rejected_addresses_total.
func rejectReasons() []string {
	return []string{
		"malformed", "unspecified", "loopback", "link_local", "multicast", "not_allowed", "port", "hostname", "node_name", "fqdn", "refused",
	}
}

// Families returns the table of all families of ours, in the order of the docs.
func Families() []Family {
	return []Family{
		changeLatency, sourceDelay, changesTotal, syncLag, nativeLag, nativeBehind, nativeDiffering,
		clusterUp, clusterSynced, clusterCondition, kubeconfigExpiry, clusterPanic, clusterStale, clusterLastContact, services, pods, endpoints, dampedEndpoints,
		ruleMatches, ruleErrors, ruleEvaluations, ruleCost, ruleSeconds, rejectedAddresses, rejectedNow,
		watchEvents, watchRestarts, lists, listDuration, unreadable, clientRequests, clientRequestDuration,
		ingressUp, replicas, writes, writeDuration, conflicts, heldChanges,
		sinkLag, sinkServices, sinkPending, sinkRefused, sinkLastAck, sinkFailing, sinkUnkept, sinkRequests, sinkRequestDuration,
		queueDepth, queueOldest, queueUnfinished, queueLongest, queueAdds, queueRetries, queueDuration, workDuration,
		ready, leader, leaderAlone, configReloads, configLastOK, configLastTime, buildInfo,
	}
}
