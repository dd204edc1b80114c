// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/reconcile/leader"
	"tributary.dev/tributary/syncer"
)

// TestMembersBeforeTheIngressCluster: those that are configured are named while the ingress cluster was not reached, as
// not asked yet, wherever one looks, and not one more once they are.
func TestMembersBeforeTheIngressCluster(t *testing.T) {
	r := New(loadedWith(t, config.Access{}, "clusters: [{name: b, kubeconfig: b, drain: true}, {name: a, kubeconfig: a}]\n"), Options{Path: "f", Logger: slog.New(slog.DiscardHandler)})
	names := func() (all string) {
		for _, c := range r.status().Clusters {
			all += " " + c.Name
			if c.State != "connecting" || c.Up || c.Synced {
				t.Errorf("%+v", c)
			}
		}
		return all
	}
	if got := names(); got != " a b" {
		t.Errorf("members:%s", got)
	}
	if c := r.status().Clusters[0]; !strings.Contains(c.LastError, "the ingress cluster is listed first") {
		t.Errorf("%+v", c)
	}
	if members := r.explain(syncer.Key{Namespace: "shop", Name: "web"}).Members; len(members) != 2 || members[1].Drained == members[0].Drained {
		t.Errorf("explained: %+v", members)
	}
	r.applyMembers()
	if got := names(); got != " a b" {
		t.Errorf("once they are asked:%s", got)
	}
}

// TestNobodyLeads: a process that may not renew its Lease stands by while the Lease still names it, and does not say that it leads.
func TestNobodyLeads(t *testing.T) {
	for holder, want := range map[string]string{"a": "", "b": "b", "": ""} {
		if s := leaderStatus("standby", leader.State{Identity: "a", Holder: holder}); s.State != "standby" || s.Holder != want {
			t.Errorf("held by %q: %+v", holder, s)
		}
	}
	if s := leaderStatus("leading", leader.State{Identity: "a", Holder: "a", Leading: true}); s.Holder != "a" {
		t.Errorf("leading: %+v", s)
	}
}

// TestListsAreNeverNull: programs that read a status find a list where one may be.
func TestListsAreNeverNull(t *testing.T) {
	r := New(loadedWith(t, config.Access{}, noMembers), Options{Path: "f", Logger: slog.New(slog.DiscardHandler)})
	text, err := json.Marshal(r.metrics.Status())
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
}
