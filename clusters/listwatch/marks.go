// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"sync"

	"tributary.dev/tributary/syncer"
)

// Mark is the last that was heard of one object. A server that did not go back in time
// shows it so, or something newer. That holds also when its revisions have caught up
// with those that were lost, which hides them from every watch.
type Mark struct {
	Key      syncer.Key
	Revision uint64
	// Gone: that it was deleted.
	Gone bool
}

// marks are what can be asked for. Safe for concurrent use.
type marks struct {
	mu sync.Mutex
	// newest is the newest of all; left is what it was when a stream ended: what comes
	// by the next stream may be from another past. Zero where there is none.
	newest, left Mark
	// streams counts those that were opened; following: the last of them is.
	streams   int
	following bool
}

// heard notes an event.
func (m *marks) heard(mark Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mark.Revision > m.newest.Revision {
		m.newest = mark
	}
	if m.left.Key == mark.Key && mark.Revision > m.left.Revision && m.left != (Mark{}) {
		m.left = mark
	}
}

// listed notes the newest object of a list. A list that goes back makes all be
// forgotten that was heard before.
func (m *marks) listed(mark Mark, back bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if back {
		m.newest, m.left = Mark{}, Mark{}
	}
	if mark.Revision > m.newest.Revision {
		m.newest = mark
	}
}

func (m *marks) opened() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams, m.following = m.streams+1, true
}

func (m *marks) closed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.following = false
	if m.left == (Mark{}) {
		m.left = m.newest
	}
}

// Marks returns what the server can be asked for, one or two objects. stream numbers
// the stream that is being followed; 0 while none is.
func (l *Loop[T]) Marks() (all []Mark, stream int) {
	m := &l.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left != (Mark{}) {
		all = append(all, m.left)
	}
	if m.newest != (Mark{}) && m.newest != m.left {
		all = append(all, m.newest)
	}
	if m.following {
		stream = m.streams
	}
	return all, stream
}

// Confirmed says that the server showed a mark, or something newer.
func (l *Loop[T]) Confirmed(mark Mark) {
	m := &l.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == mark {
		m.left = Mark{}
	}
}

// newestOf returns the newest object of a list; zero where versions are not known.
func (l *Loop[T]) newestOf(items []T) (newest Mark) {
	if l.cfg.Version == nil {
		return newest
	}
	for i := range items {
		if v := l.cfg.Version(&items[i]); v > newest.Revision {
			newest = Mark{Key: l.cfg.Key(&items[i]), Revision: v}
		}
	}
	return newest
}
