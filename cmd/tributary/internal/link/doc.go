// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package link makes a cluster a member, and undoes that: an account with least
// rights there, and a kubeconfig of it in a file or in a Secret of the ingress cluster.
//
// A newcomer starts at Link (link.go). member.yaml is what a member gets, the same as the
// chart tributary-member; kubeconfig.go is what the ingress cluster, or a file, gets.
//
// What never happens here: no object without our mark is changed or deleted, nor a
// kubeconfig that link did not make for this member. No token is printed.
package link
