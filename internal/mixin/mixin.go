// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mixin reads what an operator's Prometheus and Grafana load, the alerts and the dashboards, so that tests can judge
// them. They are the files of the chart (deploy/helm/tributary/files), each of them once in the tree, and written by hand: Helm
// packages no file from outside of a chart.
//
// Its tests compare every query with the table of families, and every alert with its section in docs/operations.md; `make
// mixin` asks a real Prometheus.
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
	Title       string
	Annotations struct {
		// List marks moments on every graph: Expr says when.
		List []struct{ Name, Expr string }
	}
	Panels []Panel
}

// Panel is a panel, or with Type "row" a headline. GridPos is where it is, on a grid 24 columns wide.
type Panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct{ RefID, Expr string }
	FieldConfig              struct {
		Defaults  struct{ Unit string }
		Overrides []struct {
			Matcher    struct{ Options string }
			Properties []struct {
				ID    string
				Value json.RawMessage
			}
		}
	}
	Transformations []struct {
		Options struct {
			// RenameByName has the title of each column of a table.
			RenameByName map[string]string
		}
	}
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
