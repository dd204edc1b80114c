// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"tributary.dev/tributary/clusters/config"
)

// TestMembersOfUnreadSecretsAreShown: a process that goes on without the Secrets of members shows those that stand as
// silent, and that its configuration is not all in force.
func TestMembersOfUnreadSecretsAreShown(t *testing.T) {
	f := newFront(t)
	f.left(t, "web", "b")
	loaded := loadedWith(t, f.access("good"), noMembers+"clustersFrom: {secrets: {namespace: own}}\n")
	loaded.SecretsUnread = true
	r := New(loaded, Options{Path: "f", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	r.noteUnread(errors.New("it hangs"))
	if s := r.status(); s.Config.Error != "" {
		t.Errorf("before anything was asked: %s", s.Config.Error)
	}
	r.secretsReadOnce.Do(func() { close(r.secretsRead) }) // as after readyAfter
	runs(t, r)
	until(t, "what stands is listed", func() bool { return r.begun.Load() && r.ingress.Load().reconciler.Owned() == 1 })
	s := r.status()
	if len(s.Clusters) != 1 || s.Clusters[0].Name != "b" || s.Clusters[0].State != "silent" || s.Clusters[0].Reason == "" || s.Clusters[0].Up {
		t.Errorf("%+v", s.Clusters)
	}
	for _, word := range []string{"clustersFrom.secrets", "namespace own", "it hangs", "grant list and watch"} {
		if !strings.Contains(s.Config.Error, word) {
			t.Errorf("%q lacks %q", s.Config.Error, word)
		}
	}
	read := loadedWith(t, f.access("good"), noMembers+"clustersFrom: {secrets: {namespace: own}}\n")
	r.edit(read)
	if s := r.status(); len(s.Clusters) != 0 || s.Config.Error != "" {
		t.Errorf("once they are read: %+v, %s", s.Clusters, s.Config.Error)
	}
}

// TestRefusedSettingsAreShown: beside the state of the member.
func TestRefusedSettingsAreShown(t *testing.T) {
	loaded := loadedWith(t, config.Access{}, noMembers)
	loaded.SecretFaults = config.Faults{{File: "Secret own/b", Field: "tributary.dev/drian", Message: "unknown field"}}
	r := New(loaded, Options{Path: "f", Logger: slog.New(slog.DiscardHandler)})
	if got := r.status().Config.Error; got != loaded.SecretFaults.Error() {
		t.Errorf("%q", got)
	}
}
