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
	if core.Settle(now, of); len(of.Actions) != 1 {
		t.Fatalf("%d actions, want the namespace", len(of.Actions))
	}
	core.Done(of)
	core.Add(now, web, plan.Addition)
	of = core.Begin(now)
	core.Decide(of)
	if granted, _ := core.Request(now); granted == nil || len(of.Actions) != 1 {
		t.Fatalf("granted %v, %d actions", granted, len(of.Actions))
	}
	if core.Settle(now, of); len(of.Actions) != 0 {
		t.Error("it counts on what is under way")
	}
	core.Done(of)
	of = core.Begin(now)
	if core.Decide(of); of == nil || len(of.Actions) != 0 {
		t.Errorf("compared again: %+v", of)
	}
}
