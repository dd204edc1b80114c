// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

func TestTransitions(t *testing.T) {
	exchangingLeads := life{phase: exchanging, leads: true}
	leads := life{phase: leading, leads: true}
	for _, c := range []struct {
		from life
		on   event
		to   life
		do   effect
	}{
		{life{}, reached, life{phase: listing}, wait},
		{life{}, edited, life{}, try},
		{life{}, listed, life{}, wait}, // not reached: it cannot have listed
		{life{}, elected, life{}, wait},
		{life{phase: listing}, listed, life{phase: standby}, begin},
		{life{phase: listing}, edited, life{}, try},
		{life{phase: listing}, elected, life{phase: listing}, wait}, // nobody takes part yet
		{life{phase: standby}, elected, leads, wait},
		{life{phase: standby}, edited, life{phase: exchanging}, try},
		{life{phase: standby}, listed, life{phase: standby}, wait},
		{leads, deposed, life{phase: standby}, wait},
		{leads, edited, exchangingLeads, try},
		{leads, reached, leads, wait},
		{exchangingLeads, reached, exchangingLeads, wait},
		{exchangingLeads, edited, exchangingLeads, try},
		{exchangingLeads, deposed, life{phase: exchanging}, wait},
		{exchangingLeads, restored, leads, giveUp},
		{life{phase: exchanging}, restored, life{phase: standby}, giveUp},
		{life{phase: exchanging}, elected, exchangingLeads, wait},
		// The new session has to be elected itself.
		{exchangingLeads, listed, life{phase: standby}, exchange},
		{life{phase: exchanging}, listed, life{phase: standby}, exchange},
	} {
		if to, do := c.from.next(c.on); to != c.to || do != c.do {
			t.Errorf("%v on %d: %v and %d, want %v and %d", c.from, c.on, to, do, c.to, c.do)
		}
	}
}

// Whatever happens in whatever order: only a phase with members leads, and a session is
// used only after it has listed what stands.
func TestLawsOfTransitions(t *testing.T) {
	events := []event{nothing, reached, listed, edited, restored, elected, deposed}
	for p := waiting; p <= exchanging; p++ {
		for _, leads := range []bool{false, true} {
			if from := (life{p, leads}); leads == (p == leading) || p == exchanging {
				for _, e := range events {
					to, do := from.next(e)
					if to.leads && to.phase < leading || to.phase == leading && !to.leads {
						t.Errorf("%v on %d: %v", from, e, to)
					}
					if (do == begin || do == exchange) && (e != listed || to.leads) {
						t.Errorf("%v on %d does %d and is %v", from, e, do, to)
					}
					if e == nothing && (to != from || do != wait) {
						t.Errorf("%v changes for nothing", from)
					}
				}
			}
		}
	}
}

func TestEventsAreToldFromFacts(t *testing.T) {
	a, b, c := sessionKey{access: "a"}, sessionKey{access: "b"}, sessionKey{access: "c"}
	for name, test := range map[string]struct {
		l    life
		f    facts
		want event
	}{
		"the first is being tried":         {life{}, facts{wanted: a, tried: a}, nothing},
		"it is reached":                    {life{}, facts{wanted: a, tried: a, reached: true}, reached},
		"edited before it is reached":      {life{}, facts{wanted: b, tried: a, reached: true}, edited},
		"it has listed":                    {life{phase: listing}, facts{wanted: a, tried: a, reached: true, listed: true}, listed},
		"edited before that counts":        {life{phase: listing}, facts{wanted: b, tried: a, reached: true, listed: true}, edited},
		"all is well":                      {life{phase: leading, leads: true}, facts{wanted: a, inUse: a, leads: true}, nothing},
		"elected":                          {life{phase: standby}, facts{wanted: a, inUse: a, leads: true}, elected},
		"deposed, and edited":              {life{phase: leading, leads: true}, facts{wanted: b, inUse: a}, deposed},
		"edited":                           {life{phase: standby}, facts{wanted: b, inUse: a}, edited},
		"the next one is being tried":      {life{phase: exchanging}, facts{wanted: b, inUse: a, tried: b, reached: true}, nothing},
		"the next one has listed":          {life{phase: exchanging}, facts{wanted: b, inUse: a, tried: b, listed: true}, listed},
		"edited again":                     {life{phase: exchanging}, facts{wanted: c, inUse: a, tried: b, listed: true}, edited},
		"edited back though it has listed": {life{phase: exchanging}, facts{wanted: a, inUse: a, tried: b, listed: true}, restored},
	} {
		if got := test.f.event(test.l); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
