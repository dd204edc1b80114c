// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
)

// identified runs a record of identities before the server of the ground.
func (g *ground) identified(p *process) (i *Identities, changed func() []string, stop func()) {
	var mu sync.Mutex
	var members []string
	i = NewIdentities(p.access, p, "own", "default", func(member string) {
		mu.Lock()
		defer mu.Unlock()
		members = append(members, member)
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(g.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Run(ctx) }()
	changed = func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := members
		members = nil
		return out
	}
	return i, changed, func() { cancel(); <-ended }
}

func (g *ground) record() map[string]string {
	record, _ := apitest.Get[*corev1.ConfigMap](g.server, "own", "tributary-identities.default")
	if record == nil {
		return nil
	}
	return record.Data
}

// The leader records what is found, once; a standby believes the record; after a line is removed
// the cluster that is found next is accepted, and no other process writes the old line again.
func TestIdentities(t *testing.T) {
	play(t, func(g *ground) {
		g.server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "own"}})
		i, changed, stop := g.identified(g.process)
		standby := g.start()
		standby.revoke()
		j, changedThere, stopThere := g.identified(standby)
		if err, uid := i.Wait(g.t.Context()), i.Known("a"); uid != "" || err != nil {
			t.Errorf("known by %q, %v", uid, err)
		}
		j.Found("a", "uid-a")
		g.pass(time.Minute)
		if record := g.record(); record != nil {
			t.Errorf("the standby wrote %v", record)
		}
		i.Found("a", "uid-a")
		i.Found("b", "uid-b")
		g.pass(identitiesEvery)
		want := map[string]string{"a": "uid-a", "b": "uid-b"}
		if record := g.record(); !maps.Equal(record, want) {
			t.Errorf("on record: %v", record)
		}
		g.pass(identitiesEvery)
		i.Found("a", "uid-x")
		g.quiet(time.Minute)
		if uid := j.Known("b"); uid != "uid-b" {
			t.Errorf("a standby knows b by %q", uid)
		}
		apitest.Edit(t, g.server, "own", "tributary-identities.default", func(m *corev1.ConfigMap) { delete(m.Data, "a") })
		g.quiet(identitiesEvery)
		if a, b := changed(), changedThere(); !slices.Equal(a, []string{"a"}) || !slices.Equal(b, []string{"a"}) {
			t.Errorf("accepted anew: %q and %q", a, b)
		}
		i.Found("a", "uid-x")
		g.pass(identitiesEvery)
		if record := g.record(); record["a"] != "uid-x" || record["b"] != "uid-b" {
			t.Errorf("on record: %v", record)
		}
		stopThere()
		stop()
		standby.stop()
	})
}

// Without rights nothing is recorded, and nobody waits for it; what cannot be read for
// other reasons is waited for.
func TestIdentitiesWithoutARecord(t *testing.T) {
	play(t, func(g *ground) {
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			if r.Resource == "configmaps" {
				return &apitest.Fault{Status: 500}
			}
			return nil
		})
		i, _, stop := g.identified(g.process)
		g.pass(time.Minute)
		select {
		case <-i.read:
			t.Error("nobody knows what is on record, and all is believed")
		default:
		}
		g.server.Intercept(nil)
		g.server.Allow(func(r apitest.Request) bool { return r.Resource != "configmaps" })
		if err, uid := i.Wait(g.t.Context()), i.Known("a"); uid != "" || err != nil {
			t.Errorf("known by %q, %v", uid, err)
		}
		i.Found("a", "uid-a")
		g.pass(time.Minute)
		if uid := i.Known("a"); uid != "uid-a" {
			t.Errorf("found and forgotten: %q", uid)
		}
		stop()
	})
}
