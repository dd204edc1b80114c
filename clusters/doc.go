// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusters knows the member clusters: how they are reached, what they
// hold, and how far what is known of them can be trusted.
//
// A newcomer starts at Set (set.go): the running members, made from the
// configuration. A Member (member.go) is one cluster: the session by which it is
// reached, and the kube.Loops that follow it. What they see goes through the intake
// (intake.go) into the member's evidence, which the shell (shell.go) keeps behind the
// one lock that a member has; what a step of it asks for is carried out when that is
// unlocked (effects.go). No watch knows its member. What changed goes out through the
// Sink; what a member gives to a replica is read through Set (view.go).
//
// Members share nothing: own transport, own goroutines, own failure. What never
// happens here: an error, a refusal or another cluster at the same address is
// never taken for "there is nothing"; nothing is written to any cluster; nothing
// a cluster sends causes a panic; no secret reaches a log or an error.
package clusters
