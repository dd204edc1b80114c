// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet is what a Tributary needs around it, for tests, demonstrations and measurements: an ingress cluster and
// member clusters (real ones, see package cluster), kubeconfigs with no more rights than Tributary needs, and hands that
// do what users and kubelets do there: create Services, run pods, let them become ready or not, terminate them.
// It also runs the tributary executable as a process, as a user would.
//
// Everything takes a context and returns errors, so that plain programs can use it; package fleettest fits it to tests.
// The context of a call bounds that call, not the life of what it started: Close ends a fleet, and the end of this
// process does, however it comes.
//
// The package never imports Tributary: it knows the command line, the configuration file and the HTTP endpoints.
package fleet
