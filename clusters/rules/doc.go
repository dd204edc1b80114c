// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides by users' CEL expressions which pods of a Service count as
// endpoints: Compile turns the rules of a configuration into a Set, and Set.Decide
// names the first rule that matches a pod, and what it wants.
//
// An expression is typed by Kubernetes' own types (environment.go, fields.go), so that
// a misspelt field is found when the file is read, and what it may cost is bounded
// before it runs and, where the size of a pod does not bound it, while it does. What it reads
// is taken from its syntax tree (paths.go), and only that is kept of a pod (keep.go), in a
// form that is read straight into the values of expressions (wire.go). A rule that fails on
// a pod, for a key that is missing, does not match.
//
// What never happens here: I/O, a clock, a log; a panic over what a cluster sends.
package rules
