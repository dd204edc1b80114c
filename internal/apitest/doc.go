// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apitest is a small Kubernetes API server in memory, for tests of the
// ingress side and of commands: what Tributary reads and writes, over HTTP and JSON, with what client-go's fakes lack and the writer depends on:
// resource versions, compare-and-swap, UID preconditions, watches that resume
// and lag, and the refusals (409, 422, 403 in a terminating namespace)
// of a real server.
//
// A newcomer starts at New. Faults are injected with Server.Intercept; what a
// client wrote is read from Server.Writes.
//
// What it is not: no authentication, defaulting only where a test can notice, protobuf
// in requests alone, of selectors labels and names, and validation only of what the product could get wrong.
package apitest
