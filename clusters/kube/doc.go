// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is how a cluster is reached and followed, a member or the ingress
// cluster alike. It is the one package that both halves of the product import.
//
// Session (session.go) is a way to one cluster: its own transport (transport.go) and its own
// connections (pool.go), each of which shows the identity of the cluster at its other end
// before it is used (identity.go). Access (access.go) holds the session in use and exchanges
// it for one with other credentials, to which each request that follows goes.
//
// Follower (follower.go) follows one kind of objects: it lists (read.go), watches (watch.go)
// and resumes. It takes the place of client-go's Reflector, for five reasons. An object is
// turned into its slim value as soon as it is decoded, so a list of 50,000 pods never holds
// more than one page of full pods. The time of an event is taken when it is read off the
// wire. Watches end every 20 seconds and resume at their revision, so one that is frozen is
// found by what runs all day, and its connection is abandoned. A lost connection, a refusal or
// a new credential cost no list. And a list can be read beside the running stream.
//
// The decisions are in Course (course.go), which is pure: it gets the time and the results of
// its actions, reports to a Sink what is true, and returns the next action. A Follower drives
// it with a real cluster, and a simulation can with a model of one.
//
// Session.Ask (read.go) asks for one object in the cluster's etcd.
//
// A newcomer starts at Follower.Run, and at Sink, to which it reports.
//
// What never happens here: an error, a refusal (401, 403) or a half-read list is never
// passed on as "there are none"; nothing is read from, or sent to, a cluster that has shown
// another identity than the one on record; nothing that a server sends causes a panic; a
// follower gives up only when its context ends.
package kube
