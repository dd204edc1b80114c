// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package write sends one action to the ingress cluster, and classifies its answer.
//
// A newcomer starts at Writer.Send (write.go). The objects that are sent are made in
// encode.go; what an answer means is in errors.go.
//
// What never happens here: nothing is decided about endpoints, nothing is sent twice, and
// nothing is changed without a precondition on what the action was compared with.
package write
