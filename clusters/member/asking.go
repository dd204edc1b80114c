// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"time"

	"tributary.dev/tributary/next/syncer"
)

// How long a question waits that had no answer, and after a store that went back.
const (
	firstRetry   = 500 * time.Millisecond
	slowestRetry = 30 * time.Second
	afterRestore = 60 * time.Second
)

// asking are the questions that are open. Each is from the moment at which something is
// missing until it is seen, or gone.
type asking struct {
	open map[subject]*question
	last uint64 // ID
	// from is when new questions may be asked: later than now in a store that went back.
	from time.Time
	// next is not after the moment at which a question is due; zero: none waits.
	next time.Time
}

// subject is what a question is about: there is one at most.
type subject struct {
	kind      Kind
	key       syncer.Key
	ofService bool
}

// question is one that is open.
type question struct {
	Question
	// since is when it was opened, due when it is to be asked next; zero while it is.
	since, due time.Time
	wait       time.Duration
	// addrs are those of a pod that is missing.
	addrs []netip.Addr
	// replicas have endpoints of it standing that are in no table.
	replicas []syncer.Key
}

func newAsking() *asking { return &asking{open: map[subject]*question{}} }

func (q *question) subject() subject { return subject{q.Kind, q.Key, q.OfService} }

func (a *asking) empty() bool { return len(a.open) == 0 }

// of returns the question whether an object is there; nil: none is open.
func (a *asking) of(kind Kind, key syncer.Key) *question {
	if len(a.open) == 0 {
		return nil
	}
	return a.open[subject{kind: kind, key: key}]
}

// begin opens a question, or returns the one that is open.
func (a *asking) begin(q Question, o *step) *question {
	s := subject{q.Kind, q.Key, q.OfService}
	if known := a.open[s]; known != nil {
		return known
	}
	a.last++
	q.ID = a.last
	asked := &question{Question: q, since: o.now, wait: firstRetry}
	a.open[s] = asked
	if q.Kind == Services || q.Kind == Endpoints || q.OfService {
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
func (a *asking) close(s subject) *question {
	q := a.open[s]
	delete(a.open, s)
	return q
}

// closes returns the question that an answer is to; nil: it came too late.
func (a *asking) closes(answer *Answer) *question {
	q := a.open[subject{answer.Kind, answer.Key, answer.OfService}]
	if q == nil || q.ID != answer.ID {
		return nil
	}
	return q
}

// again has a question asked once more, later each time.
func (a *asking) again(q *question, now time.Time) {
	a.await(q, now.Add(q.wait))
	q.wait = min(2*q.wait, slowestRetry)
}

// await has a question asked at a moment.
func (a *asking) await(q *question, at time.Time) {
	if q.due = at; a.next.IsZero() || at.Before(a.next) {
		a.next = at
	}
}

// due asks what is to be asked by now.
func (a *asking) due(now time.Time, o *step) {
	a.next = time.Time{}
	for _, q := range a.open {
		switch {
		case q.due.IsZero():
		case q.due.After(now):
			a.await(q, q.due)
		default:
			q.due = time.Time{}
			o.Ask = append(o.Ask, q.Question)
		}
	}
}

// postpone begins all questions anew at a moment: answers under way tell of a store that
// is no more.
func (a *asking) postpone(from time.Time) {
	a.from = from
	for _, q := range a.open {
		a.last++
		q.ID, q.wait = a.last, firstRetry
		a.await(q, from)
	}
}

// drop ends all questions about what is covered.
func (a *asking) drop(covers func(syncer.Key) bool) {
	for s := range a.open {
		if covers(s.key) {
			delete(a.open, s)
		}
	}
}

// oldest is since when the oldest question is open; zero: none is.
func (a *asking) oldest() (since time.Time) {
	for _, q := range a.open {
		if since.IsZero() || q.since.Before(since) {
			since = q.since
		}
	}
	return since
}
