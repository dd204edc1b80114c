// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tributary carries the endpoints of many Kubernetes clusters into one
// ingress cluster.
//
// This package is the thin edge around the others: one file a command (flags
// in, one call, text out), wire.go as the only place where clusters, reconcile
// and metrics meet, and logging.go for the log. Everything that decides
// anything lives elsewhere.
package main
