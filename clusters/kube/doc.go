// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is how a cluster is reached and followed, a member or the ingress
// cluster alike.
//
// Session (session.go) is a connection in use: its own transport, shared with nothing;
// nothing is read through it before the cluster at its other end has shown its identity.
// Prober asks whether it answers, and whether its store was restored from a backup
// (restore.go).
//
// Loop follows one kind of object: list, watch, resume, relist. It stands where client-go's Reflector would, for four reasons. An object is
// turned into its slim value as soon as it is decoded, so a list of 50,000 pods
// never holds more than one page of full pods. The time of an event is taken
// when it is read off the wire. What is known only by absence (a relist) is kept
// apart from what was seen to happen (an event), because the guards treat them
// differently. And the client can be exchanged under a running stream, so that
// new credentials cost neither a relist nor a gap.
//
// A stream that says nothing is believed only as long as a check now and then shows that
// there was nothing to say (liveness.go).
//
// A newcomer starts at Loop (loop.go). ListWatcher (listwatcher.go) is where it reads from,
// Handler (handler.go) is what it tells.
//
// What never happens here: an error, a refusal (401, 403) or a half-read list is
// never handed on as "there are none"; nothing a server sends causes a panic; the
// loop gives up only when its context ends.
package kube
