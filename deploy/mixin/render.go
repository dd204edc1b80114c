// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// expanded puts the selections into a query.
func (q Query) expanded() string {
	expr := q.Expr
	// Longest first: SEL is part of CSEL.
	for _, name := range slices.SortedFunc(maps.Keys(selections), func(a, b string) int { return len(b) - len(a) }) {
		expr = strings.ReplaceAll(expr, name, selections[name])
	}
	return expr
}

// Expressions returns every query of the dashboard as Grafana would send it,
// its variables aside, by panel title.
func (d Dashboard) Expressions() map[string][]string {
	all := map[string][]string{}
	for _, row := range d.Rows {
		for _, panel := range row.Panels {
			for _, query := range panel.Queries {
				all[panel.Title] = append(all[panel.Title], query.expanded())
			}
			for _, column := range panel.Columns {
				all[panel.Title] = append(all[panel.Title], Query{Expr: column.Expr}.expanded())
			}
		}
	}
	return all
}

// rule is an alerting rule in Prometheus' form.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func ruleGroups() map[string]any {
	var rules []rule
	for _, a := range Alerts() {
		rules = append(rules, rule{
			Alert: a.Name, Expr: a.Expr, For: a.For, Labels: map[string]string{"severity": string(a.Severity)},
			Annotations: map[string]string{"summary": a.Summary, "description": a.Description, "runbook_url": a.RunbookURL()},
		})
	}
	return map[string]any{"groups": []any{map[string]any{"name": Group, "rules": rules}}}
}

// The forms of a plain Prometheus' configuration. Two, because each major version
// refuses the other's word for what keeps classic histograms.
const (
	ScrapeForm  = "prometheus/scrape.yaml"
	ScrapeForm2 = "prometheus/scrape-2.yaml"
)

// scrapeConfig is the part of a plain Prometheus' configuration that concerns
// Tributary on the same host. Version 3 scrapes native histograms where its global
// section says so, and must keep the classic ones even then.
func scrapeConfig(version int) map[string]any {
	job := map[string]any{
		"job_name": "tributary", "scrape_interval": "15s",
		"static_configs": []any{map[string]any{"targets": []string{"127.0.0.1:9440"}}},
	}
	if version >= 3 {
		job["always_scrape_classic_histograms"] = true
	}
	return map[string]any{"rule_files": []string{"alerts.yaml"}, "scrape_configs": []any{job}}
}

// remarks say of a rendered file what it is for, where its name does not.
var remarks = map[string]string{
	ScrapeForm: "# For Prometheus 3 and later; scrape-2.yaml is for those before it.\n",
	ScrapeForm2: "# For Prometheus before 3, as in Debian 12. With --enable-feature=native-histograms (2.45 and later) add\n" +
		"# scrape_classic_histograms: true to the job: dashboards and alerts read the classic ones.\n",
}

// chartFiles is where the chart has copies of its own: Helm packages no file from outside of a chart.
const chartFiles = "helm/tributary/files/"

// Files returns the rendered files by their path below deploy/.
func Files() (map[string][]byte, error) {
	const note = "# Made by deploy/mixin (go test ./deploy/... -update); do not edit.\n"
	files := map[string][]byte{}
	for path, object := range map[string]any{
		"prometheus/alerts.yaml":   ruleGroups(),
		chartFiles + "alerts.yaml": ruleGroups(),
		ScrapeForm:                 scrapeConfig(3),
		ScrapeForm2:                scrapeConfig(2),
	} {
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", path, err)
		}
		files[path] = append([]byte(note+remarks[path]), text...)
	}
	for _, d := range Dashboards() {
		text, err := marshalPlain(d.grafana())
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", d.File, err)
		}
		files["dashboards/"+d.File] = text
		files[chartFiles+"dashboards/"+d.File] = text
	}
	return files, nil
}

// marshalPlain leaves <, > and & readable: they are part of queries.
func marshalPlain(v any) ([]byte, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(v)
	return []byte(b.String()), err
}
