// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Of two processes one leads; the other takes over at once when the first is told to
// end, and only after its writers have.
func TestReleaseHandsOverAtOnceAndAfterTheWritersEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", nil)
		within(t, time.Second, "a leads", a.permit.MayWrite)
		b := s.start(t, "b", nil)
		pass(time.Hour)
		if b.elections() != 0 || b.permit.MayWrite() || a.elections() != 1 || !a.permit.MayWrite() {
			t.Fatalf("elections after an hour: a %d, b %d", a.elections(), b.elections())
		}
		if s := b.elector.State(); s.Holder != "a" || s.Leading {
			t.Errorf("b knows %+v", s)
		}
		a.wind = 20 * time.Second // beyond the Lease's duration: it is renewed meanwhile
		a.stop(nil)
		pass(19 * time.Second)
		if b.permit.MayWrite() || !a.permit.MayWrite() {
			t.Fatal("the Lease changed hands while a's writers were at work")
		}
		<-a.ended
		if a.permit.MayWrite() {
			t.Error("a may write after its end")
		}
		if took := within(t, time.Second, "b leads", b.permit.MayWrite); took > 50*time.Millisecond {
			t.Errorf("handed over in %s", took)
		}
		b.end()
	})
}

// A process that ends without a word is followed within the duration of its Lease.
func TestCrashIsFollowedWithinTheLease(t *testing.T) {
	for name, unwatched := range map[string]bool{"watched": false, "without the right to watch": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.unwatched = unwatched
				a := s.start(t, "a", nil)
				within(t, time.Second, "a leads", a.permit.MayWrite)
				b := s.start(t, "b", nil)
				pass(61300 * time.Millisecond)
				a.set(func() { a.cut = true }) // as if it were gone
				limit := 10 * time.Second
				if unwatched {
					limit += 5 * time.Second
				}
				took := within(t, limit, "b leads", b.permit.MayWrite)
				if took < 5*time.Second {
					t.Errorf("b took a Lease that was good, after %s", took)
				}
				if a.permit.MayWrite() {
					t.Error("both may write")
				}
				within(t, time.Second, "b's writers begin", func() bool { return b.elections() == 1 })
				a.set(func() { a.cut = false })
				pass(time.Minute)
				if a.permit.MayWrite() || a.elections() != 1 || b.elections() != 1 {
					t.Errorf("elections: a %d, b %d", a.elections(), b.elections())
				}
				a.end()
				b.end()
			})
		})
	}
}

// The permit ends before anybody else can hold the Lease, whenever the network fails.
func TestPermitEndsBeforeTheLeaseCanBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", nil)
		within(t, time.Second, "a leads", a.permit.MayWrite)
		b := s.start(t, "b", nil)
		for i := range 20 {
			leading, other := a, b
			if b.permit.MayWrite() {
				leading, other = b, a
			}
			pass(10*time.Second + time.Duration(i)*173*time.Millisecond)
			leading.set(func() { leading.cut = true })
			lapsed := within(t, 8*time.Second, "the permit lapses", func() bool { return !leading.permit.MayWrite() })
			taken := lapsed + within(t, 10*time.Second, "the other one leads", other.permit.MayWrite)
			if taken < lapsed+1500*time.Millisecond {
				t.Errorf("lapsed after %s, taken after %s", lapsed, taken)
			}
			leading.set(func() { leading.cut = false })
		}
		a.end()
		b.end()
	})
}

// One that starts again in its own place waits for nothing, however it ended.
func TestRestartInPlaceTakesItsOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", nil)
		within(t, time.Second, "a leads", a.permit.MayWrite)
		a.set(func() { a.cut = true }) // killed, with a renewal under way
		again := s.start(t, "a", nil)
		if took := within(t, time.Second, "it leads again", again.permit.MayWrite); took > 50*time.Millisecond {
			t.Errorf("took %s", took)
		}
		a.end()
		if s.holder() != "a" {
			t.Error("the one that was cut off released what is not its own any more")
		}
		again.end()
	})
}

// A process that lost its Lease to nobody resumes: nobody else has written meanwhile.
func TestResumesWhereNobodyElseLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", nil)
		resumed := func() bool { return a.elector.State().Former.IsZero() }
		within(t, time.Second, "a leads", a.permit.MayWrite)
		cut := func(meanwhile func()) {
			a.set(func() { a.cut = true })
			pass(time.Minute)
			meanwhile()
			a.set(func() { a.cut = false })
			within(t, 30*time.Second, "a leads again", a.permit.MayWrite)
			synctest.Wait()
		}
		if resumed() {
			t.Error("its first term goes on from another")
		}
		if cut(func() {}); !resumed() {
			t.Error("it did not resume")
		}
		cut(func() {
			b := s.start(t, "b", nil)
			within(t, time.Minute, "b leads", b.permit.MayWrite)
			b.end()
		})
		if resumed() {
			t.Error("it resumed after another")
		}
		cut(func() { // another has made it anew, and handed it on as often
			s.remove()
			b := s.start(t, "b", nil)
			within(t, time.Minute, "b leads", b.permit.MayWrite)
			b.end()
			s.edit(func(spec *coordinationv1.LeaseSpec) { spec.LeaseTransitions = new(int32(1)) })
		})
		if resumed() {
			t.Error("it resumed though its Lease was deleted")
		}
		a.end()
	})
}

// The same process goes on by another connection: the Lease stays, nobody else gets in.
func TestHandoverToOneselfReleasesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", nil)
		within(t, time.Second, "a leads", a.permit.MayWrite)
		b := s.start(t, "b", nil)
		a.stop(ErrHandover)
		<-a.ended
		if a.permit.MayWrite() || s.holder() != "a" {
			t.Errorf("held by %q", s.holder())
		}
		next := s.start(t, "a", nil)
		within(t, 50*time.Millisecond, "it leads by the other connection", next.permit.MayWrite)
		pass(time.Minute)
		if b.elections() != 0 {
			t.Error("another process was elected meanwhile")
		}
		next.end()
		b.end()
	})
}

// The Lease is given to somebody else by hand: who held it stops at the next renewal at
// the latest, and at once when the API server refuses a write.
func TestLeaseTakenAway(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		fence bool
	}{
		"noticed at a renewal": {3 * time.Second, false},
		"fenced":               {20 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				a := s.start(t, "a", nil)
				within(t, time.Second, "a leads", a.permit.MayWrite)
				pass(21 * time.Second)
				s.edit(func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = new("somebody") })
				if c.fence {
					a.permit.refusedAsStranger(FencedMark)
				}
				within(t, c.limit, "a stops", func() bool { return !a.permit.MayWrite() })
				within(t, time.Second, "its writers end", func() bool { return !a.elector.State().Leading && len(a.left) == 1 })
				pass(5 * time.Second)
				if a.permit.MayWrite() {
					t.Error("it took a good Lease")
				}
				within(t, 10*time.Second, "it takes the Lease that nobody renews", a.permit.MayWrite)
				a.end()
			})
		})
	}
}

// The API server's view of the Lease may be older than the Lease: who is refused and
// holds it is elected anew, and asks at a pace if that goes on.
func TestRefusedHolderIsElectedAnewAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", nil)
		within(t, time.Second, "a leads", a.permit.MayWrite)
		a.permit.refusedAsStranger(FencedMark)
		synctest.Wait()
		within(t, 200*time.Millisecond, "a leads again", func() bool { return a.permit.MayWrite() && a.elections() == 2 })
		ctx := t.Context()
		began := time.Now()
		for ctx.Err() == nil && time.Since(began) < time.Minute {
			if a.permit.MayWrite() {
				a.permit.refusedAsStranger(FencedMark)
			}
			pass(10 * time.Millisecond)
		}
		if n := a.elections(); n > 30 {
			t.Errorf("elected %d times in a minute in which everything was refused", n)
		}
		a.end()
	})
}

// Without the right to write Leases a process writes alone, says so, and takes part
// once it has the right.
func TestWithoutRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", func(_ *Options, c *client) { c.denied = true })
		if a.permit.MayWrite() {
			t.Error("believed the first answer: a server that has just started denies everything")
		}
		within(t, 3*time.Second, "a writes alone", a.permit.MayWrite)
		if s := a.elector.State(); !s.Alone || s.Reason == "" || !s.Leading {
			t.Errorf("state %+v", s)
		}
		pass(time.Hour)
		if s.writes != 0 || !a.permit.MayWrite() || a.elections() != 1 {
			t.Errorf("%d writes of Leases, elected %d times", s.writes, a.elections())
		}
		a.set(func() { a.denied = false })
		within(t, 70*time.Second, "a is elected", func() bool { return s.holder() == "a" && a.permit.MayWrite() && a.elections() == 2 })
		if a.elector.State().Alone {
			t.Error("still alone")
		}
		a.end()
	})
}

// Who writes alone goes on when an answer does not come, stops when none does for as long as
// a leader may go unheard, and writes again once it is told that it has no rights still.
func TestWhoWritesAloneOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", func(_ *Options, c *client) { c.cut = true })
		pass(time.Minute)
		if a.permit.MayWrite() {
			t.Error("writes alone though nobody said that it has no rights")
		}
		reached := func(reached bool) { a.set(func() { a.cut, a.denied = !reached, reached }) }
		reached(true)
		within(t, 10*time.Second, "a writes alone", a.permit.MayWrite)
		reached(false)
		pass(tryTimeout)
		reached(true)
		pass(time.Minute)
		if !a.permit.MayWrite() || a.elections() != 1 {
			t.Errorf("after an answer that did not come: elected %d times, state %+v", a.elections(), a.elector.State())
		}
		reached(false)
		within(t, 2*tens.RenewDeadline, "a stops", func() bool { return !a.permit.MayWrite() })
		pass(time.Minute)
		reached(true)
		within(t, 10*time.Second, "a writes alone again", func() bool { return a.permit.MayWrite() && a.elector.State().Alone })
		a.end()
	})
}

func TestDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", func(o *Options, _ *client) { o.Disabled = true })
		if !a.permit.MayWrite() || s.writes != 0 {
			t.Error("it waits for a Lease that it is not to have")
		}
		a.end()
		if a.permit.MayWrite() {
			t.Error("may write after its end")
		}
	})
}
