// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is how a cluster is reached and followed, a member or the ingress
// cluster alike. It is the one package that both halves of the product import.
package kube
