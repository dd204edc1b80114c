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

// Alert is one alerting rule. docs/runbooks holds a page of its name.
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
		if a := &all[i]; strings.Contains(a.Expr, memberLabel) {
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
			"The oldest change of {{ $labels.member_cluster }} has been waiting for {{ $value | humanizeDuration }}."},
		{"TributaryRemovalsWait", "1m", Critical,
			`max by (namespace, job) (tributary_workqueue_oldest_age_seconds{lane="removal"}) > 5`,
			"Removals are waiting in the queue",
			"An address that should leave the ingress cluster has been waiting for {{ $value | humanizeDuration }}; removals normally overtake everything."},
		{"TributaryNativeBehind", "1m", Warning,
			`max by (namespace, job, member_cluster) (tributary_native_behind_seconds) > 120`,
			"The controller manager of {{ $labels.member_cluster }} runs far behind",
			"A change that Tributary computed {{ $value | humanizeDuration }} ago is not in the member's own Endpoints yet. Tributary does not depend on them; whatever else reads them does."},
		{"TributaryNativeDisagreement", "15m", Warning,
			`max by (namespace, job, member_cluster) (tributary_native_differing_services) > 0`,
			"{{ $value }} Services of {{ $labels.member_cluster }} differ from the member's own Endpoints",
			"They do not agree in the long run, so this is no backlog. `tributary status` shows both lists of addresses."},
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
			lastContact + ` > 900 or ` + lastContact + ` and on (namespace, job, member_cluster) max by (namespace, job, member_cluster) (tributary_cluster_stale` + notStandby + `) == 1`,
			"Nothing was heard of {{ $labels.member_cluster }} for {{ $value | humanizeDuration }}",
			"What the ingress cluster routes to in {{ $labels.member_cluster }} is that old. With staleAfter set, other members' ready endpoints are preferred.",
		},
		{"TributaryMemberNotSynced", "10m", Warning,
			`min by (namespace, job, member_cluster) (tributary_cluster_synced) == 0`,
			"Member {{ $labels.member_cluster }} was not read whole since the start",
			"Until it is, what it contributed before stays as it was."},
		{"TributaryAccessRefused", "15m", Warning,
			`max by (namespace, job, member_cluster, reason) (tributary_cluster_condition{reason=~"IdentityMismatch|NewAccessFails|KubeconfigRefused"}) == 1`,
			"A way to {{ $labels.member_cluster }} is refused: {{ $labels.reason }}",
			"If there is a former one it goes on, until the next restart or until its credential ends. `tributary status` says what is refused, and why."},
		{"TributaryOrphans", "5m", Warning,
			`max by (namespace, job, member_cluster) (tributary_orphan_replicas) > 0`,
			"{{ $labels.member_cluster }} is not configured, and its endpoints stay in {{ $value }} replicas",
			"Nobody follows it: pods of it that go keep taking traffic. Put its Secret or its entry in the file back, or drain it before it is taken out."},
		{
			// A token that lives shortly is overdue once half of the time is over in which it is renewed.
			"TributaryCredentialEnds", "5m", Warning,
			`min by (namespace, job, member_cluster) (tributary_kubeconfig_expiry_timestamp_seconds) - time() < 3 * 86400` +
				` unless on (namespace, job, member_cluster) min by (namespace, job, member_cluster) (tributary_kubeconfig_expiry_timestamp_seconds + tributary_kubeconfig_renewal_timestamp_seconds) / 2 > time()`,
			"The credential for {{ $labels.member_cluster }} ends in {{ $value | humanizeDuration }}",
			"After that the member cannot be read. Tokens that `tributary link` made are renewed long before: if this one was, renewing fails.",
		},
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

func safetyAlerts() []Alert {
	return []Alert{
		{"TributaryPanic", "1m", Critical,
			`max by (namespace, job, member_cluster) (tributary_cluster_panic) == 1`,
			"Most pods of {{ $labels.member_cluster }} turned not ready at once and are kept ready",
			"Traffic goes on to pods that may be down. If they are, let them go: tributary release --cluster {{ $labels.member_cluster }}"},
		{
			// A drain that waits for another member is meant to wait.
			"TributaryChangesHeld", "5m", Warning,
			`max by (namespace, job, member_cluster, reason) (tributary_held_changes{reason!="drain_last_ready"}) > 0`,
			"Changes are held{{ with $labels.member_cluster }} for {{ . }}{{ end }}: {{ $labels.reason }}",
			"{{ $value }} changes are kept back until they are confirmed or released. `tributary status` names each with the command or remedy that releases it.",
		},
		{"TributaryWritesFailing", "5m", Critical,
			`sum by (namespace, job, kind) (rate(tributary_writes_total{result=~"throttled|forbidden|invalid|timeout|error"}[5m]))` +
				` / sum by (namespace, job, kind) (rate(tributary_writes_total[5m])) > 0.05` +
				// A few Services that fail alone are tried again at a pace, and conflicts.
				` and sum by (namespace, job, kind) (rate(tributary_writes_total{result=~"throttled|forbidden|invalid|timeout|error"}[5m])) > on (namespace, job) group_left () (0.1 + 0.1 * (sum by (namespace, job) (max by (namespace, job, reason) (tributary_conflicts{reason=~"failing|refused"})) or 0 * sum by (namespace, job) (rate(tributary_writes_total[5m]))))`,
			"Writes of {{ $labels.kind }} to the ingress cluster fail",
			"{{ $value | humanizePercentage }} of the writes failed. Each is tried again, so changes are late."},
		{"TributaryManyFailing", "2m", Critical,
			`sum by (namespace, job) (max by (namespace, job, reason) (tributary_conflicts{reason=~"failing|refused"})) > 10` +
				` and on (namespace, job) sum by (namespace, job) (max by (namespace, job, reason) (tributary_conflicts{reason=~"failing|refused"})) > on (namespace, job) 0.05 * max by (namespace, job) (tributary_replicas)`,
			"The ingress cluster does not take {{ $value }} Services",
			"A few that fail for what they are is a conflict and waits for the day; so many are a policy, a webhook or a right. What they lose is not written."},
		{"TributaryThrottled", "10m", Warning,
			`sum by (namespace, job, role, member_cluster) (rate(tributary_client_requests_total{code="429"}[5m])) > 1`,
			"An API server asks Tributary to slow down ({{ $labels.role }} {{ $labels.member_cluster }})",
			"{{ $value | humanize }} requests a second are answered with 429."},
		{"TributaryConflict", "15m", Warning,
			`max by (namespace, job, reason) (tributary_conflicts) > 0`,
			"{{ $value }} conflicts: {{ $labels.reason }}",
			"Members disagree about a Service, an object that is not Tributary's has its name, or the ingress cluster does not take it. `tributary status` names each with its remedy."},
		{
			// What stands, not what came: an address that is left out since the start
			// takes no traffic either, and the counter does not rise any more.
			"TributaryAddressesRejected", "5m", Warning,
			`max by (namespace, job, member_cluster, reason) (tributary_rejected_addresses_current) > 0`,
			"Addresses of {{ $labels.member_cluster }} are left out: {{ $labels.reason }}",
			"{{ $value }} of them now: the API would refuse them, or the configuration does not allow them. The other addresses of the Services pass.",
		},
	}
}

func sinkAlerts() []Alert {
	return []Alert{
		{"TributarySinkBehind", "2m", Critical,
			`max by (namespace, job, sink) (tributary_sink_lag_seconds) > 60`,
			"The receiver {{ $labels.sink }} is {{ $value | humanizeDuration }} behind",
			"It has not acknowledged what Services are now: it may route to addresses that are gone. Kubernetes and other sinks are not affected."},
		{"TributarySinkRefuses", "10m", Warning,
			`max by (namespace, job, sink) (tributary_sink_refused_services) > 0`,
			"The receiver {{ $labels.sink }} refuses {{ $value }} Services",
			"It answers 400 to 499 when it is told of them; all others are told. The log names them."},
		{"TributarySinkUnkept", "10m", Warning,
			`max by (namespace, job, sink) (tributary_sink_state_unkept) == 1`,
			"What {{ $labels.sink }} acknowledges cannot be written down",
			"After a restart it is told anew what it acknowledged since. `tributary status` says why."},
	}
}

func processAlerts() []Alert {
	return []Alert{
		{"TributaryNotReady", "15m", Warning,
			`max by (namespace, job, instance) (tributary_ready) == 0`,
			"{{ $labels.instance }} is not ready",
			"/readyz says what it waits for."},
		{"TributaryConfigRefused", "5m", Warning,
			`min by (namespace, job, instance) (tributary_config_last_reload_successful) == 0`,
			"{{ $labels.instance }} refused its configuration",
			"The one before goes on running; after a restart there would be none. `tributary check` says what is wrong."},
	}
}

// Group is the name of the one group of rules.
const Group = "tributary"

// RunbookURL is where the pages of docs/runbooks are published.
const RunbookURL = "https://tributary.dev/docs/runbooks/"

// RunbookURL is where the page of an alert is; docs/runbooks has the file.
func (a Alert) RunbookURL() string { return RunbookURL + a.Name + ".md" }
