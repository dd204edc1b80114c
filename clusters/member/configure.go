// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import "tributary.dev/tributary/syncer"

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
	for scope := range s.streams {
		if scope.Kind == Pods && c.Rules != former.Rules {
			s.relist(scope, o)
		}
	}
	if c.Drain != former.Drain {
		s.regrade(o, EventConfigured)
	}
}

// reselect lets go of namespaces that are not followed any more, and reads those that are now.
func (s *State) reselect(c *Cause, o *step) {
	for scope := range s.streams {
		if scope.Kind <= Services {
			s.relist(scope, o)
		}
	}
	var replicas []syncer.Key
	for key := range s.tables.Replicas() {
		replicas = append(replicas, key)
	}
	s.follow(o)
	out := func(key syncer.Key) bool { return s.areaOf(key.Namespace) == nil }
	for _, key := range replicas {
		if out(key) {
			o.add(key, syncer.Removal, c)
		}
	}
	s.forget(out)
	s.regraded, o.WantStanding = true, true
}
