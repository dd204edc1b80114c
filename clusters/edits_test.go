// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/syncer"
)

// Who looks while a configuration takes the place of another sees all of the one or all of
// the other: here a member gets another name and orphans are to be deleted, in one edit.
func TestAnEditIsOneStep(t *testing.T) {
	load := func(member string, orphans config.Orphans) *config.Loaded {
		loaded := &config.Loaded{Members: map[string]config.Access{}}
		loaded.Config.Clusters = []config.Cluster{{Name: member}}
		loaded.Config.Replicas.Orphans = orphans
		return loaded
	}
	before, after := load("idc-a", config.OrphansKeep), load("idc-b", config.OrphansDelete)
	looked := make(chan Snapshot, 1)
	var s *Set
	s = NewSet(Options{Pinned: func(member string) string {
		if member != "idc-b" {
			return ""
		}
		// Now idc-a is gone, and idc-b not there yet; settings are those of before, and
		// nobody waits for them.
		if s.Loaded() != before {
			t.Error("the settings are ahead of the members")
		}
		go func() { looked <- s.Peek(syncer.Key{Namespace: "shop", Name: "web"}) }()
		select {
		case early := <-looked:
			looked <- early
		case <-time.After(50 * time.Millisecond):
		}
		return ""
	}})
	s.Apply(before)
	s.Apply(after)
	got := <-looked
	if got.Loaded != after || len(got.Members) != 1 || got.Members[0].Name != "idc-b" || got.Members[0].Synced {
		t.Errorf("seen in the middle of the edit: members %+v, the new configuration %v", got.Members, got.Loaded == after)
	}
	if got = s.Peek(syncer.Key{}); got.Loaded != after {
		t.Error("the configuration is not told")
	}
}
