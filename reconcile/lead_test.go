// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/syncer"
)

// follow starts a second Reconciler that only follows.
func (g *ground) follow() (r *Reconciler) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	r, ended := New(g.options), make(chan struct{})
	go func() { defer close(ended); r.Follow(ctx) }()
	g.t.Cleanup(func() { cancel(); <-ended })
	if err := r.WaitForSync(ctx); err != nil {
		g.t.Fatal(err)
	}
	return r
}

// A standby lists, follows and computes, and writes nothing; when it comes to lead it
// writes at once what it found, and nothing when there is nothing.
func TestStandbyWritesNothingAndTakesOverWarm(t *testing.T) {
	g := newGround(t, "a")
	g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
	standby := g.follow()
	standby.Resync("", "resync")
	g.start() // the one that writes
	g.expect(web, "10.0.0.1")
	g.wait("the standby has nothing left to look at", func() bool { return standby.Owned() == 1 && len(standby.Queue().OldestArrivals()) == 0 })
	g.stop()
	g.writes()

	leading, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); standby.Lead(leading) }()
	standby.Resync("", "resync")
	g.wait("it has looked at everything", func() bool { return len(standby.Queue().OldestArrivals()) == 0 })
	g.expectWrites() // a takeover writes nothing
	end()
	<-ended

	g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.2", true))
	standby.Resync("", "resync")
	g.wait("it knows what is to be written", func() bool { return len(standby.Queue().OldestArrivals()) == 1 })
	g.expectWrites()
	leading, end = context.WithCancel(t.Context())
	ended = make(chan struct{})
	go func() { defer close(ended); standby.Lead(leading) }()
	g.wait("it writes", func() bool {
		endpoints, sliced := g.addresses(web)
		return slices.Equal(endpoints, []string{"10.0.0.2"}) && slices.Equal(sliced, endpoints)
	})
	end()
	<-ended
}

// What keeps a replica from being written is told by who leads, also when it was found
// while nobody did.
func TestWhoComesToLeadTellsWhatIsHeld(t *testing.T) {
	g := newGround(t, "a")
	g.server.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
	standby := g.follow()
	standby.Resync("", "resync")
	g.wait("the conflict is found", func() bool { return len(g.seen.trouble(web).Conflicts) == 1 })
	if got := g.seen.all(); len(got) > 0 {
		t.Errorf("a standby recorded %+v", got)
	}
	leading, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); standby.Lead(leading) }()
	g.wait("it is on record", func() bool { return len(g.seen.all()) > 0 })
	end()
	<-ended
}

// Nothing is looked at before the members are there; one that ends before that ends as
// any other.
func TestNothingIsLookedAtBeforeTheBeginning(t *testing.T) {
	g := newGround(t, "a")
	begin := make(chan struct{})
	g.options.Begin = begin
	g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
	ctx, cancel := context.WithCancel(t.Context())
	r, ended := New(g.options), make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	if err := r.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	r.Resync("", "resync")
	g.expectWrites()
	cancel()
	<-ended
	g.expectWrites()
}

// A worker that hangs in something that has no limit is found.
func TestStuckWorkerIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroundOn(t, apitest.NewInMemory(t), "a")
		var heartbeats metrics.Heartbeats
		g.options.Heartbeats = &heartbeats
		held := make(chan struct{})
		stuck := hangs{g.source, held}
		g.options.Source = stuck
		g.start()
		time.Sleep(time.Hour)
		if got := heartbeats.Stuck(time.Now()); len(got) > 0 {
			t.Errorf("stuck while nothing is to do: %q", got)
		}
		g.rec.Dirty(web, lanes.Removal, liveCause("a", web))
		time.Sleep(workerBound + time.Second)
		if got := heartbeats.Stuck(time.Now()); !slices.Equal(got, []string{"a worker has not got on for more than 1m0s"}) {
			t.Errorf("stuck: %q", got)
		}
		close(held)
		g.settle()
		if got := heartbeats.Stuck(time.Now()); len(got) > 0 {
			t.Errorf("still stuck: %q", got)
		}
		g.stop()
		if got := heartbeats.Stuck(time.Now().Add(time.Hour)); len(got) > 0 {
			t.Errorf("stuck after the end: %q", got)
		}
	})
}

// However slow the server is, or however few requests a second it may be sent, a worker that
// has many to make is not taken for stuck.
func TestSlowWorkerIsNotStuck(t *testing.T) {
	for name, slow := range map[string]lanes.Options{"few requests": {QPS: 1, Burst: 1}, "slow answers": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroundOn(t, apitest.NewInMemory(t), "a")
				var heartbeats metrics.Heartbeats
				g.options.Heartbeats, g.options.Queue, g.source.settings.MaxEndpointsPerSlice = &heartbeats, slow, 1
				g.start()
				if slow.QPS == 0 {
					g.server.Intercept(func(r apitest.Request) *apitest.Fault {
						if isWrite(r) {
							time.Sleep(9 * time.Second)
						}
						return nil
					})
				}
				ips := make([]string, 120)
				for i := range ips {
					ips[i] = fmt.Sprintf("10.0.%d.%d", i/200, i%200+1)
				}
				g.set("a", service(web, 1, 8080), podsOf(ips)...)
				for range 100 {
					time.Sleep(5 * time.Second)
					if stuck := heartbeats.Stuck(time.Now()); len(stuck) > 0 {
						t.Fatalf("%q", stuck)
					}
				}
				g.expectCount(web, len(ips))
				g.server.Intercept(nil)
			})
		})
	}
}

// expectCount fails unless so many addresses stand in both kinds.
func (g *ground) expectCount(key syncer.Key, n int) {
	g.t.Helper()
	if endpoints, sliced := g.addresses(key); len(endpoints) != n || len(sliced) != n {
		g.t.Errorf("%d and %d addresses stand, want %d", len(endpoints), len(sliced), n)
	}
}

// hangs is members that do not tell of a replica until held is closed.
type hangs struct {
	*members
	held <-chan struct{}
}

func (h hangs) Gather(key syncer.Key) Snapshot {
	<-h.held
	return h.members.Gather(key)
}
