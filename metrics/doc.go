// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds everything Tributary tells about itself: the
// Prometheus families, the change records and the pages that serve both.
//
// It imports nothing of ours, so every package but the pure ones may use it.
package metrics
