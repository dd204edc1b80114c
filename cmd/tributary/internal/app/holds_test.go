// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

func TestHeldChanges(t *testing.T) {
	at := time.Unix(1000, 0)
	got := heldChanges(&clusters.Status{ClusterStatus: metrics.ClusterStatus{Name: "idc-a"}, Holds: []clusters.Hold{
		{Reason: evidence.HoldPanic, Message: "41 pods", Since: at},
		{Replica: syncer.Key{Namespace: "shop", Name: "web"}, Reason: evidence.HoldList, Message: "3 pods", Since: at, Confirming: true},
	}})
	want := []metrics.HeldChange{
		{Cluster: "idc-a", Reason: "mass_not_ready", Message: "41 pods", Since: at.UTC(), Release: "tributary release --cluster idc-a"},
		{Cluster: "idc-a", Namespace: "shop", Service: "web", Reason: "list_shrank", Message: "3 pods; it is being asked for", Since: at.UTC(), Release: "tributary release --cluster idc-a --service shop/web"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestStateText(t *testing.T) {
	if got := stateText("live", "ChangesHeld"); !strings.Contains(got, "live, Ch") || stateText("live", "") != "live" {
		t.Errorf("state %q", got)
	}
}

// TestReleaseHintsAreQuoted: a hint is pasted into a shell, and names may be a member's.
func TestReleaseHintsAreQuoted(t *testing.T) {
	for cluster, want := range map[string]string{
		"idc-a":       "tributary release --cluster idc-a",
		"":            "tributary release --cluster ''",
		"a b":         "tributary release --cluster 'a b'",
		"$(reboot)":   "tributary release --cluster '$(reboot)'",
		"x;reboot":    "tributary release --cluster 'x;reboot'",
		"`reboot`":    "tributary release --cluster '`reboot`'",
		"it's\nodd":   "tributary release --cluster 'it'\\''s\nodd'",
		"a'; reboot'": `tributary release --cluster 'a'\''; reboot'\'''`,
	} {
		if got := releaseHint(cluster, clusters.Hold{}); got != want {
			t.Errorf("%q: %s, want %s", cluster, got, want)
		}
		if out, err := exec.Command("sh", "-c", "printf %s "+Quoted(cluster)).Output(); err != nil || string(out) != cluster {
			t.Errorf("%q comes out of a shell as %q (%v)", cluster, out, err)
		}
	}
	hostile := releaseHint("idc-a", clusters.Hold{Replica: syncer.Key{Namespace: "shop", Name: "a&b"}})
	if hostile != "tributary release --cluster idc-a --service 'shop/a&b'" {
		t.Error(hostile)
	}
}
