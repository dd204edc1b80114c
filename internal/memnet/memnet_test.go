// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A dial that nobody accepts leaves nothing behind: the bubble ends only when every
// goroutine in it has.
func TestDialThatNobodyAcceptsLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Dial(ctx, "tcp", "any"); err == nil {
			t.Error("connected to nobody")
		}
		_ = l.Close()
		if _, err := l.Dial(t.Context(), "tcp", "any"); err == nil {
			t.Error("connected to a listener that is closed")
		}
	})
}
