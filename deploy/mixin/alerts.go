// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"fmt"
	"strings"
)

// Severity says who is told: critical wakes somebody, warning waits for the day.
type Severity string

// The severities.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
)

// Alert is one alerting rule. docs/operations.md has a section of its name, which says what to type.
type Alert struct {
	Name, For string
	Severity  Severity
	Expr      string
	// Summary and Description are templates of Prometheus.
	Summary, Description string
}

// Alerts returns all alerts: speed, reach, safety, process. Where one Prometheus scrapes
// several installations, each has alerts of its own: they are told apart by namespace and
// job, as scraping names them.
func Alerts() []Alert {
	var all []Alert
	for _, group := range [][]Alert{speedAlerts(), reachAlerts(), safetyAlerts(), sinkAlerts(), processAlerts()} {
		all = append(all, group...)
	}
	for i := range all {
		if a := &all[i]; strings.Contains(a.Expr, memberLabel) && a.Name != "TributaryConflict" {
			a.Expr = unlessDrained(a.Expr)
		}
	}
	return all
}

// unlessDrained leaves members out that are drained wholly: they take no traffic, and may
// be shut down.
func unlessDrained(expr string) string {
	return "(" + expr + `) unless on (namespace, job, member_cluster) max by (namespace, job, member_cluster) (tributary_cluster_condition{reason="Drained"})`
}

// slow is true for members whose live changes of some lanes use up their error budget
// at a rate, over a long window and a short one, which ends the alert soon after the
// trouble. Goal: 99 % within 250 ms. With less than one change a minute there is nothing
// to say: a share of three changes is no share.
func slow(lanes, long, short string, rate float64) string {
	share := func(window string) string {
		return fmt.Sprintf(`(1 - sum by (namespace, job, member_cluster) (rate(tributary_change_latency_seconds_bucket{stage="total",lane=~"%[1]s",le="0.25"}[%[2]s]))`+
			` / sum by (namespace, job, member_cluster) (rate(tributary_change_latency_seconds_count{stage="total",lane=~"%[1]s"}[%[2]s])))`, lanes, window)
	}
	return fmt.Sprintf(`%s > %v * 0.01 and %s > %v * 0.01 and sum by (namespace, job, member_cluster) (rate(tributary_change_latency_seconds_count{stage="total",lane=~"%s"}[%s])) > 1 / 60`,
		share(long), rate, share(short), rate, lanes, long)
}

func speedAlerts() []Alert {
	return []Alert{
		{
			// 14.4 times as fast as allowed uses up a month's budget in two days.
			"TributaryRemovalsSlow", "2m", Critical,
			slow("removal", "1h", "5m", 14.4),
			"Removals of {{ $labels.member_cluster }} reach the ingress cluster slowly",
			"{{ $value | humanizePercentage }} of the removals of the last hour took longer than 250 ms. Pods that are gone take traffic for that long.",
		},
		{"TributaryChangesSlow", "2m", Warning,
			slow("removal|addition", "6h", "30m", 6),
			"Changes of {{ $labels.member_cluster }} reach the ingress cluster slowly",
			"{{ $value | humanizePercentage }} of the live changes of the last six hours took longer than 250 ms."},
		{"TributaryLagHigh", "1m", Critical,
			`max by (namespace, job, member_cluster) (tributary_sync_lag_seconds) > 30`,
			"Changes of {{ $labels.member_cluster }} are not being written",
			"The oldest change of {{ $labels.member_cluster }} has been waiting for {{ $value | humanizeDuration }}: for the ingress cluster, or for the member's answer about an object that a list lacks (tributary_missing)."},
	}
}

// notStandby leaves a process out that stands by: what stands is none of its doing.
const notStandby = ` unless on (namespace, job, instance) tributary_leader == 0`

// Where processes see a member otherwise, the worse counts: one that leads and is blind is silent about it, and one that
// stands by and is blind would lead so. Only the first is critical.
func reachAlerts() []Alert {
	const lastContact = `max by (namespace, job, member_cluster) (tributary_cluster_last_contact_seconds` + notStandby + `)`
	// down is true for an installation of which no process is scraped. One that was taken away has no targets.
	const down = `max by (namespace, job) (up and on (namespace, job) max_over_time(tributary_build_info[1d])) == 0`
	return []Alert{
		{"TributaryMemberUnreachable", "5m", Warning,
			`min by (namespace, job, member_cluster) (tributary_cluster_up) == 0`,
			"Member {{ $labels.member_cluster }} does not answer",
			"Its endpoints stay as last known; pods that go meanwhile keep taking traffic."},
		{
			// staleAfter of a member may be shorter than a quarter of an hour.
			"TributaryMemberStale", "1m", Critical,
			lastContact + ` > 900 or ` + lastContact + ` and on (namespace, job, member_cluster) max by (namespace, job, member_cluster) (tributary_cluster_condition{reason="Stale"}` + notStandby + `) == 1`,
			"Nothing was heard of {{ $labels.member_cluster }} for {{ $value | humanizeDuration }}",
			"What the ingress cluster routes to in {{ $labels.member_cluster }} is that old. With staleAfter set, its endpoints serve only where no other member does.",
		},
		{"TributaryMemberNotSynced", "10m", Warning,
			`min by (namespace, job, member_cluster) (tributary_cluster_synced) == 0`,
			"Member {{ $labels.member_cluster }} was not read whole since the start",
			"Until it is, what it contributed before stays as it was."},
		{"TributaryAccessRefused", "15m", Warning,
			`max by (namespace, job, member_cluster, reason) (tributary_cluster_condition{reason=~"OtherCluster|Kubeconfig|Refused"}) == 1`,
			"{{ $labels.member_cluster }} cannot be read as it should: {{ $labels.reason }}",
			"OtherCluster: another cluster answers, and nothing of it is used. Kubeconfig: the new one is of no use. Refused: rights are missing. `tributary status` says what to do."},
		{"TributaryCredentialEnds", "5m", Warning,
			`min by (namespace, job, member_cluster) (tributary_kubeconfig_expiry_timestamp_seconds) - time() < 3 * 86400`,
			"The credential for {{ $labels.member_cluster }} ends in {{ $value | humanizeDuration }}",
			"After that the member cannot be read. Tokens that `tributary link` made are renewed long before: if this one was, renewing fails."},
		{"TributaryNobodyLeads", "1m", Critical,
			`sum by (namespace, job) (tributary_leader) == 0`,
			"No process of Tributary leads",
			"Nothing is written. `kubectl get lease` in Tributary's namespace shows who held the Lease last."},
		{"TributaryIngressUnreachable", "1m", Critical,
			`max by (namespace, job) (tributary_ingress_up) == 0`,
			"The ingress cluster does not answer",
			"No change of any member can be written."},
		{
			"TributaryAbsent", "5m", Critical,
			`(absent(tributary_build_info) unless on () ` + down + `) or ` + down,
			"Tributary is not being scraped{{ with $labels.namespace }} in {{ . }}{{ end }}",
			"It is not running, or Prometheus does not find it. Endpoints in the ingress cluster do not follow the members.",
		},
	}
}

// failed are the results of writes that were not what somebody else's write explains.
const failed = `result=~"throttled|forbidden|invalid|timeout|error"`

func safetyAlerts() []Alert {
	return []Alert{
		{
			// One Service that the server refuses is tried again at a pace, and is a conflict.
			"TributaryWritesFailing", "5m", Critical,
			`sum by (namespace, job, kind) (rate(tributary_writes_total{` + failed + `}[5m]))` +
				` / sum by (namespace, job, kind) (rate(tributary_writes_total[5m])) > 0.05` +
				` and sum by (namespace, job, kind) (rate(tributary_writes_total{` + failed + `}[5m])) > 0.5`,
			"Writes of {{ $labels.kind }} to the ingress cluster fail",
			"{{ $value | humanizePercentage }} of the writes failed. Each is tried again, so changes are late. `tributary status` shows what the server said.",
		},
		{
			// Three questions of one answer: `tributary status` names each case with its remedy.
			"TributaryConflict", "15m", Warning,
			`max by (namespace, job, reason) (tributary_conflicts) > 0` +
				` or max by (namespace, job, member_cluster, reason) (tributary_rejected_addresses) > 0` +
				` or label_replace(max by (namespace, job) (tributary_orphan_replicas), "reason", "orphan", "", "") > 0`,
			"{{ $value }} conflicts{{ with $labels.member_cluster }} in {{ . }}{{ end }}: {{ $labels.reason }}",
			"Something is not carried over as a member has it, or stays of a cluster that is not configured. `tributary status` names each case with its remedy.",
		},
	}
}

func sinkAlerts() []Alert {
	return []Alert{
		{"TributarySinkBehind", "2m", Critical,
			`max by (namespace, job, sink) (tributary_sink_lag_seconds) > 60`,
			"The receiver {{ $labels.sink }} is {{ $value | humanizeDuration }} behind",
			"It has not acknowledged what Services are now: it may route to addresses that are gone. Kubernetes and other sinks are not affected."},
	}
}

func processAlerts() []Alert {
	return []Alert{
		{"TributaryConfigRefused", "5m", Warning,
			`min by (namespace, job, instance) (tributary_config_last_reload_successful) == 0`,
			"{{ $labels.instance }} refused its configuration",
			"The one before goes on running; after a restart there would be none. `tributary check` says what is wrong."},
	}
}

// Group is the name of the one group of rules.
const Group = "tributary"

// RunbookPage is where docs/operations.md is published.
const RunbookPage = "https://tributary.dev/docs/operations.md"

// RunbookURL is the section about an alert in docs/operations.md.
func (a Alert) RunbookURL() string { return runbook(a.Name) }

func runbook(alert string) string { return RunbookPage + "#" + strings.ToLower(alert) }
