// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A loop that hangs is found when its bound is over, and one that waits for work, or has
// ended, is none.
func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Heartbeats
		runs, rests, ends := all.Start("runs", time.Minute), all.Start("rests", time.Minute), all.Start("ends", time.Minute)
		hangs := all.Start("hangs", 2*time.Minute)
		rests.Rest()
		ends.End()
		stuck := func() string { return strings.Join(all.Stuck(time.Now()), ", ") }
		for range 4 {
			time.Sleep(30 * time.Second)
			runs.Beat()
		}
		if got := stuck(); got != "" {
			t.Errorf("stuck: %s", got)
		}
		time.Sleep(time.Second)
		if got := stuck(); got != "hangs has not got on for more than 2m0s" {
			t.Errorf("stuck: %q", got)
		}
		hangs.Beat()
		if got := stuck(); got != "" {
			t.Errorf("stuck: %s", got)
		}
		time.Sleep(61 * time.Second)
		if got := stuck(); !strings.HasPrefix(got, "runs ") {
			t.Errorf("stuck: %q", got)
		}
	})
}
