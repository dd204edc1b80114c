// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

// table is what is known of a kind as a whole: it tells news from what is older than
// what is held, by revision, and what the last list showed from what it did not. A
// server that repeats events or sends old ones (a cache behind a load balancer does
// both) must neither undo a change nor bring a deleted object back.
//
//   - An object that is held is compared with its own revision: lower is old,
//     equal is a repetition and goes through, where it is found to change nothing.
//   - An object that is not held has no revision left to compare with. It is old
//     when its revision is not above that of the last deletion or list: a stream
//     is ordered, so a creation that comes after a deletion has a higher revision.
//   - Revision 0 (not a number) is never old.
type table struct {
	// floor is the highest revision at which objects are known to be gone.
	floor uint64
	// list counts lists; each object has the number of that which showed it last.
	list uint16
}

// stale reports whether revision rv of an object is older than what is known;
// held is the revision of the object that is held, if any.
func (t *table) stale(rv uint64, isHeld bool, held uint64) bool {
	if isHeld {
		return rv != 0 && rv < held
	}
	return rv != 0 && rv <= t.floor
}

// deleted notes a deletion.
func (t *table) deleted(rv uint64) { t.floor = max(t.floor, rv) }

// begin notes a complete list. One that is older than what was seen is the truth
// about revisions nevertheless: after an etcd was restored, they are lower.
func (t *table) begin(rv uint64, older bool) {
	t.list++
	if older {
		t.floor = rv
	} else {
		t.floor = max(t.floor, rv)
	}
}

// lacks reports whether a list at revision rv lacks an object: it has not shown it,
// and the object is not newer.
func (t *table) lacks(list uint16, object, rv uint64, older bool) bool {
	return list != t.list && (older || rv == 0 || object <= rv)
}
