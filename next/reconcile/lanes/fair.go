// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"container/list"
	"slices"

	"tributary.dev/tributary/next/reconcile/plan"
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

// line is what waits in one lane: members take turns, and of each goes first what came first.
type line struct {
	members map[string]*list.List
	// ring holds the members of the map, the next in turn first.
	ring []string
}

func (l *line) push(member string, who any) seat {
	if l.members[member] == nil {
		if l.members == nil {
			l.members = map[string]*list.List{}
		}
		l.members[member] = list.New()
		l.ring = append(l.ring, member)
	}
	return sit(l.members[member], who)
}

func (l *line) waits() bool {
	return slices.ContainsFunc(l.ring, func(member string) bool { return l.members[member].Len() > 0 })
}

// pop takes one out; there must be one.
func (l *line) pop() any {
	for {
		member := l.ring[0]
		l.ring = l.ring[1:]
		in := l.members[member]
		if in.Len() > 0 {
			l.ring = append(l.ring, member)
			return in.Remove(in.Front())
		}
		delete(l.members, member)
	}
}

// fair is what waits in all lanes. Removals come first; but of each four that are served one
// is an addition if any waits, and of each sixteen one is bulk work.
type fair struct {
	lines [laneCount]line
	// served counts all that were: it says whose turn it is.
	served uint
}

// pop takes out what is next in the lanes that may be served; nil if there is none.
func (f *fair) pop(may func(Lane) bool) any {
	order := [laneCount]Lane{plan.Removal, plan.Addition, plan.Bulk}
	switch turn := f.served % 16; {
	case turn == 13:
		order = [laneCount]Lane{plan.Bulk, plan.Removal, plan.Addition}
	case turn%4 == 3:
		order = [laneCount]Lane{plan.Addition, plan.Removal, plan.Bulk}
	}
	for _, lane := range order {
		if f.lines[lane].waits() && may(lane) {
			return f.lines[lane].pop()
		}
	}
	return nil
}
