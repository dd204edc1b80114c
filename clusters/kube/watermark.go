// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"tributary.dev/tributary/syncer"
)

// Watermark is the last that was observed of one object. A server that did not go back in time
// shows it so, or something newer. That holds also when its revisions have caught up
// with those that were lost, which hides them from every watch.
type Watermark struct {
	Key      syncer.Key
	Revision uint64
	// Gone: that it was deleted, and Revision is later than its last state.
	Gone bool
	// Made: a stream has shown how it was made. Once it is deleted, it tells nothing of a
	// store that was restored to before that.
	Made bool
}

// unconfirmed is a watermark that the stream does not speak for. An answer stays one until
// the stream shows it: the store may be restored after the server has confirmed it.
type unconfirmed struct {
	Watermark
	answer bool
	// asked counts the times that the server has confirmed it.
	asked int
}

// Watermarks are what a cluster can be asked for. One stream shows one past, so what it
// brings stands for what it brought before. What was observed otherwise may be of another
// past than what is observed next; it is displaced by nothing, and forgotten when the server
// has shown it. The zero value is none. Safe for concurrent use.
type Watermarks struct {
	mu sync.Mutex
	// recent are the last changes and the last deletions that streams brought, each of
	// another object, the newest last, of those that were made meanwhile and of the others:
	// if any before was lost, they were.
	recent []Watermark
	// made are the revisions of objects that stand and that a stream has shown to be made
	// since the last list.
	made map[syncer.Key]uint64
	// unconfirmed are, by object, the answers that no stream has shown yet, and what was
	// recent when one stream took the place of another and is still to be asked for.
	unconfirmed map[syncer.Key]unconfirmed
	// streams counts those that were opened; following: the last of them is. leftOut are the
	// namespaces of which it tells nothing, not even that something is gone.
	streams   int
	following bool
	leftOut   map[string]bool
}

const (
	// recentLimit is how many of each speak for a stream that has ended: one alone may have
	// been written again since.
	recentLimit = 3
	// madeLimit is how many objects are known to be made.
	madeLimit = 256
	// askedLimit is how many of the unconfirmed are asked for at once, unconfirmedLimit how
	// many are kept: there are as many where nobody may ask, or in a storm of writes.
	askedLimit       = 4
	unconfirmedLimit = 1000
)

// Observed notes what the stream brought of an object.
func (m *Watermarks) Observed(w Watermark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, ok := m.unconfirmed[w.Key]; ok && before.Revision <= w.Revision {
		delete(m.unconfirmed, w.Key)
	}
	if at := slices.IndexFunc(m.recent, func(r Watermark) bool { return r.Key == w.Key }); at >= 0 {
		if m.recent[at].Revision >= w.Revision {
			return
		}
		m.recent = slices.Delete(m.recent, at, at+1)
	}
	_, made := m.made[w.Key]
	if w.Made = w.Made || made; w.Gone {
		delete(m.made, w.Key)
	} else if made || w.Made && len(m.made) < madeLimit {
		if m.made == nil {
			m.made = map[syncer.Key]uint64{}
		}
		m.made[w.Key] = w.Revision
	}
	for i, alike := len(m.recent)-1, 1; i >= 0; i-- {
		if m.recent[i].Gone != w.Gone || m.recent[i].Made != w.Made {
			continue
		}
		if alike++; alike > recentLimit {
			m.recent = slices.Delete(m.recent, i, i+1)
		}
	}
	m.recent = append(m.recent, w)
}

// Answered notes what the answer to a write showed of an object.
func (m *Watermarks) Answered(w Watermark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.ContainsFunc(m.recent, func(r Watermark) bool { return r.Key == w.Key && r.Revision >= w.Revision }) {
		m.lockedKeep(w, true)
	}
}

func (m *Watermarks) lockedKeep(w Watermark, answer bool) {
	before, known := m.unconfirmed[w.Key]
	if before.Revision > w.Revision || !known && len(m.unconfirmed) >= unconfirmedLimit {
		return
	}
	if m.unconfirmed == nil {
		m.unconfirmed = map[syncer.Key]unconfirmed{}
	}
	m.unconfirmed[w.Key] = unconfirmed{Watermark: w, answer: answer}
}

func (m *Watermarks) lockedNewest() (newest Watermark) {
	if n := len(m.recent); n > 0 {
		newest = m.recent[n-1]
	}
	return newest
}

// Listed takes in a complete list. show sets the revisions at which it shows the objects
// that are keys already; 0: it does not. A list settles what was observed up to its own revision: what it does
// not show is gone, as after a deletion that no stream could tell because its revision
// had expired. It reports whether the list shows an object older than it was, which only
// a store that went back does; then, or when that is known (back), all is forgotten that
// was observed before.
func (m *Watermarks) Listed(revision uint64, newest Watermark, show func(map[syncer.Key]uint64), back bool) (regressed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	shown := map[syncer.Key]uint64{}
	for key := range m.unconfirmed {
		shown[key] = 0
	}
	for _, w := range m.recent {
		shown[w.Key] = 0
	}
	show(shown)
	settle := func(w *Watermark) bool {
		if revision == 0 || w.Revision > revision {
			return false
		}
		at := shown[w.Key]
		regressed = regressed || at != 0 && at < w.Revision
		w.Gone = w.Gone || at == 0
		return true
	}
	maps.DeleteFunc(m.unconfirmed, func(_ syncer.Key, w unconfirmed) bool { return settle(&w.Watermark) })
	for i := range m.recent {
		settle(&m.recent[i])
	}
	m.recent, m.made = m.recent[max(0, len(m.recent)-1):], nil
	if back || regressed {
		m.recent, m.unconfirmed = nil, nil
	}
	if newest.Revision > m.lockedNewest().Revision {
		m.recent = []Watermark{newest}
	}
	return regressed
}

// Opened notes that a stream is open, but for some namespaces. It may show another past than
// the one before.
func (m *Watermarks) Opened(refused map[string]error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.recent {
		m.lockedKeep(w, false)
	}
	var last Watermark // it may not be among the recent: others were made, and are gone
	for key, revision := range m.made {
		if revision > last.Revision {
			last = Watermark{Key: key, Revision: revision, Made: true}
		}
	}
	if last.Revision != 0 {
		m.lockedKeep(last, false)
	}
	m.streams, m.following, m.leftOut = m.streams+1, true, map[string]bool{}
	for namespace := range refused {
		m.leftOut[namespace] = true
	}
}

// Closed notes that it has ended.
func (m *Watermarks) Closed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.following = false
}

// All returns what the server can be asked for: the newest, and a few of the unconfirmed,
// the oldest first, for a stream that gets on shows the others: of what the stream shows.
// stream numbers the stream that is being followed; 0 while none is.
func (m *Watermarks) All() (all []Watermark, stream int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range slices.SortedFunc(maps.Values(m.unconfirmed), func(a, b unconfirmed) int {
		return cmp.Or(cmp.Compare(a.asked, b.asked), cmp.Compare(a.Revision, b.Revision))
	}) {
		if len(all) < askedLimit && !m.leftOut[u.Key.Namespace] {
			all = append(all, u.Watermark)
		}
	}
	for _, newest := range slices.Backward(m.recent) {
		if m.leftOut[newest.Key.Namespace] {
			continue
		}
		if !slices.Contains(all, newest) {
			all = append(all, newest)
		}
		break
	}
	if m.following {
		stream = m.streams
	}
	return all, stream
}

// Confirmed says that the server showed a watermark, or something newer.
func (m *Watermarks) Confirmed(w Watermark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.unconfirmed[w.Key]
	switch {
	case u.Watermark != w:
	case u.answer:
		u.asked++
		m.unconfirmed[w.Key] = u
	default:
		delete(m.unconfirmed, w.Key)
	}
}

// Answered notes what the answer to a write showed of an object.
func (l *Loop[T]) Answered(w Watermark) { l.watermarks.Answered(w) }

// Watermarks are what the server can be asked for; see Watermarks.All.
func (l *Loop[T]) Watermarks() (all []Watermark, stream int) { return l.watermarks.All() }

// Confirmed says that the server showed a watermark, or something newer.
func (l *Loop[T]) Confirmed(watermark Watermark) { l.watermarks.Confirmed(watermark) }

// settle holds a complete list against what was observed, and reports whether it shows
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
	show := func(shown map[syncer.Key]uint64) {
		for i := range items {
			key := l.cfg.Key(&items[i])
			if _, wanted := shown[key]; wanted {
				shown[key] = l.cfg.Version(&items[i])
			}
		}
	}
	return l.watermarks.Listed(revision, newest, show, back)
}
