// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusters follows the member clusters. What is believed of one is decided in
// clusters/member; here are the shells around that: the streams, the questions, the clock.
//
// A newcomer starts at Set (set.go): it runs the members of the configuration, and returns
// their shares of a replica. Every event enters a member's state through Member.step
// (member.go), and Member.begin starts what steps have asked for: its streams and its
// questions (streams.go).
//
// What never happens here: a decision about what exists or is gone. Of the ingress cluster
// only what is published of a member is known here, and the caller reads that. Members share
// nothing: no lock, client, transport or goroutine.
package clusters
