// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"log/slog"
	"testing"

	"tributary.dev/tributary/clusters/config"
)

// When the configuration was taken last is no news of a file that was refused, or of a
// kubeconfig beside it.
func TestRefusedConfigurationIsNotTaken(t *testing.T) {
	first := loadedWith(t, config.Access{}, noMembers)
	r := New(first, Options{Path: "f", Logger: slog.New(slog.DiscardHandler)})
	taken := r.status().Config.LoadedAt
	again := loadedWith(t, config.Access{}, noMembers)
	r.apply(config.Update{Loaded: again, Diff: config.Compare(first, again), Reloaded: true, Err: errors.New("unknown field")})
	r.apply(config.Update{Loaded: loadedWith(t, config.Access{}, noMembers), Err: errors.New("unknown field")})
	s := r.status().Config
	if !s.LoadedAt.Equal(taken) || s.Error == "" {
		t.Errorf("taken at %v with error %q, want %v and an error", s.LoadedAt, s.Error, taken)
	}
	r.apply(config.Update{Loaded: first, Reloaded: true})
	if s := r.status().Config; !s.LoadedAt.After(taken) || s.Error != "" {
		t.Errorf("taken at %v with error %q, want later than %v and none", s.LoadedAt, s.Error, taken)
	}
}

// A member that is taken out before the ingress cluster was ever reached leaves no
// series behind.
func TestMemberTakenOutBeforeTheStartLeavesNoSeries(t *testing.T) {
	both := loadedWith(t, config.Access{}, "clusters: [{name: a, kubeconfig: a}, {name: b, kubeconfig: b}]\n")
	r := New(both, Options{Path: "f", Logger: slog.New(slog.DiscardHandler)})
	series := func(cluster string) (n int) {
		families, err := r.metrics.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if label.GetName() == "member_cluster" && label.GetValue() == cluster {
						n++
					}
				}
			}
		}
		return n
	}
	if series("b") == 0 {
		t.Fatal("a member that is configured has no series")
	}
	r.edit(loadedWith(t, config.Access{}, "clusters: [{name: a, kubeconfig: a}]\n"))
	if series("a") == 0 || series("b") != 0 {
		t.Errorf("a has %d series, b, which is not configured any more, %d", series("a"), series("b"))
	}
}
