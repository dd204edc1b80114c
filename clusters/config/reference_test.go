// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated files anew")

const referencePage = "../../docs/reference/configuration.md"

func TestReferenceIsUpToDate(t *testing.T) {
	want := render(t)
	if *update {
		if err := os.WriteFile(referencePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, referencePage)
	if got == want {
		return
	}
	wanted := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wanted) || line != wanted[i] {
			t.Fatalf("docs/reference/configuration.md:%d is not what the types say; run: go test ./clusters/config -update", i+1)
		}
	}
	t.Fatal("docs/reference/configuration.md is cut off; run: go test ./clusters/config -update")
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
