// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tributary carries the endpoints of many Kubernetes clusters into one ingress
// cluster. Start with main.go: each command has a file of its name. What `run` does is
// internal/app; status, trace and explain ask a running instance, which forward.go finds.
//
// What never happens here: no command but run, link and unlink changes anything.
package main
