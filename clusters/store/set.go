// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// set is a set as a list, which costs little while it is small. To remove a member takes a search
// of some nanoseconds for each ten of the others.
type set[T comparable] []T

// add adds a member that is not in the set.
func (s *set[T]) add(x T) { *s = append(*s, x) }

// remove removes a member that is in the set; the last one of the list takes its place.
func (s *set[T]) remove(x T) {
	list := *s
	last := len(list) - 1
	list[slices.Index(list, x)] = list[last]
	clear(list[last:])
	list = list[:last]
	if last < cap(list)/4 {
		list = slices.Clip(slices.Clone(list))
	}
	*s = list
}
