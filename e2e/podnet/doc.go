// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnet provides pod addresses for tests: API servers accept no loopback address as an endpoint, so a program
// that listens at one runs, with its clients, in a network namespace of its own.
package podnet
