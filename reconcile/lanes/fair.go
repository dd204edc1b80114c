// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"container/list"
	"slices"

	"tributary.dev/tributary/reconcile/plan"
)

// Lane is the urgency of work: the lower the value, the sooner it is served.
type Lane = plan.Lane

const laneCount = int(plan.Bulk) + 1

// seat is a place in a list; the zero value is in none.
type seat struct {
	in *list.List
	at *list.Element
}

func sit(in *list.List, who any) seat { return seat{in, in.PushBack(who)} }

func (s *seat) leave() {
	if s.in != nil {
		s.in.Remove(s.at)
		*s = seat{}
	}
}

// line is what waits in one lane: members alternate, and of each goes first what came first.
type line struct {
	// ring holds what waits of each member, at is the index of the next one.
	ring []queued
	at   int
}

// queued is what waits of a member.
type queued struct {
	member string
	*list.List
}

func (l *line) push(member string, who any) seat {
	at := slices.IndexFunc(l.ring, func(q queued) bool { return q.member == member })
	if at < 0 {
		at, l.ring = len(l.ring), append(l.ring, queued{member, list.New()})
	}
	return sit(l.ring[at].List, who)
}

func (l *line) pop() any {
	for range l.ring {
		in := l.ring[l.at%len(l.ring)].List
		if l.at++; in.Len() > 0 {
			return in.Remove(in.Front())
		}
	}
	return nil
}

// fair is what waits in all lanes. Removals come first; but of each four that are served one
// is an addition if any waits, and of each sixteen one is bulk work.
type fair struct {
	lines [laneCount]line
	// served counts all that were: it decides which lane is next.
	served uint
}

// pop removes and returns what is next in the lanes that may be served; nil if there is none.
func (f *fair) pop(may func(Lane) bool) any {
	first := plan.Removal
	switch round := f.served % 16; {
	case round == 13:
		first = plan.Bulk
	case round%4 == 3:
		first = plan.Addition
	}
	for _, lane := range []Lane{first, plan.Removal, plan.Addition, plan.Bulk} {
		if !may(lane) {
			continue
		}
		if who := f.lines[lane].pop(); who != nil {
			return who
		}
	}
	return nil
}
