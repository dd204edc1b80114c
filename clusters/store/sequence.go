// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
)

// table is what is known of a kind as a whole: it tells news from what is older than
// what is held, by revision, and what the last list showed from what it did not. A
// server that repeats events or sends old ones (a cache behind a load balancer does
// both) must neither undo a change nor bring a deleted object back.
//
//   - An object that is held is compared with its own revision: lower is old,
//     equal is a repetition and goes through, where it is found to change nothing.
//   - An object that is not held has no revision left to compare with. It is old
//     when its revision is not above that of the last list, or of the last deletion in its
//     namespace: a stream is ordered, so a creation that comes after a deletion has a
//     higher revision. Where each namespace has a stream of its own, one is not in step
//     with another: a deletion in one says nothing of what another has yet to tell.
//   - Revision 0 (not a number) is never old.
type table struct {
	// listed is the revision of the last list: what it does not show is gone by then; leftOut
	// that of namespaces of which the last one said nothing.
	listed  uint64
	leftOut map[string]uint64
	// deleted has the revision of the last deletion in each namespace, where it is above
	// listed.
	deleted map[string]uint64
	// list counts lists; each object has the number of that which showed it last.
	list uint16
}

// mostDeleted is how many namespaces a table tells apart. A member with a stream for each
// has far fewer; one stream that brings more is in order by itself.
const mostDeleted = 4096

// stale reports whether revision rv of an object in a namespace is older than what is
// known; held is the revision of the object that is held, if any.
func (t *table) stale(namespace string, rv uint64, isHeld bool, held uint64) bool {
	if isHeld {
		return rv != 0 && rv < held
	}
	return rv != 0 && rv <= max(t.listedIn(namespace), t.deleted[namespace])
}

// listedIn is the revision of the last list that spoke of a namespace.
func (t *table) listedIn(namespace string) uint64 {
	if rv, is := t.leftOut[namespace]; is {
		return rv
	}
	return t.listed
}

// lists reports whether the last list must show an object that is there at a revision.
func (t *table) lists(namespace string, rv uint64) bool {
	return rv != 0 && rv <= t.listedIn(namespace)
}

// remove notes a deletion.
func (t *table) remove(namespace string, rv uint64) {
	if rv <= max(t.listedIn(namespace), t.deleted[namespace]) {
		return
	}
	if t.deleted == nil {
		t.deleted = map[string]uint64{}
	}
	t.deleted[namespace] = rv
	if len(t.deleted) > mostDeleted {
		t.listed, t.deleted = slices.Max(slices.Collect(maps.Values(t.deleted))), nil
	}
}

// begin notes a list that is complete, but for some namespaces. One that is older than what
// was seen is the truth about revisions nevertheless: after an etcd was restored, they are
// lower.
func (t *table) begin(rv uint64, older bool, leftOut ...string) {
	t.list++
	var left map[string]uint64
	for _, namespace := range leftOut {
		if left == nil {
			left = map[string]uint64{}
		}
		if left[namespace] = t.listedIn(namespace); older {
			left[namespace] = min(left[namespace], rv)
		}
	}
	t.leftOut = left
	if older {
		t.listed, t.deleted = rv, nil
		return
	}
	t.listed = max(t.listed, rv)
	maps.DeleteFunc(t.deleted, func(namespace string, deleted uint64) bool { return deleted <= t.listedIn(namespace) })
}

// mark notes that the list shows an object. Where revisions went back, that of the object
// does, too, or its next event would look old.
func (t *table) mark(list *uint16, held *uint64, rv uint64, older bool) {
	if *list = t.list; older {
		*held = min(*held, rv)
	}
}

// lacks reports whether a list at revision rv lacks an object: it has not shown it,
// and the object is not newer.
func (t *table) lacks(list uint16, object, rv uint64, older bool) bool {
	return list != t.list && (older || rv == 0 || object <= rv)
}
