// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	bridge.Do(func() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) }) // many run at once here
	goleak.VerifyTestMain(m)
}
