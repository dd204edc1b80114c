// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import "time"

// full reports whether there is no room for one more. What the member adds from
// then on is not seen; what it removes and changes is.
func (s *State) full(kind Kind, objects int) bool {
	if s.cfg.MaxObjects == 0 || objects < s.cfg.MaxObjects {
		return false
	}
	s.crowded[kind] = true
	return true
}

// crowdedRetry is the time between two lists of a kind that has room again, but little.
const crowdedRetry = time.Minute

// makeRoom asks for a list of a kind of which objects were left out, once there is
// room.
func (s *State) makeRoom(now time.Time) {
	pods, services := s.store.Size()
	most := s.cfg.MaxObjects
	for kind, objects := range map[Kind]int{Pods: pods, Services: services} {
		if !s.crowded[kind] || most > 0 && objects >= most {
			continue
		}
		if most == 0 || objects <= most-most/10 || now.Sub(s.crowdedAt[kind]) >= crowdedRetry {
			s.crowded[kind], s.crowdedAt[kind] = false, now
			s.dueBy(kind, now)
		}
	}
}
