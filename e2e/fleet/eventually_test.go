// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPodAddressesDoNotMeet(t *testing.T) {
	for i := range 32 {
		for j := range i {
			if podRange(i).Overlaps(podRange(j)) {
				t.Errorf("ranges of sites %d and %d meet: %s, %s", i, j, podRange(i), podRange(j))
			}
		}
	}
	s := &Site{PodCIDR: podRange(3)}
	for range 300 { // beyond one byte
		s.NextIP()
	}
	if got := s.NextIP().String(); got != "10.24.1.45" || !s.PodCIDR.Contains(s.NextIP()) {
		t.Errorf("the 301st address is %s", got)
	}
}

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		calls := 0
		err := Eventually(t.Context(), time.Second, func(context.Context) error {
			if calls++; calls < 4 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || calls != 4 || time.Since(began) != 3*shortestPause {
			t.Errorf("after %s and %d calls: %v", time.Since(began), calls, err)
		}
		never := errors.New("never")
		err = Eventually(t.Context(), time.Second, func(context.Context) error { return never })
		if !errors.Is(err, never) || !strings.Contains(err.Error(), "within 1s") {
			t.Errorf("giving up: %v", err)
		}
		// What the condition says when its time is up does not hide why it failed before.
		began = time.Now()
		err = Eventually(t.Context(), time.Second, func(ctx context.Context) error {
			if time.Since(began) < time.Second/2 {
				return never
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, never) {
			t.Errorf("a condition that hangs: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Eventually(ctx, time.Second, func(context.Context) error { return never }); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}
