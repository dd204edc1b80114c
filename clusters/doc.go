// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusters follows the member clusters. What is believed of one is decided in
// clusters/member; here are the shells around that: the streams, the questions, the clock.
//
// A newcomer starts at Set (set.go): it makes the members those of the configuration, and
// says what they give to a replica. Member.step (member.go) is the one way into a member's
// state, by which every event comes, and Member.begin begins what steps have asked for: its
// streams (streams.go) and its questions (asking.go).
//
// What never happens here: a decision about what is there or gone, and anything about the
// ingress cluster but what stands of a member, which the caller tells. Members share
// nothing: no lock, client, transport or goroutine.
package clusters
