// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// set is a set that costs little while it is small: a list, and from a number of members on
// the place of each in it. The zero value is empty.
type set[T comparable] struct {
	list []T
	at   map[T]int32 // nil while the list is short
}

// searchable is the length up to which a list is searched from end to end.
const searchable = 16

// add adds a member that is not in the set.
func (s *set[T]) add(x T) {
	s.list = append(s.list, x)
	switch {
	case s.at != nil:
		s.at[x] = int32(len(s.list) - 1)
	case len(s.list) > searchable:
		s.at = make(map[T]int32, 2*len(s.list))
		for i, member := range s.list {
			s.at[member] = int32(i)
		}
	}
}

func (s *set[T]) place(x T) int {
	if s.at == nil {
		return slices.Index(s.list, x)
	}
	if i, found := s.at[x]; found {
		return int(i)
	}
	return -1
}

func (s *set[T]) has(x T) bool { return s.place(x) >= 0 }

// remove removes a member that is in the set; the last one of the list takes its place.
func (s *set[T]) remove(x T) {
	i, last := s.place(x), len(s.list)-1
	moved := s.list[last]
	s.list[i] = moved
	clear(s.list[last:])
	s.list = s.list[:last]
	if s.at != nil {
		s.at[moved] = int32(i)
		delete(s.at, x)
	}
	if last < cap(s.list)/4 {
		s.list = slices.Clip(slices.Clone(s.list))
		if len(s.list) <= searchable {
			s.at = nil
		}
	}
}
