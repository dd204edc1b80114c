// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

// fleetHealth answers: is it safe?
func fleetHealth() Dashboard {
	return Dashboard{
		File: "fleet-health.json", UID: "tributary-fleet-health", Title: "Tributary / Fleet health",
		Description: "Is it safe? Which clusters are seen, what is kept back, what is in conflict, and whether the process is well.",
		Rows:        []Row{healthAtAGlance(), healthClusters(), healthEndpoints(), healthTrouble(), healthNative(), healthWatches(), healthProcess()},
	}
}

func healthAtAGlance() Row {
	return Row{"At a glance", []Panel{
		number("Members not answering", "short", 6, "Their endpoints stay as last known.",
			q(`count(min by (member_cluster) (tributary_cluster_up{CSEL}) == 0) or vector(0)`, "down")).rising(1, 2),
		number("Members not seen whole", "short", 6, "Since the process started. What they contributed before stays.",
			q(`count(min by (member_cluster) (tributary_cluster_synced{CSEL}) == 0) or vector(0)`, "unsynced")).rising(1, 2),
		number("Members in panic or stale", "short", 6, "Panic: pods are kept ready that all turned not ready at once. Stale: out of sight for longer than staleAfter, other members are preferred.",
			q(`sum(max by (member_cluster) (tributary_cluster_panic{CSEL}))`, "panic"),
			q(`sum(max by (member_cluster) (tributary_cluster_stale{CSEL}))`, "stale")).rising(1, 1),
		number("Ingress cluster answers", "bool_yes_no", 6, "Nothing can be written while it does not.",
			q(`min(tributary_ingress_up{SEL})`, "ingress")).falling(1, 1),
		number("Held changes", "short", 6, "Changes that a guard keeps back. `tributary status` names the command that releases each.",
			q(`sum(max by (member_cluster, reason) (tributary_held_changes{CSEL})) or vector(0)`, "held")).rising(1, 10),
		number("Conflicts", "short", 6, "Disagreements that a person should mend. `tributary status` names each.",
			q(`sum(max by (reason) (tributary_conflicts{SEL}))`, "conflicts")).rising(1, 10),
		number("Rejected addresses", "short", 6, "Addresses that are left out of replicas now. `tributary status` names each with its reason.",
			q(`sum(max by (member_cluster, reason) (tributary_rejected_addresses_current{CSEL})) or vector(0)`, "rejected")).rising(1, 10),
		number("Replicas", "short", 6, "Services in the ingress cluster that Tributary owns.",
			q(`max(tributary_replicas{SEL})`, "replicas")),
	}}
}

func healthClusters() Row {
	return Row{"Members", []Panel{
		timeline("Answers", 12, "Whether each member cluster answers.",
			q(`min by (member_cluster) (tributary_cluster_up{CSEL})`, "{{member_cluster}}")).falling(1, 1),
		timeline("Panic and staleness", 12, "Panic: too many pods turned not ready at once and are kept ready, until they are back or `tributary release --cluster …`. Stale: out of sight for longer than staleAfter.",
			q(`max by (member_cluster) (tributary_cluster_panic{CSEL})`, "panic {{member_cluster}}"),
			q(`max by (member_cluster) (tributary_cluster_stale{CSEL})`, "stale {{member_cluster}}")).good("0"),
		graph("Time since last heard of", "s", 8, "An event, a bookmark (about once a minute) or an answer to a probe.",
			q(`max by (member_cluster) (tributary_cluster_last_contact_seconds{CSEL})`, "{{member_cluster}}")).rising(90, 300),
		graph("Answers of the members' API servers", "ops", 8, "Requests by status code; `error` is no answer at all.",
			q(`sum by (member_cluster, code) (rate(tributary_client_requests_total{CSEL,role="member"}[$__rate_interval]))`, "{{member_cluster}} {{code}}")),
		graph("Time until a member answers, slowest 1 %", "s", 8, "For a watch: until it was established.",
			quantile(0.99, "client_request_duration_seconds", `CSEL,role="member"`, "member_cluster", "{{member_cluster}}")),
	}}
}

func healthEndpoints() Row {
	return Row{"What the members contribute", []Panel{
		graph("Ready endpoints", "short", 8, "By member. A step down in all Services of a member at once is worth a look at its nodes.",
			q(`max by (member_cluster) (tributary_endpoints{CSEL,state="ready"})`, "{{member_cluster}}")),
		graph("Endpoints that are not ready", "short", 8, "By member; terminating ones included.",
			q(`max by (member_cluster) (tributary_endpoints{CSEL,state="not_ready"})`, "{{member_cluster}}")),
		graph("Services and pods", "short", 8, "Services that are replicated, and pods in memory.",
			q(`max by (member_cluster) (tributary_services{CSEL})`, "Services {{member_cluster}}"),
			q(`max by (member_cluster) (tributary_pods{CSEL})`, "pods {{member_cluster}}")),
	}}
}

func healthTrouble() Row {
	return Row{"Guards, conflicts and rejected addresses", []Panel{
		graph("Held changes by reason", "short", 12, "Kept back until released or confirmed.",
			q(`max by (member_cluster, reason) (tributary_held_changes{CSEL}) or vector(0)`, "{{member_cluster}} {{reason}}")).stacked(),
		graph("Conflicts by reason", "short", 12, "foreign_object: an object of that name is not ours and is left alone. The others: members disagree.",
			q(`max by (reason) (tributary_conflicts{SEL})`, "{{reason}}")).stacked(),
		graph("Rejected addresses by reason", "short", 12, "Left out of replicas now, for as long as they stay as they are; the Services' other addresses pass.",
			q(`max by (member_cluster, reason) (tributary_rejected_addresses_current{CSEL}) or vector(0)`, "{{member_cluster}} {{reason}}")).stacked(),
		graph("Addresses newly rejected", "short", 12, "Those that came to be left out since the point before. A pod that is replaced again and again shows here.",
			q(`sum by (member_cluster, reason) (increase(tributary_rejected_addresses_total{CSEL}[$__rate_interval])) or vector(0)`, "{{member_cluster}} {{reason}}")),
	}}
}

// healthNative is what tells a fault of ours from one of a member.
func healthNative() Row {
	const note = " For members with observeNative: true."
	return Row{"The members' own controllers", []Panel{
		graph("Oldest change the native controller has not written", "s", 12, "While it climbs, whatever reads the member's own Endpoints is that far behind; replicas are not."+note,
			q(`max by (member_cluster) (tributary_native_behind_seconds{CSEL})`, "{{member_cluster}}")).rising(10, 120),
		graph("Services that differ from the native ones", "short", 12, "For longer than nativeTolerance. `tributary status` shows both lists of addresses."+note,
			q(`max by (member_cluster) (tributary_native_differing_services{CSEL})`, "{{member_cluster}}")).rising(1, 10),
	}}
}

func healthWatches() Row {
	return Row{"Watches", []Panel{
		graph("Events", "ops", 8, "Events read from each member per second.",
			q(`sum by (member_cluster) (rate(tributary_watch_events_total{CSEL}[$__rate_interval]))`, "{{member_cluster}}")),
		graph("Watches that ended", "short", 8, "closed is ordinary, every few minutes. silent, broken and garbled are not.",
			q(`sum by (member_cluster, reason) (increase(tributary_watch_restarts_total{CSEL}[$__rate_interval])) or vector(0)`, "{{member_cluster}} {{reason}}")),
		graph("Complete lists, and what could not be read", "short", 8, "first_fill once per start; expired when the server forgot the revision. Lists are what a member's API server feels most.",
			q(`sum by (member_cluster, reason) (increase(tributary_lists_total{CSEL}[$__rate_interval]))`, "{{member_cluster}} {{reason}}"),
			q(`sum by (member_cluster) (increase(tributary_unreadable_objects_total{CSEL}[$__rate_interval])) or vector(0)`, "unreadable {{member_cluster}}")),
		graph("Duration of a complete list, slowest 1 %", "s", 12, "Seen only when lists are read: at the start, and after a watch expired.",
			q(`histogram_quantile(0.99, sum by (member_cluster, resource, le) (tributary_list_duration_seconds_bucket{CSEL}))`, "{{member_cluster}} {{resource}}")),
		graph("Requests that were asked to slow down", "ops", 12, "Status 429, members and ingress cluster.",
			q(`sum by (role, member_cluster) (rate(tributary_client_requests_total{SEL,member_cluster=~"$cluster|",code="429"}[$__rate_interval])) or vector(0)`, "{{role}} {{member_cluster}}")),
	}}
}

func healthProcess() Row {
	const ours = ` and on (instance) tributary_build_info{SEL}`
	return Row{"Process", []Panel{
		timeline("Ready", 8, "Whether /readyz says yes, and whether the configuration on disk is the running one.",
			q(`min by (instance) (tributary_ready{SEL})`, "ready {{instance}}"),
			q(`min by (instance) (tributary_config_last_reload_successful{SEL})`, "configuration {{instance}}")).falling(1, 1),
		graph("Memory", "bytes", 8, "Resident memory, and the live heap.",
			q(`process_resident_memory_bytes{SEL}`+ours, "resident {{instance}}"),
			q(`go_memstats_heap_inuse_bytes{SEL}`+ours, "heap {{instance}}")),
		graph("CPU and goroutines", "short", 8, "Cores in use; goroutines follow the number of members.",
			q(`rate(process_cpu_seconds_total{SEL}[$__rate_interval])`+ours, "cores {{instance}}"),
			q(`go_goroutines{SEL}`+ours, "goroutines {{instance}}")),
		number("Version", "short", 12, "Instances by version: more than one line means a rollout in progress.",
			q(`count by (version) (tributary_build_info{SEL})`, "{{version}}")),
		number("Time since the configuration was taken", "s", 12, "An edit takes effect without a restart; an invalid one is refused and this goes on counting.",
			q(`time() - max(tributary_config_last_reload_success_timestamp_seconds{SEL})`, "age")),
	}}
}
