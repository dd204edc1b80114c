// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Empty: the file lets upstream.go declare upstream's functions without a body.
