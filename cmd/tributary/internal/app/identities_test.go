// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"tributary.dev/tributary/clusters/config"
)

// TestAcceptIngress: what check says of the ingress cluster's identity is what run goes by.
func TestAcceptIngress(t *testing.T) {
	for name, c := range map[string]struct {
		expected, identity, recorded string
		want                         bool
	}{
		"the first that answers":              {"", "1", "", true},
		"may not be asked, and nobody asks":   {"", "", "", true},
		"as recorded":                         {"", "1", "1", true},
		"may not be asked, though recorded":   {"", "", "1", true},
		"another than is recorded":            {"", "2", "1", false},
		"as pinned":                           {"1", "1", "", true},
		"as pinned, against what is recorded": {"2", "2", "1", true},
		"another than is pinned":              {"1", "2", "", false},
		"pinned, and may not be asked":        {"1", "", "1", false},
	} {
		if err := acceptIngress(&config.Config{}, c.expected, c.identity, c.recorded); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
