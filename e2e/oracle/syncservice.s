// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Empty: the file lets a benchmark declare upstream's syncService without a body.
