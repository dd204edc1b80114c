// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented reads the table of docs/operations.md under a heading: "verb resource" for each right.
func documented(t *testing.T, heading string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| "+heading+" |")
	if !found {
		t.Fatalf("no table of each %s", heading)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rights := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z,]+)` ([a-z/, ]+?) \\|").FindAllStringSubmatch(table, -1) {
		for verb := range strings.SplitSeq(row[1], ",") {
			for resource := range strings.SplitSeq(row[2], ", ") {
				rights[verb+" "+resource] = true
			}
		}
	}
	return rights
}

// TestRightsAreDocumented: docs/operations.md has each right that a chart grants in any mode, and no other.
func TestRightsAreDocumented(t *testing.T) {
	member := func(values string) release {
		return release{chart: "tributary-member", name: "tributary-member", namespace: "tributary-system", values: values}
	}
	for heading, modes := range map[string][]release{
		"right in a member": {member(""), member("namespaces: [shop]")},
		"right in the ingress cluster": {
			ingress(""), ingress("openshift: true"), ingress("config: {clusters: [], ingress: {namespaces: [shop]}, clustersFrom: {secrets: {}}}"),
		},
	} {
		granted := map[string]bool{}
		for _, mode := range modes {
			for _, grant := range grants(objects(t, mustRender(t, mode))) {
				_, grant, _ = strings.Cut(grant, ": ")
				verbs, resources, _ := strings.Cut(grant, " ")
				for verb := range strings.SplitSeq(verbs, ",") {
					for resource := range strings.SplitSeq(resources, ",") {
						granted[verb+" "+resource] = true
					}
				}
			}
		}
		if got := documented(t, heading); !maps.Equal(got, granted) {
			t.Errorf("each %s: granted\n%q\ndocumented\n%q", heading, slices.Sorted(maps.Keys(granted)), slices.Sorted(maps.Keys(got)))
		}
	}
}
