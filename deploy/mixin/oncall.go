// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

// memberState is the worst that is true of a member, as an index of the words of its column. What is drained may be away.
// Where processes see it otherwise, the worse counts.
const memberState = `max by (member_cluster) (tributary_cluster_condition{CSEL,reason="Drained"}) * 0` +
	` or on (member_cluster) max by (member_cluster) (tributary_cluster_condition{CSEL,reason="Stale"}) * 4` +
	` or on (member_cluster) (min by (member_cluster) (tributary_cluster_up{CSEL}) == 0) + 3` +
	` or on (member_cluster) 2 - min by (member_cluster) (tributary_cluster_synced{CSEL})`

// onCall answers: pods of a member are late, or wrong; why? Its first table has a row
// for each member, with what is wrong in words, and where its time goes.
func onCall() Dashboard {
	return Dashboard{
		File: "on-call.json", UID: "tributary-on-call", Title: "Tributary / On call",
		Description: "Pods of a member are late, or wrong: why? Begin with the table; each column has a row of panels below.",
		Rows:        []Row{callMembers(), callLate(), callWrong(), callWrites(), callProcess()},
	}
}

func callMembers() Row {
	const live = `CSEL,stage="`
	p99 := func(stage string) string {
		return `histogram_quantile(0.99, sum by (member_cluster, le) (rate(tributary_change_latency_seconds_bucket{` + live + stage + `"}[10m])))`
	}
	return Row{"Members", []Panel{
		number("Who leads", "short", 6, "1: one process writes. 0: nobody does. More: two do, which must never be.",
			q(`sum(tributary_leader{SEL})`, "leaders")).falling(1, 1),
		number("Ingress cluster answers", "bool_yes_no", 6, "Nothing can be written while it does not.",
			q(`min(tributary_ingress_up{SEL})`, "ingress")).falling(1, 1),
		number("Waiting removals", "short", 6, "Writes that take an address away and have not been sent: normally none.",
			q(`max(tributary_requests_waiting{SEL,lane="removal"})`, "removals")).rising(10, 100),
		number("Slowest 1 % of removals", "s", 6, "From the watch event to the acknowledged write.",
			q(`histogram_quantile(0.99, sum by (le) (rate(tributary_change_latency_seconds_bucket{CSEL,lane="removal",stage="total"}[$__rate_interval])))`, "p99")).rising(0.25, 2.5),
		{
			Title: "Members", Kind: Table, Width: 24,
			Description: "One row a member. A late member: see which stage takes the time; lag without latency means that changes wait. The name leads to its changes, a cell to what to type.",
			Columns: []Column{
				{"State", "short", memberState, 2, 3, "TributaryMemberNotSynced", []string{"drained", "live", "not synced", "down", "stale"}},
				{"Answers", "bool_yes_no", `min by (member_cluster) (tributary_cluster_up{CSEL})`, 0, 0, "TributaryMemberUnreachable", nil},
				{"Wrong", "", `max by (member_cluster, reason) (tributary_cluster_condition{CSEL,reason!="Drained"})` +
					` or on (member_cluster) max by (member_cluster, reason) (tributary_cluster_condition{CSEL,reason="Drained"})` +
					` or on (member_cluster) label_replace(max by (member_cluster) (tributary_cluster_up{CSEL}), "reason", "-", "", "")`, 0, 0, "", nil},
				{"Last contact", "s", `max by (member_cluster) (tributary_cluster_last_contact_seconds{CSEL}) unless on (member_cluster) tributary_cluster_condition{CSEL,reason="Drained"}`, 30, 90, "TributaryMemberUnreachable", nil},
				{"Lag", "s", `max by (member_cluster) (tributary_sync_lag_seconds{CSEL})`, 5, 30, "TributaryLagHigh", nil},
				{"Event late p99", "s", `histogram_quantile(0.99, sum by (member_cluster, le) (rate(tributary_source_delay_seconds_bucket{CSEL}[10m])))`, 5, 30, "", nil},
				{"Queue p99", "s", p99("queue"), 0.1, 1, "TributaryChangesSlow", nil},
				{"Compute p99", "s", p99("compute"), 0.1, 1, "TributaryChangesSlow", nil},
				{"Write p99", "s", p99("write"), 0.25, 2.5, "TributaryChangesSlow", nil},
				{"Own controllers behind", "s", `max by (member_cluster) (tributary_native_behind_seconds{CSEL})`, 30, 120, "", nil},
				{"Missing", "short", `max by (member_cluster) (tributary_missing{CSEL})`, 1, 100, "TributaryLagHigh", nil},
				{"Rejected", "short", `sum by (member_cluster) (max by (member_cluster, reason) (tributary_rejected_addresses{CSEL})) or max by (member_cluster) (tributary_cluster_up{CSEL}) * 0`, 1, 10, "TributaryConflict", nil},
				{"Credential ends in", "s", `min by (member_cluster) (tributary_kubeconfig_expiry_timestamp_seconds{CSEL}) - time()`, 0, 0, "TributaryCredentialEnds", nil},
			},
		},
	}}
}

func callLate() Row {
	return Row{"Late: where the time goes", []Panel{
		graph("Slowest 1 % by member and stage", "s", 12, "queue: until its comparison; compute: our own time; write: the ingress cluster's, and the wait for a place.",
			quantile(0.99, "change_latency_seconds", `CSEL,stage=~"queue|compute|write"`, "member_cluster, stage", "{{member_cluster}} {{stage}}")).rising(0.25, 2.5),
		graph("How late events come, slowest 1 %", "s", 12, "From the member's own time of a change to our reading it: its API server, its network, or its clock.",
			quantile(0.99, "source_delay_seconds", "CSEL", "member_cluster", "{{member_cluster}}")).rising(5, 30),
		graph("Writes that wait, by lane", "short", 12, "Bulk work may wait. Removals must not.",
			q(`max by (lane) (tributary_requests_waiting{SEL})`, "{{lane}}")),
		graph("Answers of the members' API servers", "ops", 12, "429: it asks to slow down. 403: a right was taken away. error: no answer.",
			q(`sum by (member_cluster, code) (rate(tributary_client_requests_total{CSEL,role="member",code!~"2.."}[$__rate_interval]))`, "{{member_cluster}} {{code}}")),
	}}
}

func callWrong() Row {
	return Row{"Wrong: what is asked for, rejected, in conflict", []Panel{
		graph("Missing objects", "short", 8, "Complete lists lack them, and their cluster was asked and has not answered yet; they stay until then.",
			q(`max by (member_cluster) (tributary_missing{CSEL})`, "{{member_cluster}}")).stacked(),
		graph("Rejected addresses", "short", 8, "Left out of replicas now; the other addresses of the Services pass.",
			q(`max by (member_cluster, reason) (tributary_rejected_addresses{CSEL}) or vector(0)`, "{{member_cluster}} {{reason}}")).stacked(),
		graph("Conflicts and orphans", "short", 8, "foreign_object: the name is somebody else's. write_refused: the API server denies a part. orphans: replicas in which a cluster stands that is not configured. `tributary status` names each.",
			q(`max by (reason) (tributary_conflicts{SEL})`, "{{reason}}"),
			q(`max(tributary_orphan_replicas{SEL})`, "orphans")).stacked(),
		graph("Ready endpoints", "short", 12, "A step down in all Services of a member at once: its nodes, or its lists.",
			q(`max by (member_cluster) (tributary_endpoints{CSEL,state="ready"})`, "{{member_cluster}}")),
		graph("Reserve endpoints", "short", 12, "Ready but for a doubt: drained, stale, a silent node, a flapping pod, a rule. They serve where nobody else does.",
			q(`max by (member_cluster) (tributary_endpoints{CSEL,state="reserve"})`, "{{member_cluster}}")),
	}}
}

func callWrites() Row {
	return Row{"The ingress cluster", []Panel{
		graph("Writes of live changes, slowest 1 %", "s", 12, "From the difference being known to the last acknowledgement.",
			quantile(0.99, "change_latency_seconds", `CSEL,stage="write"`, "lane", "{{lane}}")).rising(0.25, 2.5),
		graph("Writes that did not succeed at once", "ops", 12, "forbidden: rights, quota or admission. throttled: the server asks to wait.",
			q(`sum by (kind, result) (rate(tributary_writes_total{SEL,result!="ok"}[$__rate_interval])) or vector(0)`, "{{kind}} {{result}}")),
	}}
}

func callProcess() Row {
	const ours = ` and on (instance) tributary_build_info{SEL}`
	return Row{"Process", []Panel{
		timeline("Ready", 8, "Whether /readyz says yes, and whether the configuration on disk is the running one.",
			q(`min by (instance) (tributary_ready{SEL})`, "ready {{instance}}"),
			q(`min by (instance) (tributary_config_last_reload_successful{SEL})`, "configuration {{instance}}")).falling(1, 1),
		graph("Memory", "bytes", 6, "Resident memory, and the live heap.",
			q(`process_resident_memory_bytes{SEL}`+ours, "resident {{instance}}"),
			q(`go_memstats_heap_inuse_bytes{SEL}`+ours, "heap {{instance}}")),
		graph("CPU", "short", 6, "Cores in use.",
			q(`rate(process_cpu_seconds_total{SEL}[$__rate_interval])`+ours, "cores {{instance}}")),
		number("Version", "short", 4, "Instances by version: more than one line means a roll-out under way.",
			q(`count by (version) (tributary_build_info{SEL})`, "{{version}}")),
	}}
}
