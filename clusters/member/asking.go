// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// How long a question waits that had no answer, and those of a store that went back.
const (
	firstRetry   = 500 * time.Millisecond
	slowestRetry = 30 * time.Second
	afterRestore = 60 * time.Second
)

// asking are the questions that are open: from when something is missing until it is seen, or gone.
type asking struct {
	open map[subject]*question
	last uint64    // ID
	from time.Time // when new questions may be asked: later than now in a store that went back
	// at are the pods that are asked for, by their addresses. Some may have had their answer.
	at map[netip.Addr][]syncer.Key
}

// subject is what a question is about: there is one at most.
type subject struct {
	kind Kind
	key  syncer.Key
}

// question is one that is open. since is when it was opened, due when it is to be asked next;
// zero while it is. addrs are those of a pod that no live pod has shown since.
type question struct {
	Question
	since, due time.Time
	wait       time.Duration
	addrs      []netip.Addr
}

// of returns the question about an object; nil: none is open.
func (a *asking) of(kind Kind, key syncer.Key) *question { return a.open[subject{kind, key}] }

// about reports whether the pod of an endpoint that stands is asked for, and has its address yet.
func (a *asking) about(e *syncer.Endpoint) bool {
	q := a.of(Pods, e.Target.Key)
	return q != nil && q.UID == e.Target.UID && slices.Contains(q.addrs, e.Addr)
}

// begin opens a question, or returns the one that is open.
func (a *asking) begin(kind Kind, key syncer.Key, uid string, o *step) *question {
	if open := a.of(kind, key); open != nil {
		return open
	}
	a.last++
	q := &question{Question: Question{ID: a.last, Kind: kind, Key: key, UID: uid}, since: o.now, wait: firstRetry}
	a.open[subject{kind, key}] = q
	if q.due = a.from; !a.from.After(o.now) {
		q.ask(o)
	}
	return q
}

// lies notes an address at which a pod that is asked for may be.
func (a *asking) lies(q *question, addr netip.Addr) {
	q.addrs = append(q.addrs, addr)
	a.at[addr] = append(a.at[addr], q.Key)
}

// close ends a question, if one is open.
func (a *asking) close(kind Kind, key syncer.Key) { delete(a.open, subject{kind, key}) }

// ask asks a question. Until it had its answer it is not due again.
func (q *question) ask(o *step) {
	q.due = time.Time{}
	o.Ask = append(o.Ask, q.Question)
}

// again has a question asked once more, later each time.
func (q *question) again(o *step) {
	q.due = o.now.Add(q.wait)
	q.wait = min(2*q.wait, slowestRetry)
}

// renew has a question that is under way asked anew: its answer may be older than a list that has come since.
func (a *asking) renew(q *question, o *step) {
	if q.due.IsZero() {
		a.last++
		q.ID = a.last
		q.ask(o)
	}
}

// ask asks what is to be asked by now.
func (a *asking) ask(o *step) {
	for _, q := range a.open {
		if !q.due.IsZero() && !q.due.After(o.now) {
			q.ask(o)
		}
	}
}

// postpone begins all questions anew: answers under way tell of a store that is no more.
func (a *asking) postpone(o *step) {
	a.from = o.now.Add(afterRestore)
	for _, q := range a.open {
		q.ID += a.last // a new one, in the same order
		q.wait, q.due = firstRetry, a.from
	}
	a.last *= 2
}
