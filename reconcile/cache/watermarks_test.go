// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strconv"
	"testing"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// A complete list after a gap is no sign of a restored store by what it lacks, and is one
// by anything that it shows older than it was.
func TestListsTellARestoredStoreFromAGap(t *testing.T) {
	object := func(name string, rv uint64) *Object {
		id := ID{plan.KindEndpoints, syncer.Key{Namespace: "shop", Name: name}}
		return &Object{ID: id, Replica: id.Key, UID: name, Revision: rv, Claim: plan.ClaimRecorded, Endpoints: &plan.ObservedEndpoints{}}
	}
	for name, c := range map[string]struct {
		list      []*Object
		at        uint64
		regressed bool
		asked     int // for objects that are believed to be there
	}{
		"the newest was deleted in the gap":       {[]*Object{object("a", 5), object("b", 6)}, 20, false, 0},
		"everything was":                          {nil, 20, false, 0},
		"nothing happened":                        {[]*Object{object("a", 5), object("b", 6), object("new", 10)}, 20, false, 1},
		"the newest is older than it was":         {[]*Object{object("a", 5), object("b", 6), object("new", 8)}, 20, true, 1},
		"another is, and the newest never was":    {[]*Object{object("a", 5), object("b", 4)}, 20, true, 1},
		"a list of before, from a server's cache": {[]*Object{object("a", 5), object("b", 6)}, 7, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := New(func([]Change) {}, nil)
			now := time.Now()
			v.Replace(plan.KindEndpoints, []*Object{object("a", 5), object("b", 6)}, "7", now)
			v.Upsert(object("new", 10), now)
			v.Watermarks(plan.KindEndpoints).Closed()
			if got := v.Replace(plan.KindEndpoints, c.list, strconv.FormatUint(c.at, 10), now); got != c.regressed {
				t.Errorf("went back: %t, want %t", got, c.regressed)
			}
			all, _ := v.Watermarks(plan.KindEndpoints).All()
			asked := 0
			for _, one := range all {
				if !one.Gone {
					asked++
				}
			}
			if asked != c.asked {
				t.Errorf("remembered are %v, want %d that should be there", all, c.asked)
			}
		})
	}
}
