// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

// The part of Grafana's dashboard JSON that is used here (schema 39, Grafana
// 10 and newer). Field names are Grafana's.

type grafanaDashboard struct {
	UID           string             `json:"uid"`
	Title         string             `json:"title"`
	Description   string             `json:"description"`
	Tags          []string           `json:"tags"`
	SchemaVersion int                `json:"schemaVersion"`
	Editable      bool               `json:"editable"`
	GraphTooltip  int                `json:"graphTooltip"`
	Refresh       string             `json:"refresh"`
	Timezone      string             `json:"timezone"`
	Time          map[string]string  `json:"time"`
	Links         []grafanaLink      `json:"links"`
	Annotations   grafanaAnnotations `json:"annotations"`
	Templating    grafanaTemplating  `json:"templating"`
	Panels        []grafanaPanel     `json:"panels"`
}

type grafanaLink struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

type grafanaAnnotations struct {
	List []grafanaAnnotation `json:"list"`
}

type grafanaAnnotation struct {
	Name        string            `json:"name"`
	Datasource  grafanaDatasource `json:"datasource"`
	Enable      bool              `json:"enable"`
	IconColor   string            `json:"iconColor"`
	Expr        string            `json:"expr"`
	Step        string            `json:"step"`
	TitleFormat string            `json:"titleFormat"`
	TagKeys     string            `json:"tagKeys"`
	// UseValueForTime takes the value of the query, in milliseconds, for the moment
	// to mark, in place of the times at which it has a value.
	UseValueForTime bool `json:"useValueForTime"`
}

type grafanaDatasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type grafanaTemplating struct {
	List []grafanaVariable `json:"list"`
}

type grafanaVariable struct {
	Name       string             `json:"name"`
	Label      string             `json:"label"`
	Type       string             `json:"type"`
	Datasource *grafanaDatasource `json:"datasource,omitempty"`
	Query      string             `json:"query"`
	Refresh    int                `json:"refresh,omitempty"`
	Sort       int                `json:"sort,omitempty"`
	Multi      bool               `json:"multi,omitempty"`
	IncludeAll bool               `json:"includeAll,omitempty"`
	AllValue   string             `json:"allValue,omitempty"`
	Current    map[string]any     `json:"current"`
}

type grafanaPanel struct {
	ID          int                 `json:"id"`
	Type        string              `json:"type"`
	Title       string              `json:"title"`
	Description string              `json:"description,omitempty"`
	Datasource  *grafanaDatasource  `json:"datasource,omitempty"`
	GridPos     grafanaGridPos      `json:"gridPos"`
	Targets     []grafanaTarget     `json:"targets,omitempty"`
	FieldConfig *grafanaFieldConfig `json:"fieldConfig,omitempty"`
	Options     map[string]any      `json:"options,omitempty"`
	// Transformations are what Grafana does to the answers before it draws them.
	Transformations []any `json:"transformations,omitempty"`
	Collapsed       *bool `json:"collapsed,omitempty"`
}

type grafanaGridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type grafanaTarget struct {
	RefID        string            `json:"refId"`
	Datasource   grafanaDatasource `json:"datasource"`
	Expr         string            `json:"expr"`
	LegendFormat string            `json:"legendFormat"`
	Instant      bool              `json:"instant,omitempty"`
	Format       string            `json:"format,omitempty"`
}

type grafanaFieldConfig struct {
	Defaults  grafanaField `json:"defaults"`
	Overrides []any        `json:"overrides"`
}

type grafanaField struct {
	Unit       string            `json:"unit,omitempty"`
	Min        *float64          `json:"min,omitempty"`
	Max        *float64          `json:"max,omitempty"`
	NoValue    string            `json:"noValue,omitempty"`
	Color      map[string]string `json:"color,omitempty"`
	Thresholds *grafanaSteps     `json:"thresholds,omitempty"`
	Custom     map[string]any    `json:"custom,omitempty"`
	Mappings   []any             `json:"mappings,omitempty"`
}

type grafanaSteps struct {
	Mode  string        `json:"mode"`
	Steps []grafanaStep `json:"steps"`
}

type grafanaStep struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}
