// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image writes Tributary's image as an OCI layout, without a container engine: one static binary for each
// architecture and nothing else, the same bytes for the same source, with a bill of materials (SPDX) beside it.
//
//	go run . -out ../../bin/image
//
// It is a module of its own, so that what knows images stays out of the product's dependencies.
package main
