// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import "tributary.dev/tributary/next/syncer"

// configure goes over to another configuration. What it does not concern goes on as it was;
// streams whose objects have to be read with other eyes are listed again beside themselves.
func (s *State) configure(c Config, o *step) {
	former := s.config
	s.config = c
	o.Bulk = true
	cause := &Cause{Kind: "Config", Event: EventConfigured, Arrived: s.now}
	if c.Selection != former.Selection {
		s.reselect(cause, o)
	}
	if c.Selection != former.Selection || c.Bounds != former.Bounds {
		o.dirty(s.tables.Configure(s.storeOptions()), cause)
		s.handDue = true
	}
	if c.Rules != former.Rules {
		s.relist(Pods, o)
	}
	if c.Drain != former.Drain {
		s.regrade(o, EventConfigured)
	}
}

// reselect lets go of namespaces that are not followed any more, and reads those that are
// now.
func (s *State) reselect(c *Cause, o *step) {
	s.relist(Pods, o)
	s.relist(Services, o)
	var left []syncer.Key
	for key := range s.tables.Replicas() {
		left = append(left, key)
	}
	s.follow(o)
	out := func(key syncer.Key) bool { return s.areaOf(key.Namespace) == nil }
	for _, key := range left {
		if out(key) {
			o.add(key, syncer.Removal, c)
		}
	}
	s.asking.drop(out)
	s.eachKind(func(k anyKind) { k.forget(out) })
	s.regraded, o.WantStanding = true, true
}

// relist has the streams of a kind listed again that go on.
func (s *State) relist(kind Kind, o *step) {
	for _, scope := range s.kind(kind).scopes() {
		st := s.kind(kind).stream(scope)
		st.floor = st.at
		o.Relist = append(o.Relist, scope)
	}
}
