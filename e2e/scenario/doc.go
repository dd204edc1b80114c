// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario runs the product as its user does: the binary, a
// configuration file, real clusters around it. Each test is one story; what the
// ingress cluster shows is compared as text lines that a reader can follow
// (see replica.go).
package scenario
