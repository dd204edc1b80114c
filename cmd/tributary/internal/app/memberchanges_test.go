// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"testing"
)

// A member that left the configuration and comes back is announced as any other when
// it has been seen whole: without that, what it left behind would stay for ever. It
// leaves in the same edit that makes another one tell of a change.
func TestMemberThatComesBackIsAnnounced(t *testing.T) {
	f := newFront(t)
	a, b := emptyMember(t), emptyMember(t)
	loaded := loadedWith(t, f.access("good"), "clusters: [{name: a, kubeconfig: a}, {name: b, kubeconfig: b}]\n")
	loaded.Members["a"], loaded.Members["b"] = a, b
	r := replicating(t, loaded)
	allSeen := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.announced["a"].Synced && r.announced["b"].Synced
	}
	until(t, "both are seen", allSeen)

	without := loadedWith(t, f.access("good"), "clusters: [{name: a, kubeconfig: a}]\n")
	a.Err = errors.New("half-written")
	without.Members["a"] = a
	r.edit(without)
	if allSeen() {
		t.Error("b counts as seen although it is not configured")
	}
	f.left(t, "web", "b")
	until(t, "it is listed", func() bool { return r.ingress.Load().reconciler.Owned() == 1 })

	r.edit(loaded)
	until(t, "b makes way for what it has lost", func() bool { return !f.stands("web") })
}
