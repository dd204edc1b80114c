// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package evidence

// defaultSteps of TestHistories: the race detector makes each ten times as dear.
const defaultSteps = raceSteps
