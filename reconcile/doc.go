// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile owns the ingress cluster: it knows what stands there, and
// makes it equal to what the members' contributions demand.
//
// A newcomer starts at Reconciler (loop.go): take a dirty replica key, gather
// the contributions, let package plan decide, write, record. What stands is in
// package cache; package write sends what changes it.
//
// What never happens here: no member cluster is called, no endpoint rule is
// decided (packages syncer and plan do), no write is made without comparison
// and without a precondition on what was compared, and no key is given up.
package reconcile
