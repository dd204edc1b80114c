// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"math"
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestOldControllersWriteAnyNumberOfAddresses(t *testing.T) {
	for version, want := range map[ServerVersion]int{
		{}:                     syncer.EndpointsCapacity,
		{Major: 1, Minor: 21}:  math.MaxInt,
		{Major: 1, Minor: 22}:  syncer.EndpointsCapacity,
		{Major: 1, Minor: 136}: syncer.EndpointsCapacity,
	} {
		l := &link{}
		l.version.Store(&version)
		if got := (&nativeObserver{link: l}).capacity(); got != want {
			t.Errorf("controllers of %d.%d write %d addresses at most, want %d", version.Major, version.Minor, got, want)
		}
	}
}
