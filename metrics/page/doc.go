// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page serves what a process tells about itself: /metrics, /healthz,
// /readyz, the status and the changes as JSON, and the page for people.
//
// handler.go has the routes, stream.go the server and the changes as they come. view.go
// is what page.html shows: how people read numbers, and the pictures of latencies.
// Everything that a cluster chose is escaped and cut.
//
// What never happens here: no call into a cluster, and no reader that others
// wait for.
package page
