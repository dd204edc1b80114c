// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/internal/memnet"
	"tributary.dev/tributary/syncer"
)

// Who is asked what is on record of a member has locks of its own, and asks members how they
// stand while it has them: no lock of a member is held then.
func TestMemberThatBeginsAnewAsksWithoutItsLock(t *testing.T) {
	var former *Member
	var asked bool
	pinned := func(string) string {
		if former != nil {
			if asked = true; !former.mu.TryLock() {
				t.Error("a lock of the member is held")
				return ""
			}
			former.mu.Unlock()
		}
		return ""
	}
	inWorld(t, func(o *Options) { o.Pinned = pinned }, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1))
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		a.listener.Lead(memnet.Nobody)
		a.listener.Cut()
		w.pass(time.Minute)
		former = w.set.applied.Load().members[0]
		anew := w.set.Lead(time.Now(), func(string) map[syncer.Key]Standing { return nil })
		if !slices.Equal(anew, []string{"a"}) || !asked {
			t.Errorf("%v begin anew, asked %t", anew, asked)
		}
	})
}
