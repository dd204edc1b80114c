// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"fmt"
	"strconv"
)

// Dashboard is a dashboard as this project describes it: rows of panels.
type Dashboard struct {
	// File is the name of the rendered file; UID and Title are Grafana's.
	File, UID, Title string
	Description      string
	Rows             []Row
}

// Row is a headline with panels below it.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel draws.
type Kind string

// The kinds of panels.
const (
	Graph    Kind = "timeseries"
	Number   Kind = "stat"
	Timeline Kind = "state-timeline"
	Heat     Kind = "heatmap"
	// Table has a row for each member; see Panel.Columns.
	Table Kind = "table"
)

// Panel is one panel.
type Panel struct {
	Title, Description string
	Kind               Kind
	// Unit is Grafana's id of the unit: "s", "short", "ops", "bytes", "percentunit".
	Unit string
	// Width is of 24.
	Width   int
	Queries []Query
	// Warn and Bad are thresholds, drawn when Bad is not 0. With Falling a low value
	// is the bad one.
	Warn, Bad float64
	Falling   bool
	// Stack draws areas on top of each other.
	Stack bool
	// Columns are those of a table, in place of Queries.
	Columns []Column
}

// graph draws lines, number the last value, timeline what holds from when to when.
func graph(title, unit string, width int, description string, queries ...Query) Panel {
	return Panel{Kind: Graph, Title: title, Unit: unit, Width: width, Description: description, Queries: queries}
}

func number(title, unit string, width int, description string, queries ...Query) Panel {
	return Panel{Kind: Number, Title: title, Unit: unit, Width: width, Description: description, Queries: queries}
}

func timeline(title string, width int, description string, queries ...Query) Panel {
	return Panel{Kind: Timeline, Title: title, Width: width, Description: description, Queries: queries}
}

// rising is the panel with thresholds from which a value is bad, falling with those below.
func (p Panel) rising(warn, bad float64) Panel {
	p.Warn, p.Bad = warn, bad
	return p
}

func (p Panel) falling(warn, bad float64) Panel {
	p.Falling = true
	return p.rising(warn, bad)
}

func (p Panel) stacked() Panel {
	p.Stack = true
	return p
}

// Column is a column of a table: a query with one value for each member. Where the
// query has a label reason, the column shows that.
type Column struct {
	Title, Unit, Expr string
	// Warn and Bad colour the cell when Bad is not 0.
	Warn, Bad float64
	// Runbook is the alert whose section of docs/operations.md says what to do about this column; empty: none.
	Runbook string
	// Words are what is shown in place of the values 0, 1 and so on.
	Words []string
}

// Query is one PromQL expression of a panel.
type Query struct {
	Expr, Legend string
}

// q makes a query. In expr, SEL stands for the selection of the instance, CSEL
// for that of instance and cluster.
func q(expr, legend string) Query { return Query{expr, legend} }

// selections are put into the queries in place of their names; the value ends
// within braces, so that more matchers can follow.
var selections = map[string]string{
	"CSEL": `instance=~"$instance",member_cluster=~"$cluster"`,
	"SEL":  `instance=~"$instance"`,
}

// quantile is the q-quantile of a histogram of ours over the rate interval.
func quantile(quantile float64, family, matchers, by, legend string) Query {
	return q(fmt.Sprintf("histogram_quantile(%v, sum by (%s, le) (rate(tributary_%s_bucket{%s}[$__rate_interval])))", quantile, by, family, matchers), legend)
}

var datasource = grafanaDatasource{Type: "prometheus", UID: "$datasource"}

const (
	gridWidth  = 24
	numberSize = 4
	graphSize  = 8
)

// grafana lays the rows out on Grafana's grid.
func (d Dashboard) grafana() grafanaDashboard {
	out := grafanaDashboard{
		UID: d.UID, Title: d.Title, Description: d.Description, Tags: []string{"tributary"},
		SchemaVersion: 39, Editable: true, GraphTooltip: 1, Refresh: "30s", Timezone: "utc",
		Time:        map[string]string{"from": "now-1h", "to": "now"},
		Links:       []grafanaLink{{Type: "dashboards", Title: "Tributary", Tags: []string{"tributary"}, IncludeVars: true, KeepTime: true}},
		Annotations: grafanaAnnotations{List: annotations()},
		Templating:  grafanaTemplating{List: variables()},
	}
	id, y := 0, 0
	add := func(p grafanaPanel) {
		id++
		p.ID = id
		out.Panels = append(out.Panels, p)
	}
	for _, row := range d.Rows {
		add(grafanaPanel{Type: "row", Title: row.Title, GridPos: grafanaGridPos{H: 1, W: gridWidth, Y: y}, Collapsed: new(false)})
		y++
		x, height := 0, 0
		for _, panel := range row.Panels {
			if x+panel.Width > gridWidth {
				x, y, height = 0, y+height, 0
			}
			p := panel.grafana()
			p.GridPos.X, p.GridPos.Y = x, y
			add(p)
			x += panel.Width
			height = max(height, p.GridPos.H)
		}
		y += height
	}
	return out
}

func (p Panel) grafana() grafanaPanel {
	field := grafanaField{Unit: p.Unit, Color: map[string]string{"mode": "palette-classic"}}
	out := grafanaPanel{
		Type: string(p.Kind), Title: p.Title, Description: p.Description, Datasource: &datasource,
		GridPos: grafanaGridPos{H: graphSize, W: p.Width},
	}
	for i, column := range p.Columns {
		out.Targets = append(out.Targets, grafanaTarget{
			RefID: string(rune('A' + i)), Datasource: datasource, Expr: Query{Expr: column.Expr}.expanded(), Instant: true, Format: "table",
		})
	}
	for i, query := range p.Queries {
		out.Targets = append(out.Targets, grafanaTarget{
			RefID: string(rune('A' + i)), Datasource: datasource, Expr: query.expanded(), LegendFormat: query.Legend,
		})
	}
	if p.Bad != 0 {
		field.Thresholds = p.thresholds()
	}
	switch p.Kind {
	case Number:
		out.GridPos.H = numberSize
		p.number(&field, &out)
	case Timeline:
		p.timeline(&field, &out)
	case Heat:
		p.heat(&field, &out)
	case Graph:
		p.graph(&field, &out)
	}
	out.FieldConfig = &grafanaFieldConfig{Defaults: field, Overrides: []any{}}
	if p.Kind == Table {
		p.table(&out)
	}
	return out
}

func (p Panel) number(field *grafanaField, out *grafanaPanel) {
	field.Color = map[string]string{"mode": "thresholds"}
	if field.Thresholds == nil {
		field.Thresholds = &grafanaSteps{Mode: "absolute", Steps: []grafanaStep{{Color: "blue"}}}
	}
	out.Options = map[string]any{
		"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "textMode": "value_and_name",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
}

// timeline draws 1 as yes, in green, and 0 as no.
func (p Panel) timeline(field *grafanaField, out *grafanaPanel) {
	field.Color = map[string]string{"mode": "thresholds"}
	field.Custom = map[string]any{"fillOpacity": 70, "lineWidth": 0}
	field.Mappings = []any{map[string]any{"type": "value", "options": map[string]any{
		"0": map[string]any{"text": "no", "color": "red"}, "1": map[string]any{"text": "yes", "color": "green"},
	}}}
	out.Options = map[string]any{"mergeValues": true, "showValue": "never", "rowHeight": 0.8, "legend": map[string]any{"showLegend": false}}
}

// table joins the columns by member. Grafana names the value of query A "Value #A".
func (p Panel) table(out *grafanaPanel) {
	out.GridPos.H = graphSize + 2
	hidden, names, order := map[string]bool{"Time": true}, map[string]string{memberLabel: "Member"}, map[string]int{memberLabel: 0}
	out.FieldConfig.Overrides = []any{override("Member", map[string]any{"id": "links", "value": []any{
		map[string]any{"title": "Changes of ${__value.text}", "url": "${page}/debug/changes?cluster=${__value.text}", "targetBlank": true},
		map[string]any{"title": "Status page", "url": "${page}/", "targetBlank": true},
		map[string]any{"title": "What to type", "url": RunbookPage + "#alerts", "targetBlank": true},
	}})}
	for i, column := range p.Columns {
		value := "Value #" + string(rune('A'+i))
		if column.Unit == "" { // what it says stands in its label
			hidden[value], names["reason"], order["reason"] = true, column.Title, i+1
			continue
		}
		names[value], order[value] = column.Title, i+1
		properties := []any{map[string]any{"id": "unit", "value": column.Unit}}
		if column.Bad != 0 {
			properties = append(properties, map[string]any{"id": "thresholds", "value": Panel{Warn: column.Warn, Bad: column.Bad}.thresholds()},
				map[string]any{"id": "custom.cellOptions", "value": map[string]string{"type": "color-text"}}, map[string]any{"id": "color", "value": map[string]string{"mode": "thresholds"}})
		}
		if column.Runbook != "" {
			properties = append(properties, map[string]any{"id": "links", "value": []any{
				map[string]any{"title": "What to type: " + column.Runbook, "url": runbook(column.Runbook), "targetBlank": true}}})
		}
		if len(column.Words) > 0 {
			words := map[string]any{}
			for value, word := range column.Words {
				words[strconv.Itoa(value)] = map[string]any{"text": word}
			}
			properties = append(properties, map[string]any{"id": "mappings", "value": []any{map[string]any{"type": "value", "options": words}}})
		}
		out.FieldConfig.Overrides = append(out.FieldConfig.Overrides, override(column.Title, properties...))
	}
	out.Transformations = []any{
		map[string]any{"id": "joinByField", "options": map[string]any{"byField": memberLabel, "mode": "outer"}},
		map[string]any{"id": "organize", "options": map[string]any{"excludeByName": hidden, "renameByName": names, "indexByName": order}},
	}
}

// memberLabel is the label that names the member.
const memberLabel = "member_cluster"

func override(column string, properties ...any) any {
	return map[string]any{"matcher": map[string]string{"id": "byName", "options": column}, "properties": properties}
}

func (p Panel) heat(field *grafanaField, out *grafanaPanel) {
	out.Targets[0].Format = "heatmap"
	field.Color = nil
	out.Options = map[string]any{
		"calculate": false, "cellGap": 0, "yAxis": map[string]any{"unit": p.Unit}, "tooltip": map[string]any{"mode": "single", "yHistogram": true},
		"color": map[string]any{"mode": "scheme", "scheme": "Turbo", "steps": 64}, "rowsFrame": map[string]any{"layout": "le"},
	}
}

func (p Panel) graph(field *grafanaField, out *grafanaPanel) {
	field.Min = new(0.0)
	field.Custom = map[string]any{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false}
	if p.Stack {
		field.Custom["stacking"] = map[string]any{"mode": "normal", "group": "A"}
		field.Custom["fillOpacity"] = 30
	}
	if p.Bad != 0 {
		field.Custom["thresholdsStyle"] = map[string]any{"mode": "dashed"}
	}
	out.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"}},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
}

func (p Panel) thresholds() *grafanaSteps {
	if p.Falling {
		return &grafanaSteps{Mode: "absolute", Steps: []grafanaStep{{Color: "red"}, {"orange", new(p.Bad)}, {"green", new(p.Warn)}}}
	}
	return &grafanaSteps{Mode: "absolute", Steps: []grafanaStep{{Color: "green"}, {"orange", new(p.Warn)}, {"red", new(p.Bad)}}}
}

// annotations mark restarts and reloads on every graph. A restart is marked by the
// start time that each process reports: no step of the query misses it, and a pod
// that replaces another, which is a new instance whose start time never changed, is
// marked as well. Processes that started before what is shown are not.
func annotations() []grafanaAnnotation {
	mark := func(name, color, expr, title string) grafanaAnnotation {
		return grafanaAnnotation{
			Name: name, Datasource: datasource, Enable: true, IconColor: color, Step: "30s", TagKeys: "instance",
			Expr: Query{Expr: expr}.expanded(), TitleFormat: title,
		}
	}
	restarts := mark("Restarts", "orange", `process_start_time_seconds{SEL} * 1000 >= $__from and on (instance) tributary_build_info`, "Tributary started")
	restarts.UseValueForTime = true
	return []grafanaAnnotation{
		restarts,
		mark("Reloads", "blue", `changes(tributary_config_reloads_total{SEL,result="ok"}[1m]) > 0`, "Configuration reloaded"),
		mark("Refused reloads", "red", `changes(tributary_config_reloads_total{SEL,result="refused"}[1m]) > 0`, "Configuration refused"),
	}
}

// Annotations returns the query of each annotation, by name.
func Annotations() map[string]string {
	all := map[string]string{}
	for _, a := range annotations() {
		all[a.Name] = a.Expr
	}
	return all
}

func variables() []grafanaVariable {
	all := map[string]any{"text": "All", "value": "$__all"}
	list := func(name, label, query string) grafanaVariable {
		return grafanaVariable{
			Name: name, Label: label, Type: "query", Datasource: &datasource, Query: query,
			Refresh: 2, Sort: 1, Multi: true, IncludeAll: true, AllValue: ".*", Current: all,
		}
	}
	return []grafanaVariable{
		{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Current: map[string]any{}},
		list("instance", "Instance", "label_values(tributary_build_info, instance)"),
		{Name: "page", Label: "Page of the instance", Type: "textbox", Query: "http://127.0.0.1:9440", Current: map[string]any{"text": "http://127.0.0.1:9440", "value": "http://127.0.0.1:9440"}},
		list("cluster", "Cluster", `label_values(tributary_cluster_up{instance=~"$instance"}, member_cluster)`),
	}
}
