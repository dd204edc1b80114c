// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// neverBoth lets time pass and fails if two processes may write in one moment.
func neverBoth(t *testing.T, d time.Duration, a, b *process) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; pass(10 * time.Millisecond) {
		if a.permit.MayWrite() && b.permit.MayWrite() {
			t.Errorf("both may write after %s", time.Since(began))
			return
		}
	}
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
				s := newServer()
				a := s.start(t, "a", nil)
				within(t, time.Second, "a leads", a.permit.MayWrite)
				b := s.start(t, "b", nil)
				pass(20200 * time.Millisecond)
				edit(s)
				neverBoth(t, 30*time.Second, a, b)
				if !a.permit.MayWrite() && !b.permit.MayWrite() {
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
		s := newServer()
		s.lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("ghost"), LeaseDurationSeconds: new(int32(1 << 30))}}
		s.lease.Name, s.lease.ResourceVersion = "tributary", "1"
		s.version = 1
		a := s.start(t, "a", nil)
		pass(9 * time.Minute)
		if a.permit.MayWrite() {
			t.Error("another's Lease was taken before its time")
		}
		within(t, 2*time.Minute, "a leads", a.permit.MayWrite)
		a.end()
	})
}

// Rights to Leases that go and come back, as with a Role that is made anew, never make two
// writers. When they stay away, the last holder goes on alone, and the others stand by.
func TestRightsThatGoAndComeBack(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, 9 * time.Second, 12 * time.Second, 30 * time.Second, 31 * time.Second, 45 * time.Second, 2 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				a := s.start(t, "a", nil)
				within(t, time.Second, "a leads", a.permit.MayWrite)
				b := s.start(t, "b", nil)
				pass(20500 * time.Millisecond)
				deny := func(denied bool) {
					for _, p := range []*process{a, b} {
						p.set(func() { p.denied = denied })
					}
				}
				deny(true)
				neverBoth(t, away, a, b)
				if b.permit.MayWrite() || away > time.Minute && !a.elector.State().Alone {
					t.Errorf("a %+v, b %+v", a.elector.State(), b.elector.State())
				}
				deny(false)
				neverBoth(t, time.Minute, a, b)
				if (!a.permit.MayWrite() && !b.permit.MayWrite()) || a.elector.State().Alone {
					t.Errorf("a %+v, b %+v", a.elector.State(), b.elector.State())
				}
				a.end()
				b.end()
			})
		})
	}
}

// Who may read the Lease and not write it stands by while another renews it, writes alone
// when nobody has for long, and stops when somebody takes it.
func TestWhoMayOnlyReadTheLeaseStandsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a", nil)
		within(t, time.Second, "a leads", a.permit.MayWrite)
		b := s.start(t, "b", func(_ *Options, c *client) { c.readOnly = true })
		neverBoth(t, 10*time.Minute, a, b)
		if state := b.elector.State(); state.Alone || state.Holder != "a" {
			t.Errorf("beside a leader: %+v", state)
		}
		a.end()
		within(t, time.Minute, "b writes alone", func() bool { return b.permit.MayWrite() && b.elector.State().Alone })
		c := s.start(t, "c", nil)
		within(t, 30*time.Second, "c leads, and b stands by", func() bool { return c.permit.MayWrite() && !b.permit.MayWrite() })
		neverBoth(t, 10*time.Minute, b, c)
		c.end()
		b.end()
	})
}
