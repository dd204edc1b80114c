// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import "time"

// position is up to where one scope has been seen. A scope is what one stream of the
// cluster shows: all namespaces, called "", or one of those that are read each by itself.
// Streams of several scopes are not in step, so each is resumed from where it was itself.
type position struct {
	rv     string // to resume from; "" of a namespace that no list has shown
	number uint64 // rv as a number; 0 when it is none
	floor  uint64 // revision up to which all was handed on, as a number
}

// positions are those of all scopes. A nil one is the state before the first list.
type positions map[string]position

// listedAt is where a complete list ends: all scopes show its moment.
func listedAt(scopes []string, rv string) positions {
	out := positions{}
	for _, scope := range scopes {
		out[scope] = position{rv: rv, number: number(rv), floor: number(rv)}
	}
	return out
}

// newest is the highest revision seen of any scope; 0 when there is none.
func (p positions) newest() (newest uint64) {
	for _, at := range p {
		newest = max(newest, at.number)
	}
	return newest
}

// shown reports whether a revision of a scope was handed on before.
func (p positions) shown(scope string, revision uint64) bool {
	return revision != 0 && revision <= p[scope].floor
}

// advance moves the revision that a scope resumes from, never backwards where revisions
// can be compared. It reports whether it did.
func (p positions) advance(scope, rv string) bool {
	at, n := p[scope], number(rv)
	if rv == "" || n != 0 && n <= at.number {
		return false
	}
	at.rv, at.number = rv, n
	p[scope] = at
	return true
}

// settle raises the floors to what was handed on.
func (p positions) settle() {
	for scope, at := range p {
		at.floor = max(at.floor, at.number)
		p[scope] = at
	}
}

// ahead puts what a stream had brought in the place of what a list shows, where the
// stream was ahead or nobody can tell.
func (p positions) ahead(stream positions) {
	for scope, at := range p {
		was, known := stream[scope]
		if known && (was.number == 0 || was.number > at.number) {
			was.floor = max(was.floor, at.floor)
			p[scope] = was
		}
	}
}

// lastProofs is when each scope was observed last. A stream lives as long as all of it does: a
// namespace where much happens must not hide that another is frozen.
type lastProofs map[string]time.Time

// note notes that a scope showed life, and returns when the one was that is silent longest.
func (h lastProofs) note(scope string, at time.Time) time.Time {
	h[scope] = at
	for _, other := range h {
		if other.Before(at) {
			at = other
		}
	}
	return at
}
