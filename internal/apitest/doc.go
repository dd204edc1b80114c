// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apitest is a small Kubernetes API server in memory, for tests of the ingress side and of
// commands: package model, over HTTP and JSON, and what tests do to it.
//
// A newcomer starts at New. Faults are injected with Server.Intercept; what a
// client wrote is read from Server.Writes.
//
// What it is not: no authentication, protobuf in requests alone, lists in one page, and of a patch only what
// Events need.
package apitest
