// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// configuration is the line of the values' schema that has that of the configuration file: Helm follows no reference to
// another file.
var configuration = regexp.MustCompile(`(?m)^    "configuration": .*$`)

// TestValuesHaveTheConfigurationsSchema: what the configuration's schema refuses Helm does, before anything is applied.
func TestValuesHaveTheConfigurationsSchema(t *testing.T) {
	const path = "tributary/values.schema.json"
	var schema map[string]any
	text, err := os.ReadFile("../schema/config.v1alpha1.json")
	if err == nil {
		err = json.Unmarshal(text, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"$schema", "title", "required"} { // the chart adds apiVersion and kind
		delete(schema, field)
	}
	bare(schema)
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(schema); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := configuration.ReplaceAllLiteral(got, append([]byte(`    "configuration": `), bytes.TrimSpace(line.Bytes())...))
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(got, want) {
		t.Errorf("%s has not the configuration's schema; run: make generate", path)
	}
}

// bare removes what a schema says to people.
func bare(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		for _, field := range []string{"description", "default"} {
			if _, property := s[field].(map[string]any); !property {
				delete(s, field)
			}
		}
		for _, of := range s {
			bare(of)
		}
	case []any:
		for _, of := range s {
			bare(of)
		}
	}
}

// TestConfigurationIsChecked by Helm, field by field.
func TestConfigurationIsChecked(t *testing.T) {
	for name, config := range map[string]string{
		"an unknown field":      "cluster: []",
		"one of a member":       "clusterDefaults: {drian: true}",
		"a list without value":  "replicas: {write: null}",
		"receivers, no value":   "sinks: null",
		"no namespaces":         "ingress: {namespaces: null}",
		"no length of time":     "leaderElection: {leaseDuration: 10}",
		"a text of another set": "replicas: {orphans: both}",
		"a name as a number":    "instance: 12",
		"a member without name": "clusters: [{kubeconfig: a}]",
	} {
		if _, err := ingress("config:\n  " + config).render(); err == nil {
			t.Errorf("%s: %q is accepted", name, config)
		}
	}
}
