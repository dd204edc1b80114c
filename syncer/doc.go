// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package syncer holds the rules that derive endpoints from a Service and its
// Pods: what kube-controller-manager's endpoints and endpointslice
// controllers decide, as functions from values to values.
//
// A newcomer starts at Compute (rules.go): one member's Service and Pods in,
// that member's Contribution out; HandWritten (handwritten.go) does the same
// for a Service without a selector. Subsets (subsets.go) renders a Contribution
// in the form of core/v1 Endpoints, Pack (slices.go) in the form of
// discovery/v1 EndpointSlices. PodEffect (effect.go) says which changes of a pod
// matter at all. docs/semantics.md has the rules in words, and every difference
// from upstream with its reason.
//
// What never happens here: no client, clock, goroutine, logger or metric, and
// no Kubernetes type: the store converts objects on the way in, the writer on
// the way out. Inputs are never changed, except a Trigger. Every result has one
// canonical order, so equality is element-wise and nothing depends on map
// iteration.
package syncer
