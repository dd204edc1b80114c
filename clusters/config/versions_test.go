// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestFormerVersionsAreRead: a file that a version of this apiVersion took is taken by all that follow, and no field of
// it has lost its effect: each is still of the types, so that it decodes and leaves no fault.
func TestFormerVersionsAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/versions/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(path, text); err != nil {
			t.Errorf("%s is refused: %v", path, err)
		}
		var fields map[string]any
		if err := yaml.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			without := strings.Replace(string(text), "\n"+name+":", "\nunknown-"+name+":", 1)
			if _, err := Parse(path, []byte(without)); err == nil {
				t.Errorf("%s: %s could be left out and nobody would know", path, name)
			}
		}
	}
}
