// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import "tributary.dev/tributary/reconcile/plan"

// mark is the last that was heard of one object. A store that did not go back in time
// shows it so, or something newer. That holds also when its revisions have caught up
// with those that were lost, which hides them from every watch.
type mark struct {
	id   objectID
	rv   uint64
	gone bool
}

// marks are what a kind can be asked for: newest is the newest of all, left is what
// that was when a watch ended, for what comes by the next one, and our own writes, may
// be from another past. Zero where there is none.
type marks struct{ newest, left mark }

func (m *marks) heard(now mark) {
	if now.rv > m.newest.rv {
		m.newest = now
	}
	if m.left.id == now.id && now.rv > m.left.rv && m.left.rv != 0 {
		m.left = now
	}
}

// lockedHeard notes what was heard of an object.
func (v *view) lockedHeard(now mark) {
	m := v.marks[now.id.kind]
	m.heard(now)
	v.marks[now.id.kind] = m
}

// heardGone notes the version at which an object was deleted.
func (v *view) heardGone(id objectID, rv uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lockedHeard(mark{id: id, rv: rv, gone: true})
}

// left notes that the watch of a kind has ended.
func (v *view) left(kind plan.Kind) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.marks[kind]
	if m.left.rv == 0 {
		m.left = m.newest
		v.marks[kind] = m
	}
}

// marked returns what the store can be asked for, at most two objects of a kind.
func (v *view) marked(kind plan.Kind) (all []mark) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	m := v.marks[kind]
	if m.left.rv != 0 {
		all = append(all, m.left)
	}
	if m.newest.rv != 0 && m.newest != m.left {
		all = append(all, m.newest)
	}
	return all
}

// confirmed says that the store showed a mark, or something newer.
func (v *view) confirmed(kind plan.Kind, one mark) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.marks[kind]
	if m.left == one {
		m.left = mark{}
		v.marks[kind] = m
	}
}
