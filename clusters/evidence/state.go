// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"math/rand/v2"
	"time"

	"tributary.dev/tributary/clusters/store"
)

// State is what one member shows and how far it is believed. It is not safe for
// concurrent use: whoever has it lets one Step at a time in, and readers between
// steps.
type State struct {
	cfg   Config
	dice  *rand.Rand
	store *store.Store
	view  View
	reach reachability
}

// New returns the state of a member of which nothing is known. The same seed and the
// same events have the same effects.
func New(now time.Time, c Config, seed uint64) *State {
	return &State{
		cfg: c, dice: rand.New(rand.NewPCG(seed, 0)),
		store: store.New(store.Options{Placement: c.Placement, Rules: c.Rules}),
		view:  View{State: Connecting, Since: now},
		reach: reachability{contact: now},
	}
}

// View is how the member stands, as of the last step.
func (s *State) View() View { return s.view }

// Step takes in an event that came at a moment, and returns what is to be done. now
// never goes back.
func (s *State) Step(now time.Time, e Event) (out Effects) {
	switch e := e.(type) {
	case Contact:
		s.reach.contact = now
	case Connected:
		if s.reach.connect = e.Fault; e.Fault.Class == Well {
			s.reach.connected, s.reach.contact = true, now
		}
	case Probed:
		s.reach.probed(now, e.Fault)
	case Reconnected:
		s.reach.access = e.Fault
	case Watched:
		s.reach.watches[e.Kind].change(e, now)
	case Configured:
		s.cfg = e.Config
	case Stopped:
		s.reach.stopped = true
	}
	s.judge(now, &out)
	return out
}

// judge says how the member stands, if that has changed.
func (s *State) judge(now time.Time, out *Effects) {
	v := s.verdict(now)
	v.Since = s.view.Since
	if v.State != s.view.State || v.Reason != s.view.Reason {
		v.Since = now
	}
	if v.State != s.view.State || v.Reason != s.view.Reason || v.Synced != s.view.Synced ||
		v.Stale != s.view.Stale || v.Panicking != s.view.Panicking {
		out.View = &v
	}
	s.view = v
}

// verdict is how the member stands.
func (s *State) verdict(now time.Time) View {
	v := View{State: Live}
	if s.reach.stopped {
		v.State = Ended
		return v
	}
	if f, other := s.reach.otherCluster(); other {
		v.State, v.Reason, v.Err = Suspect, ReasonIdentityMismatch, f.Err
		return v
	}
	if c, why, err, bad := s.reach.unusable(now); bad {
		v.State, v.Reason, v.Err = c, why, err
		if f := s.reach.access; f.Class == OtherCluster { // which says more
			v.State, v.Reason, v.Err = Suspect, ReasonIdentityMismatch, f.Err
		}
		return v
	}
	if !s.reach.connected {
		v.State = Connecting
	}
	switch f := s.reach.access; {
	case s.cfg.Refused != nil:
		v.Reason, v.Err = ReasonKubeconfigRefused, s.cfg.Refused
	case f.Class == OtherCluster:
		v.Reason, v.Err = ReasonIdentityMismatch, f.Err
	case f.Class != Well:
		v.Reason, v.Err = ReasonNewAccessFails, f.Err
	}
	return v
}
