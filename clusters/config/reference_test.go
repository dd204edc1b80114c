// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"tributary.dev/tributary/internal/golden"
)

const referencePage = "../../docs/reference/configuration.md"

func TestReferenceIsUpToDate(t *testing.T) {
	golden.File(t, referencePage, []byte(render(t)))
}

// TestReferenceDescribesEveryField: a field without a comment would be an empty
// cell.
func TestReferenceDescribesEveryField(t *testing.T) {
	page := render(t)
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| `") && strings.Contains(line, "|  |") {
			t.Errorf("nothing is said about %s", line)
		}
	}
	for _, want := range []string{"| `name` | text | **required** |", "| `kubeconfig` | text | **required** |", "| `kubeconfig` | text | `\"\"` |", "| `exclude` | list of text | `[\"kube-*\"]` |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestExampleIsValid(t *testing.T) {
	c := mustParse(t, read(t, "testdata/example.yaml"))
	if len(c.Clusters) != 2 {
		t.Errorf("%d members", len(c.Clusters))
	}
}
