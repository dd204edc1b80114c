// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"strings"
	"testing"
)

// TestSnippets: what docs/rules.md and docs/sinks.md show of the configuration is valid, with
// a member where they name none, and in whatever else there is. A snippet that is not for the
// configuration is of another language.
func TestSnippets(t *testing.T) {
	for _, page := range []string{"rules", "sinks"} {
		text, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		snippets := 0
		for i, block := range strings.Split(string(text), "```") {
			snippet, is := strings.CutPrefix(block, "yaml\n")
			if i%2 == 0 || !is || strings.Contains(snippet, "\nkind: ") {
				continue
			}
			snippets++
			if !strings.Contains("\n"+snippet, "\nclusters:") {
				snippet += "clusters: [{name: idc-a, kubeconfig: idc-a.kubeconfig}]\n"
			}
			if _, err := Parse(page+".md", []byte(header+snippet)); err != nil {
				t.Errorf("%v\n%s", err, snippet)
			}
		}
		if snippets == 0 {
			t.Errorf("%s has no snippets", page)
		}
	}
}
