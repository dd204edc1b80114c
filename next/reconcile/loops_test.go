// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/internal/apitest"
)

// A replica is written in order, changes of it at once; a restart writes nothing.
func TestReplicaFromFirstToLast(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		slice := apitest.List[*discoveryv1.EndpointSlice](g.server, "shop")[0].Name
		want := []string{"create namespaces shop 201", "create services shop/web 201", "create endpointslices shop/" + slice + " 201", "create endpoints shop/web 201"}
		if got := g.writes(); !slices.Equal(got, want) {
			t.Errorf("written %q, want %q", got, want)
		}
		g.set(web, "a", "1,(2),3")
		g.expect(web, "1,(2),3", 50*time.Millisecond)
		if got := g.writes(); len(got) != 2 {
			t.Errorf("written %q", got)
		}
		g.settled()
		g.process.stop()
		g.writes()
		g.process = g.start()
		g.quiet(time.Minute)
		g.set(web, "a", "-")
		g.expect(web, "-", 50*time.Millisecond)
		g.settled()
		g.quiet(time.Minute)
	})
}
