// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

// sequence tells news from what is older than what is held, by revision. A
// server that repeats events or sends old ones (a cache behind a load balancer
// does both) must neither undo a change nor bring a deleted object back.
//
//   - An object that is held is compared with its own revision: lower is old,
//     equal is a repetition and goes through, where it is found to change nothing.
//   - An object that is not held has no revision left to compare with. It is old
//     when its revision is not above that of the last deletion or list: a stream
//     is ordered, so a creation that comes after a deletion has a higher revision.
//   - Revision 0 (not a number) is never old.
//
// A complete list is the truth whatever the revisions were before, and lowers
// them where it must: after an etcd was restored, they are lower.
type sequence struct {
	// floor is the highest revision at which objects are known to be gone.
	floor uint64
}

// stale reports whether revision rv of an object is older than what is known;
// held is the revision of the object that is held, if any.
func (q *sequence) stale(rv uint64, isHeld bool, held uint64) bool {
	if isHeld {
		return rv != 0 && rv < held
	}
	return rv != 0 && rv <= q.floor
}

// deleted notes a deletion.
func (q *sequence) deleted(rv uint64) { q.floor = max(q.floor, rv) }

// replaced notes a complete list.
func (q *sequence) replaced(rv uint64) { q.floor = rv }
