// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/inventory"
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

// TestWhoIsInPanic: a panic stays on record until its member was read whole, and is in none.
func TestWhoIsInPanic(t *testing.T) {
	member := func(synced, panics bool) clusters.Status {
		m := clusters.Status{ClusterStatus: metrics.ClusterStatus{Name: "a", Synced: synced}}
		if panics {
			m.PanicAt = time.Unix(5, 0)
		}
		return m
	}
	for name, c := range map[string]struct {
		recorded bool
		members  []clusters.Status
		want     bool
	}{
		"it begins":                      {false, []clusters.Status{member(true, true)}, true},
		"it goes on":                     {true, []clusters.Status{member(true, true)}, true},
		"it ends":                        {true, []clusters.Status{member(true, false)}, false},
		"before the member was asked":    {true, []clusters.Status{member(false, false)}, true},
		"before the member was made":     {true, nil, true},
		"none, before it was read whole": {false, []clusters.Status{member(false, false)}, false},
	} {
		recorded := map[string]time.Time{}
		if c.recorded {
			recorded["a"] = time.Unix(3, 0)
		}
		if got := panics(recorded, c.members, func(string) bool { return true }); slices.Contains(slices.Collect(maps.Keys(got)), "a") != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := panics(map[string]time.Time{"gone": time.Unix(3, 0)}, nil, func(string) bool { return false }); len(got) != 0 {
		t.Errorf("a member that left the configuration: %v", got)
	}
}

// TestPanicOnRecordIsRead before any member is told what stands of it.
func TestPanicOnRecordIsRead(t *testing.T) {
	r := New(loadedWith(t, config.Access{}, "clusters: [{name: a, kubeconfig: a}, {name: b, kubeconfig: b}]\n"), Options{Path: "f", Logger: slog.New(slog.DiscardHandler)})
	r.readIdentities(t.Context(), &ingressSession{known: inventory.Inventory{Panics: map[string]time.Time{"a": time.Unix(3, 0)}}})
	if r.panicAt("a") != time.Unix(3, 0) || !r.panicAt("b").IsZero() {
		t.Errorf("in panic since: a %v, b %v", r.panicAt("a"), r.panicAt("b"))
	}
}
