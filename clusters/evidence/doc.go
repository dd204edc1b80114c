// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence holds what one member shows and decides how far it is believed.
// It is pure: State.Step takes one event and the moment it came, changes the state,
// and returns what is to be done about it. No lock, no clock, no client, no log, no
// goroutine; the dice that choose a sample come from a seed.
//
// A newcomer starts at event.go (all that can happen), effect.go (all that can come of
// it) and state.go (the state and the big switch). Objects of all kinds are taken in the
// same way, object.go what events say, list.go what complete lists show, in pieces;
// pods.go, services.go and manual.go are the tables of the kinds. Then, one idea a file:
// absence.go keeps what lists lack, judge.go says how much of it may go, inquiry.go asks
// for the rest, answer.go takes in what comes of that, taken.go for what went and may be
// there; rules.go and rulework.go put rules in force, in pieces; baseline.go is what stands
// in the ingress cluster before a start, baselinedrop.go what a member's words take from
// it, start.go judges that, share.go adds it to what the member gives; quarantine.go is
// about stores that went back in time; readiness.go and panic.go keep pods ready,
// damping.go keeps those that flap not ready, waiting.go is about those that wait for that;
// room.go is about too many objects, leftout.go about namespaces that are refused or fail, outofsight.go about their pods; health.go
// says how the member stands; holds.go lists all that is kept; takeover.go ends what was
// released where another process wrote until now, departed.go is what a state that begins
// anew still knows.
//
// # The rules
//
// What a member is seen to do, and what an object says of itself in an event, in any
// list or in an answer, is hard evidence, unless it is older than what is known of that
// object: it passes in the same step. That a list lacks an object is soft: what a replica
// loses by it is compared, net of replacements, with what it had, and what exceeds the
// limits is asked for by name, and kept for that replica alone. Gone means gone. There means
// that the list lies: then nothing that it lacks is believed, and what went meanwhile comes
// back. Only panic and silent nodes keep a pod ready that says that it is not. An address
// has one owner: no doubtful object keeps one that a live pod shows.
//
// What never happens here: a deletion that was seen waits for anything; a pass over
// all objects for one event; a panic, whatever the events.
package evidence
