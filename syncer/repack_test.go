// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"os"
	"reflect"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/subsettext"
	"tributary.dev/tributary/syncer"
)

// TestRepack runs the cases of testdata/repack.txt.
func TestRepack(t *testing.T) {
	text, err := os.ReadFile("testdata/repack.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := subsettext.ParseCases(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Rule, func(t *testing.T) {
			before := subsettext.Format(c.In)
			got := syncer.Repack(c.In)
			if !reflect.DeepEqual(got, c.Out) {
				t.Errorf("got %q, want %q", subsettext.Format(got), subsettext.Format(c.Out))
			}
			if again := syncer.Repack(got); !reflect.DeepEqual(again, got) {
				t.Errorf("not idempotent: %q", subsettext.Format(again))
			}
			if now := subsettext.Format(c.In); !slices.Equal(now, before) {
				t.Errorf("input changed to %q", now)
			}
		})
	}
}
