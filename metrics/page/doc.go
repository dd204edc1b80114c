// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page serves what a process tells about itself: /metrics, /healthz,
// /readyz, the status and the changes as JSON, and the page for people.
//
// handler.go has the routes, stream.go the changes as they come, serve.go the server.
// page.go renders page.html from a view (view.go; strip.go draws latencies); text.go
// is how people read numbers. Everything in it that a cluster chose is escaped and cut.
//
// What never happens here: no call into a cluster, and no reader that others
// wait for.
package page
