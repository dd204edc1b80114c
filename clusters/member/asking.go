// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

const (
	// How long a question waits that was not answered, and all of them after a store went back.
	firstRetry   = 500 * time.Millisecond
	slowestRetry = 30 * time.Second
	afterRestore = 60 * time.Second
	// mostAsked is how many questions are under way at most.
	mostAsked = 100
)

// asking are the open questions. One is open from when an object is missing until it is seen, or gone.
type asking struct {
	open map[subject]*question
	last uint64    // ID
	from time.Time // when new questions may be asked: in the future after a store went back
	// at are the pods that are asked for, by their addresses. Some may have been answered.
	at map[netip.Addr][]syncer.Key
	// waiting are the questions that are due and not under way, asked is how many are: mostAsked-less at
	// most, which is halved after each answer that the server is busy, and one more after every other.
	waiting     []Question
	asked, less int
}

// subject is what a question is about. At most one question is open about each.
type subject struct {
	kind Kind
	key  syncer.Key
}

// question is an open question. since is when it was opened, due when it is asked next; zero: it
// waits or is under way. addrs are those addresses of a pod that no live pod has shown since.
type question struct {
	Question
	since, due time.Time
	wait       time.Duration
	addrs      []netip.Addr
}

// of returns the question about an object; nil: none is open.
func (a *asking) of(kind Kind, key syncer.Key) *question { return a.open[subject{kind, key}] }

// about reports whether the pod of a published endpoint is asked for, and still has its address.
func (a *asking) about(e *syncer.Endpoint) bool {
	q := a.of(Pods, e.Target.Key)
	return q != nil && q.UID == e.Target.UID && slices.Contains(q.addrs, e.Addr)
}

// begin returns the open question about an object, and opens one if there is none.
func (a *asking) begin(kind Kind, key syncer.Key, uid string, o *step) *question {
	if open := a.of(kind, key); open != nil {
		return open
	}
	a.last++
	q := &question{Question: Question{ID: a.last, Kind: kind, Key: key, UID: uid}, since: o.now, wait: firstRetry}
	a.open[subject{kind, key}] = q
	q.due = a.from
	if !a.from.After(o.now) {
		q.ask(o)
	}
	return q
}

// addAddr adds an address of a pod that is asked for.
func (a *asking) addAddr(q *question, addr netip.Addr) {
	q.addrs = append(q.addrs, addr)
	a.at[addr] = append(a.at[addr], q.Key)
}

// close ends a question, if one is open.
func (a *asking) close(kind Kind, key syncer.Key) { delete(a.open, subject{kind, key}) }

// ask has a question asked. It is not due again before it is answered.
func (q *question) ask(o *step) {
	q.due = time.Time{}
	o.Ask = append(o.Ask, q.Question)
}

// again schedules a question once more, later each time.
func (q *question) again(o *step) {
	q.due = o.now.Add(q.wait)
	q.wait = min(2*q.wait, slowestRetry)
}

// renew asks a question again that is under way: its answer may be older than a list that has come since.
func (a *asking) renew(q *question, o *step) {
	if q.due.IsZero() {
		a.last++
		q.ID = a.last
		q.ask(o)
	}
}

// postpone restarts all questions: answers under way are about a store that no longer exists.
func (a *asking) postpone(o *step) {
	a.from = o.now.Add(afterRestore)
	for _, q := range a.open {
		q.ID += a.last // a new one, in the same order
		q.wait, q.due = firstRetry, a.from
	}
	a.last *= 2
}
