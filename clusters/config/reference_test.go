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
	if len(c.Clusters) != 2 || c.Warnings() != nil {
		t.Errorf("%d members, warnings %v", len(c.Clusters), c.Warnings())
	}
}

func TestWarnings(t *testing.T) {
	c := mustParse(t, header+`
clusters:
- {name: a, kubeconfig: dir/../k}
- {name: b, kubeconfig: k, context: x}
- {name: c, kubeconfig: k}
`)
	got := c.Warnings().Error()
	want := "clusters[2].kubeconfig: is the kubeconfig and context of clusters[0] too: their Services are taken twice; remove one of the two"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
