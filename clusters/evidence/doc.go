// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence holds what one member shows and decides how far it is believed.
// It is pure: State.Step takes one event and the moment it came, changes the state,
// and returns what is to be done about it. No lock, no clock, no client, no log, no
// goroutine; the dice that choose a sample come from a seed.
//
// A newcomer starts at event.go (all that can happen), effect.go (all that can come of
// it) and state.go (the state and the big switch). Then, one idea a file: list.go
// replaces what a kind shows, in pieces; judge.go says how much a list may take;
// absence.go keeps what lists lack and has it asked for; baseline.go does the same for
// what stands in the ingress cluster after a start; quarantine.go is about stores that
// went back in time; readiness.go and panic.go keep pods ready; health.go says how the
// member stands; holds.go lists all that is kept.
//
// # The rules
//
// What a member is seen to do, and what an object says of itself, is hard evidence: it
// passes in the same step. That a list lacks an object is soft: what a replica loses
// by it is compared, net of replacements, with what it had, and what exceeds the limits
// is asked for by name. Gone means gone. There means that the list lies: then nothing
// that it lacks is believed. Only panic and silent nodes keep a pod ready that says
// that it is not. An address has one owner: no doubtful object keeps one that a live
// pod shows.
//
// What never happens here: a deletion that was seen waits for anything; a pass over
// all objects for one event; a panic, whatever the events.
package evidence
