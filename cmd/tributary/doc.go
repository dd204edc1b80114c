// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tributary carries the endpoints of many Kubernetes clusters into one
// ingress cluster.
//
// This package is the thin edge around the others: one file a command (flags
// in, one call, text out), and logging.go for the log. Everything that decides
// anything lives elsewhere, the life of a running instance in internal/app.
package main
