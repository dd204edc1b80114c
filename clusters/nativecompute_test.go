// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"math"
	"testing"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/syncer"
)

func TestOldControllersWriteAnyNumberOfAddresses(t *testing.T) {
	for version, want := range map[kube.ServerVersion]int{
		{}:                     syncer.EndpointsCapacity,
		{Major: 1, Minor: 21}:  math.MaxInt,
		{Major: 1, Minor: 22}:  syncer.EndpointsCapacity,
		{Major: 1, Minor: 136}: syncer.EndpointsCapacity,
	} {
		if got := capacityOf(version); got != want {
			t.Errorf("controllers of %d.%d write %d addresses at most, want %d", version.Major, version.Minor, got, want)
		}
	}
}
