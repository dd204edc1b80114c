// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds what Tributary tells about itself: the Prometheus
// families and the status, and in the packages below it the change records, the
// pages that serve all of these, and their export as traces.
//
// A newcomer starts at Metrics (metrics.go, observe.go): what the rest of the
// program reports into. families.go is the table of all families; status.go the value
// from which every gauge is read at scrape time; trouble.go what is wrong with
// which replica, and what of a status a person should look at. What a change is, and how
// it is remembered, is package record; package page serves it all.
//
// It imports nothing else of ours, so every package but the pure ones may use it.
// What never happens here: no call into a cluster, no waiting for a reader, and
// no label, list or buffer whose size a cluster decides.
package metrics
