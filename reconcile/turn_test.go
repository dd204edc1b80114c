// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"
	"testing"
)

// One that is to take over lists and follows what stands, and writes nothing, until it
// is its turn; what it was told until then it does at once.
func TestNothingIsWrittenBeforeItsTurn(t *testing.T) {
	g := newGround(t, "a")
	g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
	turn := make(chan struct{})
	g.options.Turn = turn
	ctx, cancel := context.WithCancel(t.Context())
	next, ended := New(g.options), make(chan struct{})
	go func() { defer close(ended); next.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if err := next.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	next.Resync("", "resync")
	g.options.Turn = nil

	g.start() // the one that writes
	g.expect(web, "10.0.0.1")
	g.wait("the next one sees it", func() bool { return next.Owned() == 1 })
	g.stop()
	g.writes()
	g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.2", true))
	if waiting := len(next.Queue().OldestArrivals()); waiting == 0 {
		t.Error("nothing waits for the turn")
	}
	g.expectWrites()

	close(turn)
	g.wait("the next one writes", func() bool {
		endpoints, sliced := g.addresses(web)
		return slices.Equal(endpoints, []string{"10.0.0.2"}) && slices.Equal(sliced, endpoints)
	})
}

// One whose turn never comes ends as any other.
func TestEndBeforeItsTurn(t *testing.T) {
	g := newGround(t, "a")
	g.options.Turn = make(chan struct{})
	g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
	ctx, cancel := context.WithCancel(t.Context())
	r, ended := New(g.options), make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	if err := r.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	r.Resync("", "resync")
	cancel()
	<-ended
	g.expectWrites()
}
