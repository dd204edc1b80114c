// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestSourceTime(t *testing.T) {
	pod := func(uid string, ready bool, since, deleted int64) *syncer.Pod {
		return &syncer.Pod{UID: uid, Ready: ready, ReadySince: since, Deleted: deleted}
	}
	was := pod("1", true, 100, 0)
	for name, c := range map[string]struct {
		was, is *syncer.Pod
		want    int64
	}{
		"not known before":             {nil, pod("1", true, 100, 0), 0},
		"another of that name":         {was, pod("2", true, 200, 0), 0},
		"nothing of it":                {was, pod("1", true, 100, 0), 0},
		"turned not ready":             {was, pod("1", false, 130, 0), 130},
		"there and back since":         {was, pod("1", true, 140, 0), 140},
		"a node that reports late":     {was, pod("1", false, 60, 0), 0},
		"deleted":                      {was, pod("1", true, 100, 150), 150},
		"deleted, and not ready since": {was, pod("1", false, 155, 150), 150},
		"not ready while it goes":      {pod("1", true, 100, 150), pod("1", false, 160, 150), 160},
		"its first readiness":          {pod("1", false, 0, 0), pod("1", true, 170, 0), 0},
	} {
		if got := sourceTime(c.was, c.is); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
