// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/metrics"
)

// chartFiles are the alerts and dashboards.
const chartFiles = "../../deploy/helm/tributary/files"

func readAlerts(t *testing.T) []Alert {
	t.Helper()
	alerts, err := Alerts(chartFiles)
	if err != nil || len(alerts) == 0 {
		t.Fatalf("%d alerts: %v", len(alerts), err)
	}
	return alerts
}

func readDashboards(t *testing.T) []Dashboard {
	t.Helper()
	dashboards, err := Dashboards(chartFiles)
	if err != nil || len(dashboards) != 2 {
		t.Fatalf("%d dashboards, want two: %v", len(dashboards), err)
	}
	return dashboards
}

// query is a PromQL expression and where it is.
type query struct{ where, expr string }

func panelQueries(t *testing.T) (all []query) {
	t.Helper()
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, query{d.File + ": " + p.Title + ": " + target.RefID, target.Expr})
			}
		}
	}
	return all
}

func allQueries(t *testing.T) []query {
	t.Helper()
	all := panelQueries(t)
	for _, d := range readDashboards(t) {
		for _, a := range d.Annotations.List {
			all = append(all, query{d.File + ": annotation " + a.Name, a.Expr})
		}
	}
	for _, a := range readAlerts(t) {
		all = append(all, query{"alert " + a.Name, a.Expr})
	}
	return all
}

// TestQueriesNameRealFamilies: every family and label in a query exists.
func TestQueriesNameRealFamilies(t *testing.T) {
	for _, q := range allQueries(t) {
		for _, problem := range problems(q.expr) {
			t.Errorf("%s: %s\n%s", q.where, problem, q.expr)
		}
	}
	// The check itself must be able to fail.
	for expr, want := range map[string]string{
		`tributary_nope`:                                   "no family",
		`sum by (pod) (tributary_cluster_up)`:              `label "pod"`,
		`tributary_cluster_up{stage="x"}`:                  `label "stage"`,
		`tributary_sync_lag_seconds_bucket`:                "no family",
		`sum by (member_cluster, le) (tributary_services)`: `label "le"`,
		`rate(tributary_writes_total{kin="x"}[5m])`:        `label "kin"`,
	} {
		if got := strings.Join(problems(expr), "; "); !strings.Contains(got, want) {
			t.Errorf("problems of %s: %q; want %q", expr, got, want)
		}
	}
}

// TestQueriesSelect: what is chosen at the top of a dashboard holds for every query of it. Requests to the ingress cluster
// are no member's, and are shown beside those of members.
func TestQueriesSelect(t *testing.T) {
	ofMembers := map[string]bool{}
	for _, f := range metrics.Families() {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			ofMembers[f.FullName()+suffix] = slices.Contains(f.Labels, "member_cluster")
		}
	}
	for _, q := range panelQueries(t) {
		for _, match := range selector.FindAllStringSubmatch(q.expr, -1) {
			if !strings.Contains(match[2], `instance=~"$instance"`) {
				t.Errorf("%s: %s is of every instance", q.where, match[0])
			}
			if ofMembers[match[1]] && !strings.Contains(match[2], `member_cluster=~"$cluster`) && !strings.Contains(match[2], `role="ingress"`) {
				t.Errorf("%s: %s is of every member", q.where, match[0])
			}
		}
	}
}

var (
	selector = regexp.MustCompile(`(tributary_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
)

// problems compares an expression with the table of families. It knows no
// PromQL: names, matchers and groupings are enough.
func problems(expr string) (found []string) {
	labelsOf := map[string][]string{}
	scraping := []string{"namespace", "instance", "job"} // what scraping in a cluster adds
	for _, f := range metrics.Families() {
		labels := slices.Concat(f.Labels, scraping)
		labelsOf[f.FullName()] = labels
		if f.Type == metrics.Histogram {
			labelsOf[f.FullName()+"_sum"], labelsOf[f.FullName()+"_count"] = labels, labels
			labelsOf[f.FullName()+"_bucket"] = append(labels, "le")
		}
	}
	known := slices.Clone(scraping)
	for _, match := range selector.FindAllStringSubmatch(expr, -1) {
		labels, ok := labelsOf[match[1]]
		if !ok {
			found = append(found, "no family "+match[1])
		}
		for _, label := range matcher.FindAllStringSubmatch(match[2], -1) {
			if ok && !slices.Contains(labels, label[1]) {
				found = append(found, match[1]+" has no label \""+label[1]+"\"")
			}
		}
		known = append(known, labels...)
	}
	for _, group := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(known, label) {
				found = append(found, "nothing here has label \""+label+"\"")
			}
		}
	}
	return found
}

// runbooks is where docs/operations.md is published; the chart puts another address in its place.
const runbooks = "https://tributary.dev/docs/operations.md"

// TestRunbooks: every alert has its section in docs/operations.md, to which its link leads, and every such section its alert.
// Links of dashboards lead to sections that exist.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (Tributary[A-Z][A-Za-z]+)$`).FindAllSubmatch(text, -1) {
		sections[string(heading[1])] = true
	}
	alerts, anchors := readAlerts(t), []string{"#alerts"}
	if len(alerts) > 15 {
		t.Errorf("%d alerts: more than somebody would learn", len(alerts))
	}
	for _, a := range alerts {
		anchor := "#" + strings.ToLower(a.Name)
		anchors = append(anchors, anchor)
		if !sections[a.Name] || a.Annotations["runbook_url"] != runbooks+anchor {
			t.Errorf("%s leads to %s; docs/operations.md has a section: %v", a.Name, a.Annotations["runbook_url"], sections[a.Name])
		}
		if a.For == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" || !slices.Contains([]string{"critical", "warning"}, a.Labels["severity"]) {
			t.Errorf("%s is not whole: %+v", a.Name, a)
		}
		delete(sections, a.Name)
	}
	for name := range sections {
		t.Errorf("docs/operations.md has a section about %s, which is no alert", name)
	}
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, o := range p.FieldConfig.Overrides {
				for _, property := range o.Properties {
					for _, link := range regexp.MustCompile(regexp.QuoteMeta(runbooks)+`(#[a-z]*)`).FindAllSubmatch(property.Value, -1) {
						if !slices.Contains(anchors, string(link[1])) {
							t.Errorf("%s: %s: %s leads to no section %s", d.File, p.Title, o.Matcher.Options, link[1])
						}
					}
				}
			}
		}
	}
}

// TestTheyAreTested: alerts_test.yaml, which promtool runs, has a firing and a silent case for every alert, and the query of
// every annotation as Grafana sends it.
func TestTheyAreTested(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range readAlerts(t) {
		for _, want := range []string{`exp_alerts: \[\]`, `exp_alerts:\n`} {
			if !regexp.MustCompile(`alertname: ` + a.Name + `\n\s+` + want).Match(text) {
				t.Errorf("alerts_test.yaml has no case of %s with %s", a.Name, want)
			}
		}
	}
	for _, d := range readDashboards(t) {
		for _, a := range d.Annotations.List {
			if sent := strings.NewReplacer("$instance", ".*", "$__from", "600000").Replace(a.Expr); !bytes.Contains(text, []byte(sent)) {
				t.Errorf("%s: annotation %q: alerts_test.yaml does not evaluate %s", d.File, a.Name, sent)
			}
		}
	}
}

// TestPanels: each says what it shows and in which unit, has a name of its own, and lies on no other.
func TestPanels(t *testing.T) {
	for _, d := range readDashboards(t) {
		names, ids := map[string]bool{}, map[int]bool{}
		for i, p := range d.Panels {
			if p.Type != "row" {
				switch {
				case p.Description == "", len(p.Targets) == 0, names[p.Title], ids[p.ID]:
					t.Errorf("%s: %q has no description or no query, or its name or number is taken", d.File, p.Title)
				case p.FieldConfig.Defaults.Unit == "" && p.Type != "state-timeline" && p.Type != "table":
					t.Errorf("%s: %q has no unit", d.File, p.Title)
				}
			}
			names[p.Title], ids[p.ID] = true, true
			a := p.GridPos
			if a.W < 4 || a.X+a.W > 24 {
				t.Errorf("%s: %q is at %+v", d.File, p.Title, a)
			}
			for _, other := range d.Panels[i+1:] {
				if b := other.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Errorf("%s: %q and %q overlap", d.File, p.Title, other.Title)
				}
			}
		}
	}
}
