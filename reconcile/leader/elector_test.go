// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Of two processes one leads; the other takes over soon after the first is told to end, and
// only after its writers have.
func TestReleaseHandsOverAfterTheWritersEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := s.start(t, "a")
		within(t, time.Second, "a leads", a.mayWrite)
		b := s.start(t, "b")
		pass(time.Hour)
		if b.elections() != 0 || b.mayWrite() || a.elections() != 1 || !a.mayWrite() {
			t.Fatalf("elections after an hour: a %d, b %d", a.elections(), b.elections())
		}
		if s := b.elector.State(); s.Holder != "a" || s.Writes() || s.Error != "" {
			t.Errorf("b knows %+v", s)
		}
		a.wind = 2 * lease // the Lease is renewed meanwhile
		a.stop()
		pass(2*lease - time.Second)
		if b.mayWrite() || !a.mayWrite() {
			t.Fatal("the Lease changed hands while a's writers were at work")
		}
		<-a.ended
		if a.mayWrite() {
			t.Error("a may write after its end")
		}
		within(t, 2*time.Second, "b leads", b.mayWrite)
		b.end()
	})
}

// A process that crashes is followed within 1.3 times its Lease, and not before.
func TestCrashIsFollowedWithinTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := s.start(t, "a")
		within(t, time.Second, "a leads", a.mayWrite)
		b := s.start(t, "b")
		for i := range 20 {
			leading, other := a, b
			if b.mayWrite() {
				leading, other = b, a
			}
			pass(20*time.Second + time.Duration(i)*173*time.Millisecond)
			leading.set(func() { leading.cut = true })
			lapsed := within(t, lease, "the permit lapses", func() bool { return !leading.mayWrite() })
			taken := lapsed + within(t, lease*13/10-lapsed, "the other one leads", other.mayWrite)
			if taken < lapsed+lease/4 {
				t.Errorf("lapsed after %s, taken after %s", lapsed, taken)
			}
			leading.set(func() { leading.cut = false })
		}
		a.end()
		b.end()
	})
}

// One that cannot reach the API server stops, and goes on when it can, where nobody else is.
func TestLeaderStopsAndGoesOnWithTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := s.start(t, "a")
		within(t, time.Second, "a leads", a.mayWrite)
		a.set(func() { a.cut = true })
		pass(time.Minute)
		if state := a.elector.State(); a.mayWrite() || state.Writes() || state.Error == "" {
			t.Errorf("after a minute without the API: %+v", state)
		}
		a.set(func() { a.cut = false })
		within(t, 2*time.Second+lease*2/9, "a leads again", a.mayWrite)
		if state := a.elector.State(); !state.Writes() || state.Error != "" || state.Holder != "a" {
			t.Errorf("state %+v", state)
		}
		a.end()
	})
}

// The Permit counts from before a renewal was sent, however long that took to arrive and
// its answer to come back.
func TestPermitCountsFromBeforeTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := s.start(t, "a")
		within(t, time.Second, "a leads", a.mayWrite)
		b := s.start(t, "b")
		for _, late := range []time.Duration{0, 2 * time.Second} {
			a.set(func() { a.late, a.slow = late, 2*time.Second-late })
			pass(time.Minute)
			a.set(func() { a.cut = true })
			neverBoth(t, 2*lease, a, b)
			a.set(func() { a.cut, a.late, a.slow = false, 0, 0 })
			pass(2 * lease)
			b.end()
			within(t, 2*time.Second, "a leads again", a.mayWrite)
			b = s.start(t, "b")
		}
		a.end()
		b.end()
	})
}

// One that starts again in its own place waits for nothing, however it ended.
func TestRestartInPlaceTakesItsOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := s.start(t, "a")
		within(t, time.Second, "a leads", a.mayWrite)
		a.set(func() { a.cut = true }) // killed, with a renewal under way
		again := s.start(t, "a")
		within(t, 2*time.Second, "it leads again", again.mayWrite) // its last renewal may be in the way
		again.end()
		a.end()
	})
}

// Whatever somebody does to the Lease by hand, its holder may count on it until it notices.
func TestLeaseEditedByHandIsNoInvitation(t *testing.T) {
	for name, edit := range map[string]func(*server){
		"deleted":     (*server).remove,
		"no duration": func(s *server) { s.edit(func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = nil }) },
		"one second":  func(s *server) { s.edit(func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = new(int32(1)) }) },
		"no holder":   func(s *server) { s.edit(func(l *coordinationv1.LeaseSpec) { l.HolderIdentity = nil }) },
		"emptied":     func(s *server) { s.edit(func(l *coordinationv1.LeaseSpec) { *l = coordinationv1.LeaseSpec{} }) },
		"a ghost":     func(s *server) { s.edit(func(l *coordinationv1.LeaseSpec) { l.HolderIdentity = new("ghost") }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{}
				a := s.start(t, "a")
				within(t, time.Second, "a leads", a.mayWrite)
				b := s.start(t, "b")
				pass(20200 * time.Millisecond)
				edit(s)
				if name == "a ghost" {
					within(t, time.Second, "a stops", func() bool { return !a.mayWrite() })
				}
				neverBoth(t, time.Minute, a, b)
				if !a.mayWrite() && !b.mayWrite() {
					t.Error("nobody leads")
				}
				if name != "a ghost" && a.elections() != 1 {
					t.Errorf("the holder was elected %d times: it can put its name back", a.elections())
				}
				a.end()
				b.end()
			})
		})
	}
}

// The duration of a Lease that nobody renews is not believed beyond measure.
func TestGhostWithAnEndlessLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{version: 1, lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("ghost"), LeaseDurationSeconds: new(int32(1 << 30))}}}
		s.lease.Name, s.lease.ResourceVersion = "tributary", "1"
		a := s.start(t, "a")
		pass(9 * time.Minute)
		if a.mayWrite() {
			t.Error("another's Lease was taken before its time")
		}
		within(t, 2*time.Minute, "a leads", a.mayWrite)
		a.end()
	})
}

func TestDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &process{permit: &Permit{}, ended: make(chan struct{})}
		a.elector = New(Options{Disabled: true, Permit: a.permit, Logger: slog.New(slog.DiscardHandler)})
		a.run(t)
		if pass(time.Hour); !a.mayWrite() || a.elector.State().State != "alone" {
			t.Error("it waits for a Lease that it is not to have")
		}
		a.end()
		if a.mayWrite() {
			t.Error("may write after its end")
		}
	})
}
