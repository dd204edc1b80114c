// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package write carries out plans in the ingress cluster.
//
// A newcomer starts at Writer (write.go), which sends the actions of a plan in their order
// (request.go, encode.go) and hands every answer to the cache. What an answer means is said
// in errors.go. Refusals remembers what the server refused, and RepairThrottle who keeps
// undoing what was written, so that both are tried again at a pace.
//
// What never happens here: nothing is decided about endpoints, and nothing is changed
// without a precondition on what the plan was compared with.
package write
