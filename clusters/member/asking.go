// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
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
	last uint64 // ID
	// from is when new questions may be asked: later than now in a store that went back. next
	// is not after the moment at which a question is due; zero: none waits.
	from, next time.Time
}

// subject is what a question is about: there is one at most.
type subject struct {
	kind Kind
	key  syncer.Key
}

// question is one that is open.
type question struct {
	Question
	// since is when it was opened, due when it is to be asked next; zero while it is.
	since, due time.Time
	wait       time.Duration
	// addrs are those of a pod, replicas those in which endpoints stand that are in no table.
	addrs    []netip.Addr
	replicas []syncer.Key
}

// of returns the question about an object; nil: none is open.
func (a *asking) of(kind Kind, key syncer.Key) *question {
	if len(a.open) == 0 {
		return nil
	}
	return a.open[subject{kind, key}]
}

// to returns the question that an answer is to; nil: it came too late.
func (a *asking) to(q Question) *question {
	if open := a.of(q.Kind, q.Key); open != nil && open.ID == q.ID {
		return open
	}
	return nil
}

// begin opens a question, or returns the one that is open.
func (a *asking) begin(q Question, o *step) *question {
	if open := a.of(q.Kind, q.Key); open != nil {
		return open
	}
	a.last++
	q.ID = a.last
	asked := &question{Question: q, since: o.now, wait: firstRetry}
	a.open[subject{q.Kind, q.Key}] = asked
	if q.Kind == Services || q.Kind == Endpoints || q.Kind == SlicesOf {
		asked.replicas = []syncer.Key{q.Key}
	}
	if a.from.After(o.now) {
		a.await(asked, a.from)
	} else {
		o.Ask = append(o.Ask, q)
	}
	return asked
}

// close ends a question and returns it; nil: none was open.
func (a *asking) close(kind Kind, key syncer.Key) *question {
	q := a.of(kind, key)
	delete(a.open, subject{kind, key})
	return q
}

// again has a question asked once more, later each time.
func (a *asking) again(q *question, now time.Time) {
	a.await(q, now.Add(q.wait))
	q.wait = min(2*q.wait, slowestRetry)
}

func (a *asking) await(q *question, at time.Time) {
	if q.due = at; a.next.IsZero() || at.Before(a.next) {
		a.next = at
	}
}

// due asks what is to be asked by now.
func (a *asking) due(o *step) {
	a.next = time.Time{}
	for _, q := range a.open {
		switch {
		case q.due.IsZero():
		case q.due.After(o.now):
			a.await(q, q.due)
		default:
			q.due = time.Time{}
			o.Ask = append(o.Ask, q.Question)
		}
	}
}

// postpone begins all questions anew: answers under way tell of a store that is no more.
func (a *asking) postpone(from time.Time) {
	a.from = from
	for _, q := range a.open {
		a.last++
		q.ID, q.wait = a.last, firstRetry
		a.await(q, from)
	}
}

// graveTime is how long what is gone is remembered. API servers do not resume streams that are older.
const graveTime = 10 * time.Minute

// graves remember by UID what is gone, so that nothing that comes late brings it back.
type graves map[string]grave

// grave is one object that is gone. revision is that at which it went, or was known last.
type grave struct {
	subject
	revision uint64
	at       time.Time
}

// judge says of what is shown whether it has gone since, or was gone and is shown nevertheless.
func (g graves) judge(uid string, revision uint64) (late, doubt bool) {
	dead, gone := g[uid]
	return gone && revision <= dead.revision, gone && revision > dead.revision
}

// has reports whether an object of that name is among the gone.
func (g graves) has(s subject) bool {
	for _, dead := range g {
		if dead.subject == s {
			return true
		}
	}
	return false
}
