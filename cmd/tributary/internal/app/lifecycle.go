// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

// phase is where the life of a running instance stands. Two processes of an
// installation, and two sessions of one process, never write at once.
type phase int

const (
	// waiting: the ingress cluster is not reached yet.
	waiting phase = iota
	// listing: it is reached; what stands is being listed. No member is asked before.
	listing
	// standby: everything is followed and nothing written: another process leads, or
	// nobody yet.
	standby
	// leading: this process writes.
	leading
	// exchanging: the configuration leads to the ingress cluster by another session, which
	// is being proven. The one in use serves until then, whether it leads or stands by.
	exchanging
)

func (p phase) String() string {
	return [...]string{"waiting", "listing", "standby", "leading", "exchanging"}[p]
}

// life is the state of a running instance. leads is true while the session in use may
// write; it says what an exchange goes back to.
type life struct {
	phase phase
	leads bool
}

// event is what happens to it.
type event int

const (
	// nothing happened.
	nothing event = iota
	// reached: the session that is tried has been answered.
	reached
	// listed: it has listed what stands.
	listed
	// edited: the configuration leads elsewhere than to the session that is tried, or,
	// while none is, than to the one in use.
	edited
	// restored: it leads to the one in use again.
	restored
	// elected and deposed: the session in use leads, or does no longer.
	elected
	deposed
)

// effect is what is to be done about it.
type effect int

const (
	// wait: nothing.
	wait effect = iota
	// try: give up the session that is tried, if there is one, and try one as it is
	// configured now.
	try
	// giveUp: give up the session that is tried.
	giveUp
	// begin: use the session that was tried, make the members, take part in the election.
	begin
	// exchange: let the writers of the session in use end, and use the one that was tried.
	exchange
)

// next is the transition function: where an event leads, and what is to be done on the
// way. An event that has no meaning in a phase changes nothing. It is pure.
func (l life) next(e event) (life, effect) {
	switch {
	case l.phase == waiting && e == reached:
		return life{phase: listing}, wait
	case l.phase == listing && e == listed:
		return life{phase: standby}, begin
	case l.phase <= listing && e == edited:
		return life{phase: waiting}, try
	case l.phase <= listing:
		return l, wait
	case e == edited:
		return life{phase: exchanging, leads: l.leads}, try
	case l.phase == exchanging && e == restored:
		return l.settled(l.leads), giveUp
	case l.phase == exchanging && e == listed:
		return life{phase: standby}, exchange
	case e == elected || e == deposed:
		if l.phase == exchanging {
			return life{phase: exchanging, leads: e == elected}, wait
		}
		return l.settled(e == elected), wait
	}
	return l, wait
}

// settled is a life in which no other session is tried.
func (l life) settled(leads bool) life {
	if leads {
		return life{phase: leading, leads: true}
	}
	return life{phase: standby}
}

// facts are what events are told from.
type facts struct {
	// wanted is the session that the configuration leads to, inUse and tried are those
	// that there are; zero: there is none.
	wanted, inUse, tried sessionKey
	// reached and listed are those of the session that is tried, leads of that in use.
	reached, listed, leads bool
}

// event is the next thing that has happened and is not in l yet. It is pure.
func (f facts) event(l life) event {
	serves := l.phase >= standby
	switch {
	case serves && l.leads != f.leads:
		if f.leads {
			return elected
		}
		return deposed
	case l.phase == exchanging && f.wanted == f.inUse:
		return restored
	case serves && l.phase != exchanging && f.wanted != f.inUse:
		return edited
	case (l.phase == exchanging || !serves) && f.tried != f.wanted:
		return edited
	case l.phase == waiting && f.reached:
		return reached
	case (l.phase == listing || l.phase == exchanging) && f.listed:
		return listed
	}
	return nothing
}
