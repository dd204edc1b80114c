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
		{
			Title: "Members not answering", Kind: Number, Unit: "short", Width: 6, Warn: 1, Bad: 2,
			Description: "Their endpoints stay as last known.",
			Queries:     []Query{q(`count(tributary_cluster_up{CSEL} == 0) or vector(0)`, "down")},
		},
		{
			Title: "Members not seen whole", Kind: Number, Unit: "short", Width: 6, Warn: 1, Bad: 2,
			Description: "Since the process started. What they contributed before stays.",
			Queries:     []Query{q(`count(tributary_cluster_synced{CSEL} == 0) or vector(0)`, "unsynced")},
		},
		{
			Title: "Members in panic or stale", Kind: Number, Unit: "short", Width: 6, Warn: 1, Bad: 1,
			Description: "Panic: pods are kept ready that all turned not ready at once. Stale: out of sight for longer than staleAfter, other members are preferred.",
			Queries: []Query{
				q(`sum(tributary_cluster_panic{CSEL})`, "panic"),
				q(`sum(tributary_cluster_stale{CSEL})`, "stale"),
			},
		},
		{
			Title: "Ingress cluster answers", Kind: Number, Unit: "bool_yes_no", Width: 6, Falling: true, Warn: 1, Bad: 1,
			Description: "Nothing can be written while it does not.",
			Queries:     []Query{q(`min(tributary_ingress_up{SEL})`, "ingress")},
		},
		{
			Title: "Held changes", Kind: Number, Unit: "short", Width: 6, Warn: 1, Bad: 10,
			Description: "Changes that a guard keeps back. `tributary status` names the command that releases each.",
			Queries:     []Query{q(`sum(tributary_held_changes{CSEL}) or vector(0)`, "held")},
		},
		{
			Title: "Conflicts", Kind: Number, Unit: "short", Width: 6, Warn: 1, Bad: 10,
			Description: "Disagreements that a person should mend. `tributary status` names each.",
			Queries:     []Query{q(`sum(tributary_conflicts{SEL})`, "conflicts")},
		},
		{
			Title: "Rejected addresses", Kind: Number, Unit: "short", Width: 6, Warn: 1, Bad: 10,
			Description: "Addresses that are left out of replicas now. `tributary status` names each with its reason.",
			Queries:     []Query{q(`sum(tributary_rejected_addresses_current{CSEL}) or vector(0)`, "rejected")},
		},
		{
			Title: "Replicas", Kind: Number, Unit: "short", Width: 6,
			Description: "Services in the ingress cluster that Tributary owns.",
			Queries:     []Query{q(`max(tributary_replicas{SEL})`, "replicas")},
		},
	}}
}

func healthClusters() Row {
	return Row{"Members", []Panel{
		{
			Title: "Answers", Kind: Timeline, Width: 12, Falling: true, Warn: 1, Bad: 1,
			Description: "Whether each member cluster answers.",
			Queries:     []Query{q(`min by (member_cluster) (tributary_cluster_up{CSEL})`, "{{member_cluster}}")},
		},
		{
			Title: "Panic and staleness", Kind: Timeline, Width: 12, Good: "0",
			Description: "Panic: too many pods turned not ready at once and are kept ready, until they are back or `tributary release --cluster …`. Stale: out of sight for longer than staleAfter.",
			Queries: []Query{
				q(`max by (member_cluster) (tributary_cluster_panic{CSEL})`, "panic {{member_cluster}}"),
				q(`max by (member_cluster) (tributary_cluster_stale{CSEL})`, "stale {{member_cluster}}"),
			},
		},
		{
			Title: "Time since last heard of", Kind: Graph, Unit: "s", Width: 8, Warn: 90, Bad: 300,
			Description: "An event, a bookmark (about once a minute) or an answer to a probe.",
			Queries:     []Query{q(`max by (member_cluster) (tributary_cluster_last_contact_seconds{CSEL})`, "{{member_cluster}}")},
		},
		{
			Title: "Answers of the members' API servers", Kind: Graph, Unit: "ops", Width: 8,
			Description: "Requests by status code; `error` is no answer at all.",
			Queries:     []Query{q(`sum by (member_cluster, code) (rate(tributary_client_requests_total{CSEL,role="member"}[$__rate_interval]))`, "{{member_cluster}} {{code}}")},
		},
		{
			Title: "Time until a member answers, slowest 1 %", Kind: Graph, Unit: "s", Width: 8,
			Description: "For a watch: until it was established.",
			Queries:     []Query{quantile(0.99, "client_request_duration_seconds", `CSEL,role="member"`, "member_cluster", "{{member_cluster}}")},
		},
	}}
}

func healthEndpoints() Row {
	return Row{"What the members contribute", []Panel{
		{
			Title: "Ready endpoints", Kind: Graph, Unit: "short", Width: 8,
			Description: "By member. A step down in all Services of a member at once is worth a look at its nodes.",
			Queries:     []Query{q(`sum by (member_cluster) (tributary_endpoints{CSEL,state="ready"})`, "{{member_cluster}}")},
		},
		{
			Title: "Endpoints that are not ready", Kind: Graph, Unit: "short", Width: 8,
			Description: "By member; terminating ones included.",
			Queries:     []Query{q(`sum by (member_cluster) (tributary_endpoints{CSEL,state="not_ready"})`, "{{member_cluster}}")},
		},
		{
			Title: "Services and pods", Kind: Graph, Unit: "short", Width: 8,
			Description: "Services that are replicated, and pods in memory.",
			Queries: []Query{
				q(`sum by (member_cluster) (tributary_services{CSEL})`, "Services {{member_cluster}}"),
				q(`sum by (member_cluster) (tributary_pods{CSEL})`, "pods {{member_cluster}}"),
			},
		},
	}}
}

func healthTrouble() Row {
	return Row{"Guards, conflicts and rejected addresses", []Panel{
		{
			Title: "Held changes by reason", Kind: Graph, Unit: "short", Width: 12, Stack: true,
			Description: "Kept back until released or confirmed.",
			Queries:     []Query{q(`sum by (member_cluster, reason) (tributary_held_changes{CSEL}) or vector(0)`, "{{member_cluster}} {{reason}}")},
		},
		{
			Title: "Conflicts by reason", Kind: Graph, Unit: "short", Width: 12, Stack: true,
			Description: "foreign_object: an object of that name is not ours and is left alone. The others: members disagree.",
			Queries:     []Query{q(`sum by (reason) (tributary_conflicts{SEL})`, "{{reason}}")},
		},
		{
			Title: "Rejected addresses by reason", Kind: Graph, Unit: "short", Width: 12, Stack: true,
			Description: "Left out of replicas now, for as long as they stay as they are; the Services' other addresses pass.",
			Queries:     []Query{q(`sum by (member_cluster, reason) (tributary_rejected_addresses_current{CSEL}) or vector(0)`, "{{member_cluster}} {{reason}}")},
		},
		{
			Title: "Addresses newly rejected", Kind: Graph, Unit: "short", Width: 12,
			Description: "Those that came to be left out since the point before. A pod that is replaced again and again shows here.",
			Queries:     []Query{q(`sum by (member_cluster, reason) (increase(tributary_rejected_addresses_total{CSEL}[$__rate_interval])) or vector(0)`, "{{member_cluster}} {{reason}}")},
		},
	}}
}

// healthNative is what tells a fault of ours from one of a member.
func healthNative() Row {
	const note = " For members with observeNative: true."
	return Row{"The members' own controllers", []Panel{
		{
			Title: "Oldest change the native controller has not written", Kind: Graph, Unit: "s", Width: 12, Warn: 10, Bad: 120,
			Description: "While it climbs, whatever reads the member's own Endpoints is that far behind; replicas are not." + note,
			Queries:     []Query{q(`max by (member_cluster) (tributary_native_behind_seconds{CSEL})`, "{{member_cluster}}")},
		},
		{
			Title: "Services that differ from the native ones", Kind: Graph, Unit: "short", Width: 12, Warn: 1, Bad: 10,
			Description: "For longer than nativeTolerance. `tributary status` shows both lists of addresses." + note,
			Queries:     []Query{q(`max by (member_cluster) (tributary_native_differing_services{CSEL})`, "{{member_cluster}}")},
		},
	}}
}

func healthWatches() Row {
	return Row{"Watches", []Panel{
		{
			Title: "Events", Kind: Graph, Unit: "ops", Width: 8,
			Description: "Events read from each member per second.",
			Queries:     []Query{q(`sum by (member_cluster) (rate(tributary_watch_events_total{CSEL}[$__rate_interval]))`, "{{member_cluster}}")},
		},
		{
			Title: "Watches that ended", Kind: Graph, Unit: "short", Width: 8,
			Description: "closed is ordinary, every few minutes. silent, broken and garbled are not.",
			Queries:     []Query{q(`sum by (member_cluster, reason) (increase(tributary_watch_restarts_total{CSEL}[$__rate_interval])) or vector(0)`, "{{member_cluster}} {{reason}}")},
		},
		{
			Title: "Complete lists, and what could not be read", Kind: Graph, Unit: "short", Width: 8,
			Description: "first_fill once per start; expired when the server forgot the revision. Lists are what a member's API server feels most.",
			Queries: []Query{
				q(`sum by (member_cluster, reason) (increase(tributary_lists_total{CSEL}[$__rate_interval]))`, "{{member_cluster}} {{reason}}"),
				q(`sum by (member_cluster) (increase(tributary_unreadable_objects_total{CSEL}[$__rate_interval])) or vector(0)`, "unreadable {{member_cluster}}"),
			},
		},
		{
			Title: "Duration of a complete list, slowest 1 %", Kind: Graph, Unit: "s", Width: 12,
			Description: "Seen only when lists are read: at the start, and after a watch expired.",
			Queries:     []Query{q(`histogram_quantile(0.99, sum by (member_cluster, resource, le) (tributary_list_duration_seconds_bucket{CSEL}))`, "{{member_cluster}} {{resource}}")},
		},
		{
			Title: "Requests that were asked to slow down", Kind: Graph, Unit: "ops", Width: 12,
			Description: "Status 429, members and ingress cluster.",
			Queries:     []Query{q(`sum by (role, member_cluster) (rate(tributary_client_requests_total{SEL,member_cluster=~"$cluster|",code="429"}[$__rate_interval])) or vector(0)`, "{{role}} {{member_cluster}}")},
		},
	}}
}

func healthProcess() Row {
	const ours = ` and on (instance) tributary_build_info{SEL}`
	return Row{"Process", []Panel{
		{
			Title: "Ready", Kind: Timeline, Width: 8, Falling: true, Warn: 1, Bad: 1,
			Description: "Whether /readyz says yes, and whether the configuration on disk is the running one.",
			Queries: []Query{
				q(`min by (instance) (tributary_ready{SEL})`, "ready {{instance}}"),
				q(`min by (instance) (tributary_config_last_reload_successful{SEL})`, "configuration {{instance}}"),
			},
		},
		{
			Title: "Memory", Kind: Graph, Unit: "bytes", Width: 8,
			Description: "Resident memory, and the live heap.",
			Queries: []Query{
				q(`process_resident_memory_bytes{SEL}`+ours, "resident {{instance}}"),
				q(`go_memstats_heap_inuse_bytes{SEL}`+ours, "heap {{instance}}"),
			},
		},
		{
			Title: "CPU and goroutines", Kind: Graph, Unit: "short", Width: 8,
			Description: "Cores in use; goroutines follow the number of members.",
			Queries: []Query{
				q(`rate(process_cpu_seconds_total{SEL}[$__rate_interval])`+ours, "cores {{instance}}"),
				q(`go_goroutines{SEL}`+ours, "goroutines {{instance}}"),
			},
		},
		{
			Title: "Version", Kind: Number, Unit: "short", Width: 12,
			Description: "Instances by version: more than one line means a rollout in progress.",
			Queries:     []Query{q(`count by (version) (tributary_build_info{SEL})`, "{{version}}")},
		},
		{
			Title: "Time since the configuration was taken", Kind: Number, Unit: "s", Width: 12,
			Description: "An edit takes effect without a restart; an invalid one is refused and this goes on counting.",
			Queries:     []Query{q(`time() - max(tributary_config_last_reload_success_timestamp_seconds{SEL})`, "age")},
		},
	}}
}
