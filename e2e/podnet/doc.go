// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnet lets pods of a test have their addresses: API servers take no loopback address for an endpoint, so a
// program that is to be reached at one runs, with all that reaches it, in a network namespace of its own.
package podnet
