// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	bridge.Do(func() { bridgeTo(slog.DiscardHandler) }) // many run at once here
	goleak.VerifyTestMain(m)
}
