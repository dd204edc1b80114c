// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

// Dashboards returns all dashboards.
func Dashboards() []Dashboard { return []Dashboard{onCall(), syncLag()} }

// syncLag answers: is it fast?
func syncLag() Dashboard {
	return Dashboard{
		File: "sync-lag.json", UID: "tributary-sync-lag", Title: "Tributary / Sync lag",
		Description: "Is it fast? How long changes in the members take to reach the ingress cluster, and where the time goes.",
		Rows:        []Row{lagAtAGlance(), lagLatency(), lagQueue(), lagWrites(), lagNative()},
	}
}

func lagAtAGlance() Row {
	const live = `SEL,member_cluster=~"$cluster",stage="total"`
	return Row{"At a glance", []Panel{
		number("Median change", "s", 4, "Half of the live changes took no longer, from the watch event to the acknowledged write.",
			q(`histogram_quantile(0.5, sum by (le) (rate(tributary_change_latency_seconds_bucket{`+live+`}[$__rate_interval])))`, "p50")).rising(0.1, 1),
		number("Slowest 1 %", "s", 4, "99 of 100 live changes took no longer.",
			q(`histogram_quantile(0.99, sum by (le) (rate(tributary_change_latency_seconds_bucket{`+live+`}[$__rate_interval])))`, "p99")).rising(0.25, 2.5),
		number("Oldest unwritten change", "s", 4, "Age of the oldest change of any member that is not yet written; 0 if none waits.",
			q(`max(tributary_sync_lag_seconds{CSEL})`, "lag")).rising(5, 30),
		number("Changes", "ops", 4, "Live changes written per second.",
			q(`sum(rate(tributary_change_latency_seconds_count{CSEL,stage="total"}[$__rate_interval]))`, "written")),
		number("Waiting", "short", 4, "Replicas that wait for a comparison, and writes that wait for a place. Bulk work may wait; removals should not.",
			q(`sum(tributary_workqueue_depth{SEL})`, "comparisons"),
			q(`sum(tributary_requests_waiting{SEL})`, "writes")).rising(100, 1000),
		number("Failed writes", "ops", 4, "Writes per second that did not succeed at once; each is tried again.",
			q(`sum(rate(tributary_writes_total{SEL,result!="ok"}[$__rate_interval])) or vector(0)`, "failed")).rising(0.1, 1),
	}}
}

func lagLatency() Row {
	const total = `CSEL,stage="total"`
	return Row{"Latency of live changes", []Panel{
		graph("From watch event to acknowledged write, by cluster", "s", 12, "Only changes that a watch event caused and that were written; first fills and relists do not count.",
			quantile(0.5, "change_latency_seconds", total, "member_cluster", "p50 {{member_cluster}}"),
			quantile(0.9, "change_latency_seconds", total, "member_cluster", "p90 {{member_cluster}}"),
			quantile(0.99, "change_latency_seconds", total, "member_cluster", "p99 {{member_cluster}}")).rising(0.25, 2.5),
		graph("Where the time goes: median by stage", "s", 6, "queue: until the comparison; compute: until the difference was known; write: until the last write was acknowledged.",
			quantile(0.5, "change_latency_seconds", "CSEL", "stage", "{{stage}}")),
		graph("Slowest 1 % by stage", "s", 6, "As the panel beside it, for the slowest changes.",
			quantile(0.99, "change_latency_seconds", "CSEL", "stage", "{{stage}}")),
		{
			Title: "All changes by duration", Kind: Heat, Unit: "s", Width: 12,
			Description: "How many live changes took how long. Two bands mean two causes.",
			Queries:     []Query{q(`sum by (le) (increase(tributary_change_latency_seconds_bucket{`+total+`}[$__rate_interval]))`, "{{le}}")},
		},
		graph("Oldest unwritten change, by cluster", "s", 12, "A line that climbs means that changes of that member wait: look at the queue and the writes below.",
			q(`max by (member_cluster) (tributary_sync_lag_seconds{CSEL})`, "{{member_cluster}}")).rising(5, 30),
	}}
}

// lagNative compares with the members' own controllers, where they are observed.
func lagNative() Row {
	const note = " For members with observeNative: true."
	return Row{"The members' own controllers", []Panel{
		graph("Slowest 1 %, native beside ours", "s", 12, "How much later than Tributary computed it a change is in the member's own Endpoints, beside the time until it is in the ingress cluster."+note,
			quantile(0.99, "change_latency_seconds", `CSEL,stage="total"`, "member_cluster", "tributary {{member_cluster}}"),
			quantile(0.99, "native_lag_seconds", "CSEL", "member_cluster", "native {{member_cluster}}")),
		graph("Oldest change that the native controller has not written", "s", 12, "A backlog shows as a line that climbs."+note,
			q(`max by (member_cluster) (tributary_native_behind_seconds{CSEL})`, "{{member_cluster}}")).rising(10, 120),
	}}
}

func lagQueue() Row {
	return Row{"Queue", []Panel{
		graph("Writes that wait, by lane", "short", 8, "Removals overtake additions, additions overtake bulk work.",
			q(`sum by (lane) (tributary_requests_waiting{SEL})`, "{{lane}}")).stacked(),
		graph("Replicas that wait for a comparison", "short", 8, "A comparison costs microseconds: a line that stays up is a lack of CPU.",
			q(`sum by (name) (tributary_workqueue_depth{SEL})`, "{{name}}")),
		graph("Comparisons and retries", "ops", 8, "Replicas added to the queue per second, and those that returned after a delay.",
			q(`sum by (name) (rate(tributary_workqueue_adds_total{SEL}[$__rate_interval]))`, "added to {{name}}"),
			q(`sum by (name) (rate(tributary_workqueue_retries_total{SEL}[$__rate_interval]))`, "returned to {{name}}")),
		graph("Wait for a comparison, slowest 1 %", "s", 12, "From the first news to the comparison.",
			quantile(0.99, "workqueue_queue_duration_seconds", "SEL", "name", "{{name}}")),
		graph("Duration of a comparison, slowest 1 %", "s", 12, "Our own time for one replica; writes are not part of it.",
			quantile(0.99, "workqueue_work_duration_seconds", "SEL", "name", "{{name}}")),
	}}
}

func lagWrites() Row {
	return Row{"Writes to the ingress cluster", []Panel{
		graph("Writes", "ops", 12, "When nothing changes in the members, this is zero.",
			q(`sum by (kind, verb) (rate(tributary_writes_total{SEL}[$__rate_interval]))`, "{{verb}} {{kind}}")).stacked(),
		graph("Writes that did not succeed at once", "ops", 12, "conflict: somebody else wrote first, resolved by looking again. throttled: the server asked to wait.",
			q(`sum by (result) (rate(tributary_writes_total{SEL,result!="ok"}[$__rate_interval])) or vector(0)`, "{{result}}")),
		graph("Writes of live changes, slowest 1 %", "s", 12, "From the difference being known to the last acknowledgement.",
			quantile(0.99, "change_latency_seconds", `CSEL,stage="write"`, "lane", "{{lane}}")),
		// Of the ingress cluster: no member is to be selected.
		graph("Answers of the ingress cluster's API server", "ops", 12, "Requests by status code; 429 is the server asking to slow down.",
			q(`sum by (code) (rate(tributary_client_requests_total{SEL,role="ingress"}[$__rate_interval]))`, "{{code}}")),
	}}
}
