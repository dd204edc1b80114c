// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/internal/golden"
	"tributary.dev/tributary/metrics"
)

// TestRenderedFiles: what is committed is what the code renders, no more and
// no less.
func TestRenderedFiles(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		golden.File(t, filepath.Join("..", path), want)
	}
	for _, dir := range []string{"dashboards/", chartFiles + "dashboards/"} {
		committed, err := os.ReadDir("../" + dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range committed {
			if _, ok := files[dir+entry.Name()]; !ok {
				t.Errorf("%s%s is rendered by nothing", dir, entry.Name())
			}
		}
	}
}

// TestFormsKeepClassicHistograms: a Prometheus that scrapes native histograms drops
// the classic ones, on which every query of a latency rests, unless it is told.
func TestFormsKeepClassicHistograms(t *testing.T) {
	const word = "always_scrape_classic_histograms"
	if value := scrapeJob(t, ScrapeForm)[word]; value != true {
		t.Errorf("%s: %s is %v", ScrapeForm, word, value)
	}
	older := scrapeJob(t, ScrapeForm2)
	if _, ok := older[word]; ok {
		t.Errorf("%s has %s, which Prometheus before 3 refuses", ScrapeForm2, word)
	}
	// That apart, the two say the same.
	older[word] = true
	if newer := scrapeJob(t, ScrapeForm); !reflect.DeepEqual(newer, older) {
		t.Errorf("%s has %v, %s has %v", ScrapeForm, newer, ScrapeForm2, older)
	}
}

// scrapeJob is the one job of a rendered configuration.
func scrapeJob(t *testing.T, form string) map[string]any {
	t.Helper()
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Jobs []map[string]any `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(files[form], &config); err != nil || len(config.Jobs) != 1 {
		t.Fatalf("%s: %d jobs (%v)", form, len(config.Jobs), err)
	}
	return config.Jobs[0]
}

// TestQueriesNameRealFamilies: every family and label in a query exists.
func TestQueriesNameRealFamilies(t *testing.T) {
	checked := 0
	for where, expr := range allExpressions() {
		for _, problem := range problems(expr) {
			t.Errorf("%s: %s\n%s", where, problem, expr)
		}
		checked++
	}
	if checked < 50 {
		t.Errorf("only %d queries checked", checked)
	}
	// The check itself must be able to fail.
	for expr, want := range map[string]string{
		`tributary_nope`:                               "no family",
		`sum by (pod) (tributary_cluster_up)`:          `label "pod"`,
		`tributary_cluster_up{stage="x"}`:              `label "stage"`,
		`tributary_sync_lag_seconds_bucket`:            "no family",
		`sum by (member_cluster, le) (tributary_pods)`: `label "le"`,
		`rate(tributary_writes_total{kin="x"}[5m])`:    `label "kin"`,
	} {
		if got := strings.Join(problems(expr), "; "); !strings.Contains(got, want) {
			t.Errorf("problems of %s: %q; want %q", expr, got, want)
		}
	}
}

// TestQueriesSelect: what is chosen at the top of a dashboard holds for every query of it. Requests to
// the ingress cluster are no member's, and stand beside those of members where both are shown.
func TestQueriesSelect(t *testing.T) {
	ofMembers := map[string]bool{}
	for _, f := range metrics.Families() {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			ofMembers[f.FullName()+suffix] = slices.Contains(f.Labels, memberLabel)
		}
	}
	for where, expr := range allExpressions() {
		if strings.HasPrefix(where, "alert ") || strings.HasPrefix(where, "annotation ") {
			continue
		}
		for _, match := range selector.FindAllStringSubmatch(expr, -1) {
			if !strings.Contains(match[2], `instance=~"$instance"`) {
				t.Errorf("%s: %s is of every instance", where, match[0])
			}
			if ofMembers[match[1]] && !strings.Contains(match[2], memberLabel+`=~"$cluster`) && !strings.Contains(match[2], `role="ingress"`) {
				t.Errorf("%s: %s is of every member", where, match[0])
			}
		}
	}
}

func allExpressions() map[string]string {
	all := map[string]string{}
	for _, d := range Dashboards() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, query := range p.Queries {
					all[d.File+": "+p.Title+": "+query.Legend] = query.expanded()
				}
				for _, column := range p.Columns {
					all[d.File+": "+p.Title+": "+column.Title] = Query{Expr: column.Expr}.expanded()
				}
			}
		}
	}
	for _, a := range Alerts() {
		all["alert "+a.Name] = a.Expr
	}
	for _, a := range annotations() {
		all["annotation "+a.Name] = a.Expr
	}
	return all
}

var (
	selector = regexp.MustCompile(`(tributary_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
)

// problems compares an expression with the table of families. It knows no
// PromQL: names, matchers and groupings are enough.
func problems(expr string) (found []string) {
	table := map[string]metrics.Family{}
	for _, f := range metrics.Families() {
		table[f.FullName()] = f
		if f.Type == metrics.Histogram {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				g := f
				if suffix == "_bucket" {
					g.Labels = append(slices.Clone(f.Labels), "le")
				}
				table[f.FullName()+suffix] = g
			}
		}
	}
	known := []string{"namespace", "instance", "job"} // what scraping in a cluster adds
	for _, match := range selector.FindAllStringSubmatch(expr, -1) {
		family, ok := table[match[1]]
		if !ok {
			found = append(found, "no family "+match[1])
			continue
		}
		labels := append(slices.Clone(family.Labels), "namespace", "instance", "job")
		for _, label := range matcher.FindAllStringSubmatch(match[2], -1) {
			if !slices.Contains(labels, label[1]) {
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

// TestRunbooks: every alert has its section in docs/operations.md, under the heading to which its link leads, and every such
// section its alert.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (Tributary[A-Z][A-Za-z]+)$`).FindAllSubmatch(text, -1) {
		sections[string(heading[1])] = true
	}
	alerts := Alerts()
	if len(alerts) > 15 {
		t.Errorf("%d alerts: more than somebody would learn", len(alerts))
	}
	for _, a := range alerts {
		if !sections[a.Name] {
			t.Errorf("docs/operations.md has no section %s", a.Name)
		}
		delete(sections, a.Name)
	}
	for name := range sections {
		t.Errorf("docs/operations.md has a section about %s, which is no alert", name)
	}
}

// TestAlertsAreTested: alerts_test.yaml, which promtool runs, has a firing and
// a silent case for every alert.
func TestAlertsAreTested(t *testing.T) {
	text, err := os.ReadFile("../prometheus/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Alerts() {
		cases := regexp.MustCompile(`alertname: `+a.Name+`\n\s+(exp_alerts: \[\]|exp_alerts:\n)`).FindAllSubmatch(text, -1)
		silent, firing := 0, 0
		for _, c := range cases {
			if bytes.HasSuffix(c[1], []byte("[]")) {
				silent++
			} else {
				firing++
			}
		}
		if silent == 0 || firing == 0 {
			t.Errorf("%s: %d silent and %d firing cases in alerts_test.yaml; want both", a.Name, silent, firing)
		}
	}
}

// TestAnnotationsAreTested: promtool evaluates the query of every annotation, as
// Grafana would send it, on what it must mark and what it must not.
func TestAnnotationsAreTested(t *testing.T) {
	text, err := os.ReadFile("../prometheus/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Queries []struct {
				Expr string `json:"expr"`
			} `json:"promql_expr_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, test := range file.Tests {
		for _, query := range test.Queries {
			tested[query.Expr] = true
		}
	}
	for name, expr := range Annotations() {
		if sent := strings.NewReplacer("$instance", ".*", "$__from", "600000").Replace(expr); !tested[sent] {
			t.Errorf("annotation %q: alerts_test.yaml does not evaluate %s", name, sent)
		}
	}
}

func TestPanels(t *testing.T) {
	for _, d := range Dashboards() {
		titles := map[string]bool{}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				switch {
				case p.Description == "":
					t.Errorf("%s: %q has no description", d.File, p.Title)
				case p.Unit == "" && p.Kind != Timeline && p.Kind != Table:
					t.Errorf("%s: %q has no unit", d.File, p.Title)
				case len(p.Queries)+len(p.Columns) == 0 || p.Width < 4 || p.Width > gridWidth:
					t.Errorf("%s: %q has no query or no width", d.File, p.Title)
				case titles[p.Title]:
					t.Errorf("%s: %q twice", d.File, p.Title)
				}
				titles[p.Title] = true
			}
		}
		laid := d.grafana().Panels
		for i, a := range laid {
			for _, b := range laid[i+1:] {
				if a.GridPos.X < b.GridPos.X+b.GridPos.W && b.GridPos.X < a.GridPos.X+a.GridPos.W &&
					a.GridPos.Y < b.GridPos.Y+b.GridPos.H && b.GridPos.Y < a.GridPos.Y+a.GridPos.H {
					t.Errorf("%s: %q and %q overlap", d.File, a.Title, b.Title)
				}
			}
		}
	}
}

// TestTheFirstTableHasARowAMember: every column of it is one value for each member, and
// says so by that label.
func TestTheFirstTableHasARowAMember(t *testing.T) {
	panels := Dashboards()[0].Rows[0].Panels
	table := panels[len(panels)-1]
	if table.Kind != Table || len(table.Columns) < 8 || table.Columns[0].Title != "State" {
		t.Fatalf("%q is a %s with %d columns", table.Title, table.Kind, len(table.Columns))
	}
	for _, column := range table.Columns {
		if !strings.Contains(column.Expr, "by ("+memberLabel) || !strings.Contains(column.Expr, "CSEL") {
			t.Errorf("column %s: %s", column.Title, column.Expr)
		}
		if column.Runbook != "" && !slices.ContainsFunc(Alerts(), func(a Alert) bool { return a.Name == column.Runbook }) {
			t.Errorf("column %s leads to the runbook of no alert: %s", column.Title, column.Runbook)
		}
	}
}
