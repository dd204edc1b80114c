// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package differential compares Tributary with the real controllers on real
// clusters: a member has kube-controller-manager and Services under random churn,
// and the ingress cluster must show the member's own Endpoints and EndpointSlices,
// field by field, whenever it is quiet.
//
// A run is a number of rounds of random edits. It prints its seed; the same seed
// makes the same edits, though not the same interleaving with the controllers:
//
//	go test ./differential -seed=42
//	go test ./differential -services=300 -rounds=20 -edits=300 -timeout=30m
//
// The differences that are forgiven are in forgive_test.go, all of them listed in
// docs/semantics.md or caused by upstream; the rest must be equal. See also package
// oracle, which compares single computations without clusters.
package differential
