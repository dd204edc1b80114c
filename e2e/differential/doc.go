// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package differential holds Tributary against the real controllers on real
// clusters: a member with kube-controller-manager and Services under random
// churn, whose own Endpoints and EndpointSlices the ingress cluster must show
// whenever it is quiet, field by field.
//
// A run is a number of rounds of random edits. It prints its seed; the same seed
// makes the same edits, though not the same interleaving with the controllers:
//
//	go test ./differential -seed=42
//	go test ./differential -services=300 -rounds=20 -edits=300 -timeout=30m
//
// What is forgiven is in forgive_test.go, all of it listed in docs/semantics.md
// or upstream's doing; the rest must be equal. See also package oracle, which
// asks the same of single computations, without clusters.
package differential
