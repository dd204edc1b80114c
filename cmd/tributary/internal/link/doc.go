// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package link makes a cluster a member, and takes that back: an account with least
// rights there, and a kubeconfig of it in a file or in a Secret of the ingress cluster.
//
// A newcomer starts at Link (link.go). objects.go says what a member gets, the same as the
// chart tributary-member; keep.go is where the kubeconfig is kept.
//
// What never happens here: no object without our mark is changed or deleted, nor a
// kubeconfig that link did not make for this member. No token is printed.
package link
