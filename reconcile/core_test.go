// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// TestOvertaken: a comparison does not count on an object whose request has begun since.
func TestOvertaken(t *testing.T) {
	g := &ground{settings: Settings{Settings: plan.Settings{CreateNamespaces: true}, MayWrite: func(string) bool { return true }}}
	g.shares = map[syncer.Key]map[string]plan.Share{web: {"a": {Member: "a", Listed: true, Given: contribution(web, "1", 8080)}}}
	core, now := NewCore(g, cache.New(cache.Options{}), nil), time.Now()
	defer core.ShutDown()
	core.Lead(now, true)
	of := core.Begin(now)
	core.Decide(of)
	if _, _, again := core.Settle(now, of); again || len(of.Actions) != 1 {
		t.Fatalf("again %t, %d actions, want the namespace", again, len(of.Actions))
	}
	core.Done(of)
	core.Add(now, web, plan.Addition)
	of = core.Begin(now)
	core.Decide(of)
	if granted, _ := core.Request(now); granted == nil || len(of.Actions) != 1 {
		t.Fatalf("granted %v, %d actions", granted, len(of.Actions))
	}
	if _, _, again := core.Settle(now, of); !again {
		t.Error("it counts on what is under way")
	}
	core.Decide(of)
	if _, _, again := core.Settle(now, of); again || len(of.Actions) != 0 {
		t.Errorf("again %t, actions %v", again, of.Actions)
	}
	core.Done(of)
}
