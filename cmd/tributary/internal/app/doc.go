// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the life of a running Tributary: it opens the ingress cluster, makes
// the members, lets one write what the other asks for, and follows the configuration
// under both.
//
// Start with Run (run.go), which owns the goroutines. session.go is one way to the
// ingress cluster, switch.go how another takes its place, wire.go the only place where
// clusters, reconcile and metrics meet, statussource.go what the pages show.
package app
