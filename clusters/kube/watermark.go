// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"sync"

	"tributary.dev/tributary/syncer"
)

// Watermark is the last that was heard of one object. A server that did not go back in time
// shows it so, or something newer. That holds also when its revisions have caught up
// with those that were lost, which hides them from every watch.
type Watermark struct {
	Key      syncer.Key
	Revision uint64
	// Gone: that it was deleted.
	Gone bool
}

// Watermarks are what a cluster can be asked for. The zero value is none. Safe for
// concurrent use.
type Watermarks struct {
	mu sync.Mutex
	// newest is the newest of all; left is what it was when a stream ended: what comes
	// by the next stream may be from another past. Zero where there is none.
	newest, left Watermark
	// streams counts those that were opened; following: the last of them is.
	streams   int
	following bool
}

// Heard notes what was heard of an object.
func (m *Watermarks) Heard(watermark Watermark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if watermark.Revision > m.newest.Revision {
		m.newest = watermark
	}
	if m.left.Key == watermark.Key && watermark.Revision > m.left.Revision && m.left != (Watermark{}) {
		m.left = watermark
	}
}

// Listed takes in a complete list. shown tells the revision at which it shows an object,
// 0 when it does not. A list settles what was heard up to its own revision: what it does
// not show is gone, as after a deletion that no stream could tell because its revision
// had expired. It reports whether the list shows an object older than it was, which only
// a store that went back does; then, or when that is known (back), all is forgotten that
// was heard before.
func (m *Watermarks) Listed(revision uint64, newest Watermark, shown func(syncer.Key) uint64, back bool) (regressed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range []*Watermark{&m.left, &m.newest} {
		if *w == (Watermark{}) || revision == 0 || w.Revision > revision {
			continue
		}
		at := shown(w.Key)
		regressed = regressed || at != 0 && at < w.Revision
		w.Gone = w.Gone || at == 0
		if w == &m.left {
			m.left = Watermark{}
		}
	}
	if back || regressed {
		m.newest, m.left = Watermark{}, Watermark{}
	}
	if newest.Revision > m.newest.Revision {
		m.newest = newest
	}
	return regressed
}

// Opened notes that a stream is open.
func (m *Watermarks) Opened() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams, m.following = m.streams+1, true
}

// Closed notes that it has ended.
func (m *Watermarks) Closed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.following = false
	if m.left == (Watermark{}) {
		m.left = m.newest
	}
}

// All returns what the server can be asked for, one or two objects. stream numbers
// the stream that is being followed; 0 while none is.
func (m *Watermarks) All() (all []Watermark, stream int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left != (Watermark{}) {
		all = append(all, m.left)
	}
	if m.newest != (Watermark{}) && m.newest != m.left {
		all = append(all, m.newest)
	}
	if m.following {
		stream = m.streams
	}
	return all, stream
}

// Confirmed says that the server showed a watermark, or something newer.
func (m *Watermarks) Confirmed(watermark Watermark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == watermark {
		m.left = Watermark{}
	}
}

// Heard notes what was heard of an object otherwise, such as in the answer to a write.
func (l *Loop[T]) Heard(w Watermark) { l.watermarks.Heard(w) }

// Watermarks are what the loop heard last; see Watermarks.All.
func (l *Loop[T]) Watermarks() (all []Watermark, stream int) { return l.watermarks.All() }

// Confirmed says that the server showed a watermark, or something newer.
func (l *Loop[T]) Confirmed(watermark Watermark) { l.watermarks.Confirmed(watermark) }

// settle holds a complete list against what was heard, and reports whether it shows
// something older.
func (l *Loop[T]) settle(items []T, revision uint64, back bool) (regressed bool) {
	if l.cfg.Version == nil {
		return false
	}
	var newest Watermark
	for i := range items {
		if v := l.cfg.Version(&items[i]); v > newest.Revision {
			newest = Watermark{Key: l.cfg.Key(&items[i]), Revision: v}
		}
	}
	shown := func(key syncer.Key) uint64 {
		for i := range items {
			if l.cfg.Key(&items[i]) == key {
				return l.cfg.Version(&items[i])
			}
		}
		return 0
	}
	return l.watermarks.Listed(revision, newest, shown, back)
}
