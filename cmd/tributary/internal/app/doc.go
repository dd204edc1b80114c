// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the life of a running Tributary: it reads the configuration's clusters, lets
// one process write what the members ask for, and follows the configuration under both.
//
// Start with Run (app.go), which owns the goroutines. ingress.go is the way to the ingress
// cluster, source.go the only place where clusters and reconcile meet, status.go what the
// pages show, explain.go the story of one replica.
//
// What never happens here: a decision about endpoints, or about what is written.
package app
