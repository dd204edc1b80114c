// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

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
	object := func(name string, rv uint64) *found {
		id := objectID{plan.KindEndpoints, syncer.Key{Namespace: "shop", Name: name}}
		return &found{id: id, replica: id.Key, uid: name, rv: rv, claim: plan.ClaimRecorded, endpoints: &plan.ObservedEndpoints{}}
	}
	for name, c := range map[string]struct {
		list      []*found
		at        uint64
		regressed bool
		asked     int // for objects that are believed to be there
	}{
		"the newest was deleted in the gap":       {[]*found{object("a", 5), object("b", 6)}, 20, false, 0},
		"everything was":                          {nil, 20, false, 0},
		"nothing happened":                        {[]*found{object("a", 5), object("b", 6), object("new", 10)}, 20, false, 1},
		"the newest is older than it was":         {[]*found{object("a", 5), object("b", 6), object("new", 8)}, 20, true, 1},
		"another is, and the newest never was":    {[]*found{object("a", 5), object("b", 4)}, 20, true, 1},
		"a list of before, from a server's cache": {[]*found{object("a", 5), object("b", 6)}, 7, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(func([]change) {}, nil)
			now := time.Now()
			v.replace(plan.KindEndpoints, []*found{object("a", 5), object("b", 6)}, "7", now)
			v.upsert(object("new", 10), now)
			v.heardOf(plan.KindEndpoints).Closed()
			if got := v.replace(plan.KindEndpoints, c.list, strconv.FormatUint(c.at, 10), now); got != c.regressed {
				t.Errorf("went back: %t, want %t", got, c.regressed)
			}
			all, _ := v.heardOf(plan.KindEndpoints).All()
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
