// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"container/list"
	"slices"

	"tributary.dev/tributary/reconcile/plan"
)

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
	// waiting is what waits of each of the members, at is the index of the next one.
	members []string
	waiting []*list.List
	at      int
}

func (l *line) push(member string, who any) seat {
	at := slices.Index(l.members, member)
	if at < 0 {
		at, l.members, l.waiting = len(l.members), append(l.members, member), append(l.waiting, list.New())
	}
	return sit(l.waiting[at], who)
}

func (l *line) pop() any {
	for range l.waiting {
		in := l.waiting[l.at%len(l.waiting)]
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
func (f *fair) pop(may func(plan.Lane) bool) any {
	first := plan.Removal
	switch round := f.served % 16; {
	case round == 13:
		first = plan.Bulk
	case round%4 == 3:
		first = plan.Addition
	}
	for _, lane := range []plan.Lane{first, plan.Removal, plan.Addition, plan.Bulk} {
		if !may(lane) {
			continue
		}
		if who := f.lines[lane].pop(); who != nil {
			return who
		}
	}
	return nil
}
