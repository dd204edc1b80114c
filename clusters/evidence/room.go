// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"time"
)

// crowd is what is known of a kind of which objects were left out for want of room, until
// a list has shown all of it.
type crowd struct {
	is bool
	// asked is when it was last listed for that, with how many objects held.
	asked   time.Time
	objects int
}

// full reports whether there is no room for one more: what is held takes none. What the member adds from
// then on is not seen; what it removes and changes is.
func (s *State) full(kind Kind, objects int) bool {
	if s.cfg.MaxObjects == 0 || objects < s.cfg.MaxObjects {
		return false
	}
	if c := &s.crowds[kind]; !c.is {
		*c = crowd{is: true, objects: objects}
	}
	return true
}

// crowdedRetry is the time between two lists of a kind that has too many objects, or
// room again, but little.
const crowdedRetry = time.Minute

// tooLong takes in that a list which was asked for is longer than may be: what it would
// have shown is not known, and whoever waits for a list goes on waiting.
func (s *State) tooLong(now time.Time, kind Kind) {
	if kind == Pods || kind == Services {
		s.crowds[kind].is = true
	}
	s.dueBy(kind, now.Add(crowdedRetry))
}

// makeRoom asks for a list of a kind of which objects were left out, once there is
// room: at once for each tenth of it, and once a minute for less.
func (s *State) makeRoom(now time.Time) {
	pods, services := s.store.Shown()
	most := s.cfg.MaxObjects
	for kind, objects := range map[Kind]int{Pods: pods, Services: services} {
		c := &s.crowds[kind]
		if !c.is || most > 0 && objects >= most {
			continue
		}
		if most > 0 && objects <= c.objects-max(1, most/10) || now.Sub(c.asked) >= crowdedRetry {
			c.asked, c.objects = now, objects
			s.dueBy(kind, now)
		}
	}
}

// isCrowded reports whether objects of any kind were left out.
func (s *State) isCrowded() bool {
	return slices.ContainsFunc(s.crowds[:], func(c crowd) bool { return c.is })
}
