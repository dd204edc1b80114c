// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// row is what a member shows in the first table of the first dashboard, by column: a number, or in "Wrong" a text.
type row map[string]any

// calmRow is that of a member of which nothing is late.
var calmRow = row{
	"State": 1.0, "Answers": 1.0, "Wrong": "-", "Last contact": 1.0, "Lag": 0.0, "Event late p99": 0.005, "Queue p99": 0.005, "Compute p99": 0.005, "Write p99": 0.005,
	"Own controllers behind": 0.0, "Missing": 0.0, "Rejected": 0.0, "Credential ends in": 2592000.0,
}

// lateness is one reason for which pods of a member are late, and what its row shows then.
type lateness struct {
	because string
	// series take the place of those of a calm member, or are added.
	series map[string]string
	// shows is what differs from a calm row; loud are the columns that have the colour of a warning.
	shows row
	loud  []string
}

var latenesses = []lateness{
	{"its API server tells late", took("source_delay", "", 30, 60), row{"Event late p99": 59.7}, []string{"Event late p99"}},
	{"its changes wait for a worker", both(took("change_latency", "queue", 1, 2.5), gauge("sync_lag_seconds", 12)), row{"Queue p99": 2.485, "Lag": 12.0}, []string{"Lag", "Queue p99"}},
	{"its changes take long to compute", took("change_latency", "compute", 0.5, 1), row{"Compute p99": 0.995}, []string{"Compute p99"}},
	{"its changes take long to write", took("change_latency", "write", 2.5, 10), row{"Write p99": 9.925}, []string{"Write p99"}},
	{"its changes are not written at all", gauge("sync_lag_seconds", 300), row{"Lag": 300.0}, []string{"Lag"}},
	{"its own controllers are behind", gauge("native_behind_seconds", 720), row{"Own controllers behind": 720.0}, []string{"Own controllers behind"}},
	{
		"it does not answer", both(gauge("cluster_up", 0), gauge("cluster_last_contact_seconds", 600), wrong("Unreachable")),
		row{"State": 3.0, "Answers": 0.0, "Last contact": 600.0, "Wrong": "Unreachable"}, []string{"State", "Last contact"},
	},
	{
		"it has been out of sight for longer than staleAfter", both(gauge("cluster_up", 0), gauge("cluster_last_contact_seconds", 3600), wrong("Stale")),
		row{"State": 4.0, "Answers": 0.0, "Last contact": 3600.0, "Wrong": "Stale"}, []string{"State", "Last contact"},
	},
	{"a right to read it was taken away", both(gauge("cluster_up", 0), wrong("Refused")), row{"State": 3.0, "Answers": 0.0, "Wrong": "Refused"}, []string{"State"}},
	{"it was not read whole yet", gauge("cluster_synced", 0), row{"State": 2.0}, []string{"State"}},
	{"its list lacks what is served", both(wrong("Missing"), gauge("missing", 40)), row{"Wrong": "Missing", "Missing": 40.0}, []string{"Missing"}},
	{"its addresses are refused", map[string]string{`tributary_rejected_addresses{MEMBER,reason="not_allowed"}`: "7x15"}, row{"Rejected": 7.0}, []string{"Rejected"}},
	{"it is drained", wrong("Drained"), row{"State": 0.0, "Wrong": "Drained", "Last contact": nil}, nil},
	{
		"it is drained and shut down", both(wrong("Drained"), gauge("cluster_up", 0), gauge("cluster_last_contact_seconds", 86400)),
		row{"State": 0.0, "Answers": 0.0, "Wrong": "Drained", "Last contact": nil}, nil,
	},
}

func both(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, series := range all {
		maps.Copy(out, series)
	}
	return out
}

func gauge(name string, value float64) map[string]string {
	return map[string]string{"tributary_" + name + "{MEMBER}": fmt.Sprintf("%vx15", value)}
}

func wrong(reason string) map[string]string {
	return map[string]string{fmt.Sprintf(`tributary_cluster_condition{MEMBER,reason="%s"}`, reason): "1x15"}
}

// took is a histogram in which everything took longer than from and not longer than to, both limits of buckets.
func took(name, stage string, from, to float64) map[string]string {
	labels := "MEMBER"
	if stage != "" {
		labels += `,lane="removal",stage="` + stage + `"`
	}
	out := map[string]string{}
	for _, le := range []float64{from, to, math.Inf(1)} {
		values := "0+60x15"
		if le < to {
			values = "0x15"
		}
		if le > 0 {
			out[fmt.Sprintf(`tributary_%s_seconds_bucket{%s,le="%v"}`, name, labels, le)] = values
		}
	}
	return out
}

// calmSeries are those of a member of which nothing is late.
func calmSeries() map[string]string {
	quick := func(name, stage string) map[string]string { return took(name, stage, 0, 0.005) }
	return both(
		gauge("cluster_up", 1), gauge("cluster_synced", 1), gauge("missing", 0), gauge("cluster_last_contact_seconds", 1),
		gauge("sync_lag_seconds", 0), gauge("native_behind_seconds", 0), gauge("kubeconfig_expiry_timestamp_seconds", 2592900),
		quick("source_delay", ""), quick("change_latency", "queue"), quick("change_latency", "compute"), quick("change_latency", "write"),
	)
}

// standbySeries are those of a standby, and what it sees of a member.
var standbySeries = both(gauge("cluster_up", 1), gauge("cluster_synced", 1), gauge("missing", 0), gauge("cluster_last_contact_seconds", 0.5))

// The form of promtool's unit tests.
type (
	unitTest struct {
		Name     string       `json:"name"`
		Interval string       `json:"interval"`
		Series   []unitSeries `json:"input_series"`
		Queries  []unitQuery  `json:"promql_expr_test"`
	}
	unitSeries struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	unitQuery struct {
		Expr    string       `json:"expr"`
		At      string       `json:"eval_time"`
		Samples []unitSample `json:"exp_samples"`
	}
	unitSample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
)

// TestPodsAreLate: "pods of idc-b are late", for whatever reason: the first table of the first dashboard has the cause in
// the row of idc-b, in the colour of a warning, and nothing else has that colour. promtool evaluates every column's query on
// these series (make alerts, a part of make test).
func TestPodsAreLate(t *testing.T) {
	columns := columnsOf(t, readDashboards(t)[0])
	file := struct {
		Tests []unitTest `json:"tests"`
	}{}
	told := map[string]bool{}
	for _, late := range latenesses {
		rows := map[string]row{"idc-a": calmRow, "idc-b": maps.Clone(calmRow), "idc-c": calmRow}
		maps.Copy(rows["idc-b"], late.shows)
		test := unitTest{Name: "pods of idc-b are late: " + late.because, Interval: "1m"}
		for _, member := range slices.Sorted(maps.Keys(rows)) {
			series := calmSeries()
			if member == "idc-b" {
				for name := range late.series { // another bucket in place of the quick one
					if family, _, of := strings.Cut(name, `le="`); of {
						maps.DeleteFunc(series, func(other, _ string) bool { return strings.HasPrefix(other, family) })
					}
				}
				maps.Copy(series, late.series)
			}
			of := func(instance string, series map[string]string) {
				for _, name := range slices.Sorted(maps.Keys(series)) {
					test.Series = append(test.Series, unitSeries{strings.Replace(name, "MEMBER", fmt.Sprintf(`instance="%s",member_cluster="%s"`, instance, member), 1), series[name]})
				}
			}
			of("a", series)
			standby := maps.Clone(standbySeries) // which sees all members, and leaves out the same
			for name, values := range series {
				if strings.HasPrefix(name, "tributary_rejected") {
					standby[name] = values
				}
			}
			of("b", standby)
		}
		for _, column := range columns {
			test.Queries = append(test.Queries, cells(column, rows))
			for member, of := range rows {
				value, _ := of[column.title].(float64)
				loud := column.warn != nil && value >= *column.warn
				if want := member == "idc-b" && slices.Contains(late.loud, column.title); loud != want {
					t.Errorf("%s: %s of %s is %v: loud is %v, want %v", late.because, column.title, member, value, loud, want)
				}
			}
		}
		for title := range late.shows {
			told[title] = true
		}
		file.Tests = append(file.Tests, test)
	}
	for _, column := range columns {
		if column.warn != nil && !told[column.title] {
			t.Errorf("nothing makes %s loud", column.title)
		}
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	runPromtool(t, text)
}

var promtool = flag.String("promtool", "", "evaluate queries with this promtool (make alerts)")

// runPromtool runs unit tests in promtool's form, where there is one.
func runPromtool(t *testing.T, tests []byte) {
	t.Helper()
	if *promtool == "" {
		t.Log("no -promtool: the queries were not evaluated")
		return
	}
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, tests, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), *promtool, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// column is one of the table that has a row for each member.
type column struct {
	title, expr string
	// warn is the value from which a cell has the colour of a warning; nil: none has.
	warn *float64
}

// columnsOf are those of the one table of a dashboard. Grafana names the value of query A "Value #A"; where a query has a
// label reason, the column shows that. Each is one value for each member, and says so by that label.
func columnsOf(t *testing.T, d Dashboard) (columns []column) {
	t.Helper()
	table := d.Panels[slices.IndexFunc(d.Panels, func(p Panel) bool { return p.Type == "table" })]
	titles := table.Transformations[len(table.Transformations)-1].Options.RenameByName
	for _, target := range table.Targets {
		c := column{title: titles["Value #"+target.RefID], expr: target.Expr}
		if c.title == "" {
			c.title = titles["reason"]
		}
		if c.title == "" || !strings.Contains(c.expr, "by (member_cluster") {
			t.Errorf("column %q: %s", c.title, c.expr)
		}
		for _, override := range table.FieldConfig.Overrides {
			for _, property := range override.Properties {
				var thresholds struct{ Steps []struct{ Value *float64 } }
				if override.Matcher.Options == c.title && property.ID == "thresholds" {
					if err := json.Unmarshal(property.Value, &thresholds); err != nil {
						t.Fatal(err)
					}
					c.warn = thresholds.Steps[1].Value
				}
			}
		}
		columns = append(columns, c)
	}
	if len(columns) < 8 || columns[0].title != "State" {
		t.Fatalf("%q has columns %+v", table.Title, columns)
	}
	return columns
}

// cells asks for a column as Grafana does, to a thousandth, and says what it has for each member.
func cells(column column, rows map[string]row) unitQuery {
	expr := strings.NewReplacer("$instance", ".*", "$cluster", ".*").Replace(column.expr)
	query := unitQuery{Expr: "round(" + expr + ", 0.001)", At: "15m"}
	for _, member := range slices.Sorted(maps.Keys(rows)) {
		labels, value := fmt.Sprintf(`{member_cluster="%s"}`, member), rows[member][column.title]
		if value == nil {
			continue // an empty cell
		}
		if reason, named := value.(string); named {
			labels, value = fmt.Sprintf(`{member_cluster="%s",reason="%s"}`, member, reason), 1.0
		}
		query.Samples = append(query.Samples, unitSample{labels, value.(float64)})
	}
	return query
}
