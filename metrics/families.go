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
	changeLatency = family(Histogram, groupChanges, "change_latency_seconds", "member_cluster lane stage",
		"Time that live changes took, by stage. Only written changes that a watch event caused count; first fills, relists and repairs do not.",
		"`stage`: `queue`, from the event read to a worker. `compute`, from there to the first write sent. `write`, from there to the last write acknowledged. `total`, from the event read to the last write acknowledged. `echo`, from the event read until our own watch of the ingress cluster shows the writes. `lane`: `removal`, `addition`, `bulk`. Exemplars carry the `trace_id` of the change.")
	sourceDelay = family(Histogram, groupChanges, "source_delay_seconds", "member_cluster",
		"How late an event was when it was read. It counts from the moment that the member gives for the change of a pod's readiness, or for its deletion.",
		"Only of pods that were known before. Members tell whole seconds, by their own clocks. A clock that is ahead shows as 0, and more than an hour as an hour.")
	changesTotal = family(Counter, groupChanges, "changes_total", "member_cluster result",
		"Changes of replicas that a worker finished, by the member that caused them and by how they ended.",
		"`result`: `written`, `dropped` (nothing to write), `held`, `failed` (will be tried again). `member_cluster` is empty for repairs and changes of configuration.")
	syncLag = family(Gauge, groupChanges, "sync_lag_seconds", "member_cluster",
		"Age of the oldest change of the member that is not yet written.",
		"0 if none is waiting. A Service whose writes fail five times in a row while others are taken does not count. It is a conflict `failing` or `refused`.")
	nativeLag = family(Histogram, groupChanges, "native_lag_seconds", "member_cluster",
		"How far the member's own controller manager runs behind what Tributary computed, per change.",
		"Only for members with `observeNative: true`.")
	nativeBehind = family(Gauge, groupChanges, "native_behind_seconds", "member_cluster",
		"How long the oldest change has been waiting for the member's own controller manager.",
		"0 if none is waiting. Only for members with `observeNative: true`.")
	nativeDiffering = family(Gauge, groupChanges, "native_differing_services", "member_cluster",
		"Services about which the member's own controller manager and Tributary have differed for longer than `nativeTolerance`.",
		"Only for members with `observeNative: true`.")
)

// Families about the member clusters.
var (
	clusterUp = family(Gauge, groupClusters, "cluster_up", "member_cluster",
		"Whether the member cluster answers (1) or not (0). Its endpoints stay as last known while it does not.")
	clusterSynced = family(Gauge, groupClusters, "cluster_synced", "member_cluster",
		"Whether the member cluster has been seen whole since the process started (1) or not (0).")
	clusterCondition = family(Gauge, groupClusters, "cluster_condition", "member_cluster reason",
		"What is wrong with the member cluster, or that it is drained, by reason; always 1.",
		"`reason`: the word that `tributary status` shows behind the state. Absent where nothing is wrong. "+
			"`Drained`: its `drain` is set and written, and no last ready endpoint of it is held. The process that writes shows it, and alerts about the member are silent.")
	kubeconfigExpiry = family(Gauge, groupClusters, "kubeconfig_expiry_timestamp_seconds", "member_cluster",
		"When the credential in use for the member cluster ends, in Unix time: its token or its client certificate.",
		"Absent where it does not end, or does not say when.")
	kubeconfigRenewal = family(Gauge, groupClusters, "kubeconfig_renewal_timestamp_seconds", "member_cluster",
		"When Tributary begins to renew the token for the member cluster, in Unix time: two thirds of its life.",
		"Absent where the credential is none that Tributary renews.")
	clusterPanic = family(Gauge, groupClusters, "cluster_panic", "member_cluster",
		"Whether the member cluster is in panic (1). Too many of its pods turned not ready at once, and are kept ready.")
	clusterStale = family(Gauge, groupClusters, "cluster_stale", "member_cluster",
		"Whether the member cluster has been out of sight for longer than its `staleAfter` (1). Other members' ready endpoints are preferred.")
	clusterLastContact = family(Gauge, groupClusters, "cluster_last_contact_seconds", "member_cluster",
		"Time since the member cluster was last heard of: an event, a bookmark or an answer.",
		"Absent until the first contact.")
	services = family(Gauge, groupClusters, "services", "member_cluster",
		"Services of the member cluster that are replicated.")
	pods = family(Gauge, groupClusters, "pods", "member_cluster",
		"Pods of the member cluster in memory.")
	endpoints = family(Gauge, groupClusters, "endpoints", "member_cluster state",
		"Endpoints that the member cluster contributes, by state. A pod behind two Services counts twice.",
		"`state`: `ready`, `not_ready`.")
	dampedEndpoints = family(Gauge, groupClusters, "damped_endpoints", "member_cluster",
		"Endpoints of the member cluster that turned not ready and are ready again. They wait until they have been so for `readiness.stableFor`. They are among those that `tributary_endpoints` counts as not ready.")
	ruleMatches = family(Gauge, groupClusters, "rule_matches", "member_cluster rule",
		"Pods of the member cluster that a rule of the configuration decides now. A pod behind two Services counts twice.")
	ruleErrors = family(Counter, groupClusters, "rule_errors_total", "member_cluster rule",
		"Evaluations of a rule that failed, as for a key that is missing: it does not match then. `tributary status` has the last error.")
	ruleEvaluations = family(Counter, groupClusters, "rule_evaluations_total", "member_cluster rule",
		"Evaluations of a rule, since the rules were last changed.")
	ruleCost = family(Counter, groupClusters, "rule_cost_total", "member_cluster rule",
		"What evaluations of a rule have cost, in the units of Kubernetes' limits for expressions.")
	ruleSeconds = family(Counter, groupClusters, "rule_evaluation_seconds_total", "member_cluster rule",
		"Time that evaluations of a rule have taken.")
	rejectedAddresses = family(Counter, groupClusters, "rejected_addresses_total", "member_cluster reason",
		"Addresses that were left out of a replica, counted once for as long as they stay. The other addresses of the Service pass.",
		"`reason`: `not_allowed` by `allowedCIDRs`, or `refused` by the ingress cluster's API server. Or why that would refuse it: `malformed`, `unspecified`, `loopback`, `link_local`, `multicast`, `port`, `hostname`, `node_name`, `fqdn`.")
	// The name is not that of the counter without _total: that is what OpenMetrics
	// calls the counter's family.
	rejectedNow = family(Gauge, groupClusters, "rejected_addresses_current", "member_cluster reason",
		"Addresses that are left out of replicas now, by reason; the status page names them. One behind two Services counts twice.",
		"`reason`: that of `tributary_rejected_addresses_total`. Absent where there is none.")
	watchEvents = family(Counter, groupClusters, "watch_events_total", "member_cluster resource event",
		"Events read from the member cluster's watches.",
		"`event`: `added`, `modified`, `deleted`, `bookmark`.")
	watchRestarts = family(Counter, groupClusters, "watch_restarts_total", "member_cluster resource reason",
		"Watches of the member cluster that ended, by reason. One that the server closes after some minutes costs nothing.",
		"`reason`: `closed` (by the server, in order), `broken`, `expired`, `silent`, `garbled`, `replaced`, `rewound`.")
	lists = family(Counter, groupClusters, "lists_total", "member_cluster resource reason",
		"Complete lists read from the member cluster, by reason. A list costs its API server more than anything else done here.",
		"`reason`: `first_fill`, or why a list had to be read again. That is `expired` (the server no longer knew the revision), `requested`, `garbled`, `silent`, `rewound`.")
	listDuration = family(Histogram, groupClusters, "list_duration_seconds", "member_cluster resource",
		"Time that a complete list took.")
	unreadable = family(Counter, groupClusters, "unreadable_objects_total", "member_cluster resource",
		"Events and objects of the member cluster that could not be used.")
	clientRequests = family(Counter, groupClusters, "client_requests_total", "role member_cluster verb code",
		"Requests sent to API servers, by status code.",
		"`role`: `member` or `ingress` (then `member_cluster` is empty). `verb`: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `other`. `code`: the HTTP status (`429` is the server asking to slow down), or `error` if there was no answer.")
	clientRequestDuration = family(Histogram, groupClusters, "client_request_duration_seconds", "role member_cluster verb",
		"Time until an API server began to answer; for a watch until it was established.")
)

// Families about what is written and what is kept back.
var (
	ingressUp = family(Gauge, groupIngress, "ingress_up", "",
		"Whether the ingress cluster answers (1) or not (0).")
	replicas = family(Gauge, groupIngress, "replicas", "",
		"Services in the ingress cluster that Tributary owns.")
	orphanReplicas = family(Gauge, groupIngress, "orphan_replicas", "member_cluster",
		"Replicas in which endpoints stand of a cluster that is not configured: nobody knows whether they live.",
		"Absent where there is none.")
	writes = family(Counter, groupIngress, "writes_total", "kind verb result",
		"Writes sent to the ingress cluster. When nothing changes, nothing is written.",
		"`kind`: `Namespace`, `Service`, `Endpoints`, `EndpointSlice`. `verb`: `create`, `update`, `delete`. `result`: `ok`, `conflict` (resolved by looking again), `not_found`, `exists`, `throttled`, `forbidden`, `invalid`, `timeout`, `error`.")
	writeDuration = family(Histogram, groupIngress, "write_duration_seconds", "kind verb",
		"Time from sending a write to its acknowledgement.")
	conflicts = family(Gauge, groupIngress, "conflicts", "reason",
		"Conflicts between members, or with objects that are not ours, by reason; the status page names each with its remedy.",
		"`reason`: `foreign_object` (an object of that name is not ours and is left alone). `other_instance` (it is of another installation). `unrecorded` (it carries our mark and no record that fits). `other_process` (another process writes under the same `instance`, by another Lease). `namespace` (a replica stands outside of `ingress.namespaces`). Disagreements between members are `port`, `headless`, `duplicate_ip` and `name`. `selector` (somebody gave the replica one). `annotation` (a source's is not understood). `refused` (the API server refuses what a member gives). `mutated` (a webhook makes something else of what is written). `failing` (writes of the replica fail again and again, and those of others do not).")
	heldChanges = family(Gauge, groupIngress, "held_changes", "member_cluster reason",
		"Changes that are kept back, by reason; the status page says how to release them.",
		heldValues())
)

// Families about receivers outside of Kubernetes.
var (
	sinkLag = family(Gauge, groupSinks, "sink_lag_seconds", "sink",
		"For how long the oldest change that the receiver has not acknowledged was to be told. Its window is no lag.",
		"0 if none is waiting. As the other gauges of sinks, only of the process that leads.")
	sinkServices = family(Gauge, groupSinks, "sink_services", "sink",
		"Services that the sink is told of.")
	sinkPending = family(Gauge, groupSinks, "sink_pending_services", "sink",
		"Services of which the receiver has not acknowledged what they are now.")
	sinkRefused = family(Gauge, groupSinks, "sink_refused_services", "sink",
		"Services that the receiver refuses; others are told.")
	sinkLastAck = family(Gauge, groupSinks, "sink_last_acknowledgement_timestamp_seconds", "sink",
		"When the receiver last acknowledged a request of this process, in Unix time.",
		"Absent until then.")
	sinkFailing = family(Gauge, groupSinks, "sink_failing", "sink",
		"Whether the last request to the receiver was not acknowledged (1), one that it found fault with aside.")
	sinkUnkept = family(Gauge, groupSinks, "sink_state_unkept", "sink",
		"Whether what the receiver acknowledged cannot be written down (1): after a restart it is told that anew.")
	sinkRequests = family(Counter, groupSinks, "sink_requests_total", "sink result",
		"Requests to the receiver, by what became of them.",
		"`result`: `ok`. `refused` (a status of 400 to 499), `throttled` (429), `server_error`, `redirect`, `invalid` (no HTTP), `timeout`, `unreachable`. `credentials` (a file of `auth` is of no use, nothing was sent). `stopped` (this process leads no longer).")
	sinkRequestDuration = family(Histogram, groupSinks, "sink_request_duration_seconds", "sink",
		"Time that requests to the receiver took.")
)

// Families about the queue of dirty Services.
var (
	queueDepth = family(Gauge, groupQueue, "workqueue_depth", "lane",
		"Services that wait in the lane, those in backoff included.",
		"`lane`: `removal`, `addition`, `bulk`; removals overtake the others.")
	queueOldest = family(Gauge, groupQueue, "workqueue_oldest_age_seconds", "lane",
		"How long the oldest Service of the lane has been dirty. That is waiting, in backoff, or with a worker that has not ended.")
	queueUnfinished = family(Gauge, groupQueue, "workqueue_unfinished_work_seconds", "lane",
		"How long workers have held the Services that they hold now, in sum. Large and growing: requests hang.")
	queueLongest = family(Gauge, groupQueue, "workqueue_longest_running_processor_seconds", "lane",
		"How long a worker has held its Service at most.")
	queueAdds = family(Counter, groupQueue, "workqueue_adds_total", "lane",
		"Causes that were added to the lane; those for a Service that already waits merge.")
	queueRetries = family(Counter, groupQueue, "workqueue_retries_total", "lane",
		"Services that returned to the lane because a write failed or the server asked to wait.")
	queueDuration = family(Histogram, groupQueue, "workqueue_queue_duration_seconds", "lane",
		"Time that a Service waited in the lane, backoff included.")
	workDuration = family(Histogram, groupQueue, "workqueue_work_duration_seconds", "lane",
		"Time that a worker spent on a Service, writes included.")
)

// Families about the process.
var (
	ready = family(Gauge, groupProcess, "ready", "",
		"Whether /readyz says yes (1) or no (0).")
	leader = family(Gauge, groupProcess, "leader", "",
		"Whether this process writes to the ingress cluster (1) or stands by (0).",
		"The sum over the processes of an installation is 1, and 0 for as long as nobody leads.")
	leaderAlone = family(Gauge, groupProcess, "leader_alone", "",
		"Whether this process writes without asking a Lease for it (1). It may not write Leases, or leader election is turned off.",
		"Run no second process then.")
	configReloads = family(Counter, groupProcess, "config_reloads_total", "result",
		"Times that an edited configuration was read.",
		"`result`: `ok`, or `refused` (invalid; the running one stays).")
	configLastOK = family(Gauge, groupProcess, "config_last_reload_successful", "",
		"Whether the configuration on disk is the running one (1), or was refused (0).")
	configLastTime = family(Gauge, groupProcess, "config_last_reload_success_timestamp_seconds", "",
		"When the running configuration was taken, in Unix time.")
	buildInfo = family(Gauge, groupProcess, "build_info", "version revision goversion",
		"Version of the running binary; the value is always 1.")
)

// conflictReasons are the values of the label of conflicts that are always
// shown, at 0 too.
func conflictReasons() []string {
	return []string{"foreign_object", "other_instance", "unrecorded", "other_process", "namespace", "port", "headless", "duplicate_ip", "selector", "name", "annotation", "refused", "mutated", "failing"}
}

// rejectReasons are the values of the label of rejected_addresses_total.
func rejectReasons() []string {
	return []string{
		"malformed",
		"unspecified", "loopback", "link_local", "multicast", "not_allowed", "port", "hostname", "node_name", "fqdn", "refused",
	}
}
