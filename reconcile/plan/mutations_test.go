// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
)

// What of a difference is known already, and what has to be recorded for the next process.
func TestMutations(t *testing.T) {
	read := func(text string) Mutations { return ReadMutations(map[string]string{AnnotationMutated: text}) }
	for _, c := range []struct{ now, known, want string }{
		{"", "", ""},
		{"ports:1", "", ""},
		{"ports:1", "ports:1", "ports:1"},
		{"ports:1,+spec.sessionAffinity", "ports:1", "ports:1"},
		{"ports:2", "ports:1", ""},
		{"ports:1", "ports:1,+metadata.labels[x]", "ports:1"},
	} {
		now, known, want := read(c.now), read(c.known), read(c.want)
		if got := now.Among(&known); !got.Equal(&want) {
			t.Errorf("of %q, %q being known, %v is left, want %q", c.now, c.known, got.known, c.want)
		}
	}
	for _, c := range []struct {
		name, recorded, known string
		unsteady, unrecorded  bool
	}{
		{"nothing", "", "", false, false},
		{"known and recorded", "ports:1", "ports:1", false, false},
		{"known and not recorded", "", "ports:1", false, true},
		{"recorded and over", "ports:1", "", false, true},
		{"another each time", "ports:1", "ports:2", true, false},
		{"more than fits", "", strings.Repeat("x", maxMutations+1), false, false},
	} {
		m := Meta{Annotations: map[string]string{}, Mutations: read(c.known)}
		if m.Mutations.unsteady = c.unsteady; c.recorded != "" {
			m.Annotations[AnnotationMutated] = c.recorded
		}
		if m.Unrecorded() != c.unrecorded {
			t.Errorf("%s: unrecorded %t", c.name, m.Unrecorded())
		}
	}
}
