// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

// Dashboards returns all dashboards.
func Dashboards() []Dashboard { return []Dashboard{onCall(), syncLag(), fleetHealth()} }

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
		{
			Title: "Median change", Kind: Number, Unit: "s", Width: 4, Warn: 0.1, Bad: 1,
			Description: "Half of the live changes took no longer, from the watch event to the acknowledged write.",
			Queries:     []Query{q(`histogram_quantile(0.5, sum by (le) (rate(tributary_change_latency_seconds_bucket{`+live+`}[$__rate_interval])))`, "p50")},
		},
		{
			Title: "Slowest 1 %", Kind: Number, Unit: "s", Width: 4, Warn: 0.25, Bad: 2.5,
			Description: "99 of 100 live changes took no longer.",
			Queries:     []Query{q(`histogram_quantile(0.99, sum by (le) (rate(tributary_change_latency_seconds_bucket{`+live+`}[$__rate_interval])))`, "p99")},
		},
		{
			Title: "Oldest unwritten change", Kind: Number, Unit: "s", Width: 4, Warn: 5, Bad: 30,
			Description: "Age of the oldest change of any member that is not yet written; 0 if none waits.",
			Queries:     []Query{q(`max(tributary_sync_lag_seconds{CSEL})`, "lag")},
		},
		{
			Title: "Changes", Kind: Number, Unit: "ops", Width: 4,
			Description: "Changes written per second.",
			Queries:     []Query{q(`sum(rate(tributary_changes_total{CSEL,result="written"}[$__rate_interval]))`, "written")},
		},
		{
			Title: "Waiting Services", Kind: Number, Unit: "short", Width: 4, Warn: 100, Bad: 1000,
			Description: "Services in all lanes. Bulk work may wait; removals should not.",
			Queries:     []Query{q(`sum(tributary_workqueue_depth{SEL})`, "waiting")},
		},
		{
			Title: "Failed changes", Kind: Number, Unit: "ops", Width: 4, Warn: 0.1, Bad: 1,
			Description: "Attempts per second that failed; each is tried again.",
			Queries:     []Query{q(`sum(rate(tributary_changes_total{CSEL,result="failed"}[$__rate_interval]))`, "failed")},
		},
	}}
}

func lagLatency() Row {
	const total = `CSEL,stage="total"`
	return Row{"Latency of live changes", []Panel{
		{
			Title: "From watch event to acknowledged write, by cluster", Kind: Graph, Unit: "s", Width: 12, Warn: 0.25, Bad: 2.5,
			Description: "Only changes that a watch event caused and that were written; first fills and relists do not count.",
			Queries: []Query{
				quantile(0.5, "change_latency_seconds", total, "member_cluster", "p50 {{member_cluster}}"),
				quantile(0.9, "change_latency_seconds", total, "member_cluster", "p90 {{member_cluster}}"),
				quantile(0.99, "change_latency_seconds", total, "member_cluster", "p99 {{member_cluster}}"),
			},
		},
		{
			Title: "Where the time goes: median by stage", Kind: Graph, Unit: "s", Width: 6,
			Description: "queue: until a worker took the Service; compute: until the first write was sent; write: until the last one was acknowledged; echo: until our own watch had shown it, counted from the event.",
			Queries:     []Query{quantile(0.5, "change_latency_seconds", "CSEL", "stage", "{{stage}}")},
		},
		{
			Title: "Slowest 1 % by stage", Kind: Graph, Unit: "s", Width: 6,
			Description: "As the panel beside it, for the slowest changes.",
			Queries:     []Query{quantile(0.99, "change_latency_seconds", "CSEL", "stage", "{{stage}}")},
		},
		{
			Title: "All changes by duration", Kind: Heat, Unit: "s", Width: 12,
			Description: "How many live changes took how long. Two bands mean two causes.",
			Queries:     []Query{q(`sum by (le) (increase(tributary_change_latency_seconds_bucket{`+total+`}[$__rate_interval]))`, "{{le}}")},
		},
		{
			Title: "Oldest unwritten change, by cluster", Kind: Graph, Unit: "s", Width: 12, Warn: 5, Bad: 30,
			Description: "A line that climbs means that changes of that member wait: look at the queue and the writes below.",
			Queries:     []Query{q(`max by (member_cluster) (tributary_sync_lag_seconds{CSEL})`, "{{member_cluster}}")},
		},
	}}
}

// lagNative compares with the members' own controllers, where they are observed.
func lagNative() Row {
	const note = " For members with observeNative: true."
	return Row{"The members' own controllers", []Panel{
		{
			Title: "Slowest 1 %, native beside ours", Kind: Graph, Unit: "s", Width: 8,
			Description: "How much later than Tributary computed it a change is in the member's own Endpoints, beside the time until it is in the ingress cluster." + note,
			Queries: []Query{
				quantile(0.99, "change_latency_seconds", `CSEL,stage="total"`, "member_cluster", "tributary {{member_cluster}}"),
				quantile(0.99, "native_lag_seconds", "CSEL", "member_cluster", "native {{member_cluster}}"),
			},
		},
		{
			Title: "Oldest change that the native controller has not written", Kind: Graph, Unit: "s", Width: 8, Warn: 10, Bad: 120,
			Description: "A backlog shows as a line that climbs." + note,
			Queries:     []Query{q(`max by (member_cluster) (tributary_native_behind_seconds{CSEL})`, "{{member_cluster}}")},
		},
		{
			Title: "Services that differ in the long run", Kind: Graph, Unit: "short", Width: 8,
			Description: "No backlog: the two do not agree. `tributary status` shows both lists." + note,
			Queries:     []Query{q(`max by (member_cluster) (tributary_native_differing_services{CSEL})`, "{{member_cluster}}")},
		},
	}}
}

func lagQueue() Row {
	return Row{"Queue", []Panel{
		{
			Title: "Waiting Services by lane", Kind: Graph, Unit: "short", Width: 8, Stack: true,
			Description: "Removals overtake additions, additions overtake bulk work.",
			Queries:     []Query{q(`sum by (lane) (tributary_workqueue_depth{SEL})`, "{{lane}}")},
		},
		{
			Title: "Oldest in each lane", Kind: Graph, Unit: "s", Width: 8,
			Description: "How long the oldest Service has been waiting.",
			Queries:     []Query{q(`max by (lane) (tributary_workqueue_oldest_age_seconds{SEL})`, "{{lane}}")},
		},
		{
			Title: "Causes and retries", Kind: Graph, Unit: "ops", Width: 8,
			Description: "Causes added to each lane per second, those that merged included; and Services that returned after a failure.",
			Queries: []Query{
				q(`sum by (lane) (rate(tributary_workqueue_adds_total{SEL}[$__rate_interval]))`, "{{lane}}"),
				q(`sum by (lane) (rate(tributary_workqueue_retries_total{SEL}[$__rate_interval]))`, "retry {{lane}}"),
			},
		},
		{
			Title: "Wait in the lane, slowest 1 %", Kind: Graph, Unit: "s", Width: 12,
			Description: "Backoff after a failure included.",
			Queries:     []Query{quantile(0.99, "workqueue_queue_duration_seconds", "SEL", "lane", "{{lane}}")},
		},
		{
			Title: "Work on a Service, slowest 1 %", Kind: Graph, Unit: "s", Width: 12,
			Description: "A worker's time for one Service, writes included.",
			Queries:     []Query{quantile(0.99, "workqueue_work_duration_seconds", "SEL", "lane", "{{lane}}")},
		},
	}}
}

func lagWrites() Row {
	return Row{"Writes to the ingress cluster", []Panel{
		{
			Title: "Writes", Kind: Graph, Unit: "ops", Width: 8, Stack: true,
			Description: "When nothing changes in the members, this is zero.",
			Queries:     []Query{q(`sum by (kind, verb) (rate(tributary_writes_total{SEL}[$__rate_interval]))`, "{{verb}} {{kind}}")},
		},
		{
			Title: "Writes that did not succeed at once", Kind: Graph, Unit: "ops", Width: 8,
			Description: "conflict: somebody else wrote first, resolved by looking again. throttled: the server asked to wait.",
			Queries:     []Query{q(`sum by (result) (rate(tributary_writes_total{SEL,result!="ok"}[$__rate_interval])) or vector(0)`, "{{result}}")},
		},
		{
			Title: "Duration of a write, slowest 1 %", Kind: Graph, Unit: "s", Width: 8,
			Description: "From sending to the acknowledgement.",
			Queries:     []Query{quantile(0.99, "write_duration_seconds", "SEL", "kind, verb", "{{verb}} {{kind}}")},
		},
		{
			Title: "Changes by result", Kind: Graph, Unit: "ops", Width: 12,
			Description: "dropped: computed, and equal to what stands.",
			Queries:     []Query{q(`sum by (result) (rate(tributary_changes_total{CSEL}[$__rate_interval]))`, "{{result}}")},
		},
		{
			Title: "Answers of the ingress cluster's API server", Kind: Graph, Unit: "ops", Width: 12,
			Description: "Requests by status code; 429 is the server asking to slow down.",
			// Of the ingress cluster: no member is to be selected.
			Queries: []Query{q(`sum by (code) (rate(tributary_client_requests_total{SEL,role="ingress"}[$__rate_interval]))`, "{{code}}")},
		},
	}}
}
