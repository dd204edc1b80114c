// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package evidence

// defaultSteps of TestHistories.
const defaultSteps = 1_000_000
