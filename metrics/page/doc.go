// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page serves what a process tells about itself: /metrics, /healthz,
// /readyz, the status and the changes as JSON, and the page for people.
//
// handler.go has the routes, stream.go the changes as they come, serve.go and
// connections.go the server. The page is view.go and, by section, verdict.go,
// changes.go, strip.go, native.go and sinks.go; text.go is how people read
// numbers. Everything in it that a cluster chose is escaped and cut.
//
// What never happens here: no call into a cluster, and no reader that others
// wait for.
package page
