// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history checks everything that happened in a fleet against the
// invariants, at every point in time and not only at the end.
//
// A Recorder watches the members' Pods and Services and the ingress cluster's
// Services, Endpoints and EndpointSlices with clients of its own, and records the
// spans in which something was broken on purpose. The result is a History, a
// plain value. Check is pure: it replays a History into facts (one endpoint,
// under one port, in one state), which a member wants or not (oracle.go, a small
// computation that shares no code with the product) and the ingress cluster
// shows or not (shown.go), and reports where the second does not follow from the
// first. Authors of writes are taken from the API servers' audit logs.
//
// The laws, by the names used in the design:
//
//	NOPHANTOM  what appears was wanted a moment ago, and appears no more often than it was
//	NOWIPE     what disappears was unwanted a moment ago; a doubt may flip a flag but removes no address; no replica is left without a ready endpoint that some member could serve
//	ISOLATED   what a healthy member wants is shown within a bound, whatever happens to others
//	CONV       at the end, what is shown is what is wanted
//	OWNED      the installation writes no object that it does not own, and nothing under a Service of another; members are not written at all
//	ZERO       nothing is written in a quiet span, and no write is without effect
package history
