// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mixin reads what an operator's Prometheus and Grafana load, the alerts and the dashboards, so that tests can judge
// them. They are the files of the chart (deploy/helm/tributary/files), each of them once in the tree, and written by hand: Helm
// packages no file from outside of a chart.
//
// Its tests compare every query with the table of families, and every alert with its section in docs/operations.md; `make
// mixin` asks a real Prometheus. It is not part of the tributary binary.
package mixin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Alert is an alerting rule in Prometheus' form.
type Alert struct {
	Name        string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Alerts reads the rules of alerts.yaml in the directory of the chart's files.
func Alerts(files string) ([]Alert, error) {
	path := filepath.Join(files, "alerts.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rules struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []Alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &rules); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rules.Groups) != 1 {
		return nil, fmt.Errorf("%s: %d groups of rules, want one", path, len(rules.Groups))
	}
	return rules.Groups[0].Rules, nil
}

// Dashboard is the part of a Grafana dashboard that can be judged without Grafana. Names are Grafana's.
type Dashboard struct {
	// File is the name of the file it was read from.
	File        string `json:"-"`
	UID         string `json:"uid"`
	Title       string `json:"title"`
	Annotations struct {
		List []Annotation `json:"list"`
	} `json:"annotations"`
	Panels []Panel `json:"panels"`
}

// Annotation marks moments on every graph: Expr says when.
type Annotation struct {
	Name string `json:"name"`
	Expr string `json:"expr"`
}

// Panel is a panel, or with Type "row" a headline.
type Panel struct {
	ID          int      `json:"id"`
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	GridPos     GridPos  `json:"gridPos"`
	Targets     []Target `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
		Overrides []Override `json:"overrides"`
	} `json:"fieldConfig"`
	Transformations []struct {
		ID      string `json:"id"`
		Options struct {
			// RenameByName has the title of each column of a table.
			RenameByName map[string]string `json:"renameByName"`
		} `json:"options"`
	} `json:"transformations"`
}

// GridPos is where a panel is on a grid 24 columns wide.
type GridPos struct{ H, W, X, Y int }

// Target is one query.
type Target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// Override says how a table shows one column.
type Override struct {
	Matcher    struct{ Options string } `json:"matcher"`
	Properties []struct {
		ID    string          `json:"id"`
		Value json.RawMessage `json:"value"`
	} `json:"properties"`
}

// Dashboards reads those in the directory of the chart's files, by the order of their names.
func Dashboards(files string) ([]Dashboard, error) {
	paths, err := filepath.Glob(filepath.Join(files, "dashboards", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Dashboard
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		d := Dashboard{File: filepath.Base(path)}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, d)
	}
	return all, nil
}
