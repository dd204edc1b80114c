// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"
	"time"
)

func some(m *model) {
	m.set("a", "1")
	m.set("b", "1")
}

func TestFollows(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			play(t, http2, some, func(s *scene) {
				s.wantTold("listed map[a:1 b:1]")
				s.set("a", "2")
				s.remove("b")
				s.set("c", "1")
				s.set("c", "finished")
				s.wantTold("seen a=2", "gone b", "seen c=1", "gone c")
				s.wantPhases("listing", "following")
				s.remove("c")
				s.wantTold("gone c")
				s.pass(time.Hour)
				s.wantTold() // renewals of the watch bring nothing
				s.wantCount("list", 1)
				s.set("a", "3")
				s.wantTold("seen a=3")
				s.wantPhases("listing", "following")
				s.wantPicture()
			})
		})
	}
}
