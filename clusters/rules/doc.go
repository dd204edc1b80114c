// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides by users' CEL expressions which pods count as endpoints. Start
// with set.go: Compile turns the rules of a configuration into a Program, Program.For
// returns those of one member, and Set.Match says which of them match a pod. That is
// evaluated once, when the pod is read; what follows for a Service is decided in package
// syncer, by the first rule that matches the pod and applies to the Service.
//
// An expression is typed by Kubernetes' own types (types.go), so that a misspelt field is
// found when the file is read (faults.go), and what it may cost is bounded before it runs
// and while it does (environment.go). image.go is sameImage, the one function of our own.
//
// What never happens here: I/O, a clock, a log; a panic over what a cluster sends. A rule
// that fails on a pod, mostly for a key that is missing, does not match it.
package rules
