// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

func TestLabelsAreTheirMap(t *testing.T) {
	keys := []string{"app", "app-b", "app.kubernetes.io/name", "a", "tier", ""}
	values := []string{"", "web", "web-2", "a=b", "x,y"}
	for seed := range dice.Seeds(t, 3000) {
		r := dice.From(seed, 19)
		some := func() (set, valid map[string]string) {
			set, valid = map[string]string{}, map[string]string{}
			for range r.IntN(6) {
				set[keys[r.IntN(len(keys))]] = values[r.IntN(len(values))]
			}
			for k, v := range set {
				if v != "a=b" && v != "x,y" {
					valid[k] = v
				}
			}
			return set, valid
		}
		set, valid := some()
		selector, wanted := some()
		l := LabelsOf(set)
		if got := l.Map(); !maps.Equal(got, valid) {
			t.Fatalf("seed %d: %v became %q, which is %v", seed, set, l, got)
		}
		for _, key := range keys {
			want, has := valid[key]
			if got, found := l.Lookup(key); got != want || found != has || l.Get(key) != want {
				t.Fatalf("seed %d: %q has %s=%q: %v, want %q, %v", seed, l, key, got, found, want, has)
			}
		}
		contains := true
		for k, v := range wanted {
			got, has := valid[k]
			contains = contains && has && got == v
		}
		if got := l.Contains(LabelsOf(selector)); got != contains {
			t.Fatalf("seed %d: %q contains %q: %v", seed, l, LabelsOf(selector), got)
		}
		if !slices.IsSorted(slices.Collect(l.Pairs())) || l != LabelsOf(maps.Clone(set)) {
			t.Fatalf("seed %d: %q is not the one text of %v", seed, l, set)
		}
	}
}

func BenchmarkLabelsContain(b *testing.B) {
	set := map[string]string{"app": "web"}
	for i := range 10 {
		set[fmt.Sprint("label-", i)] = "value"
	}
	l, selector := LabelsOf(set), LabelsOf(map[string]string{"app": "web", "label-9": "value"})
	for b.Loop() {
		if !l.Contains(selector) {
			b.Fatal("it does")
		}
	}
}
