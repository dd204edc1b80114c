// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
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
		return &Object{ID: id, Replica: id.Key, UID: name, Revision: rv, Claim: plan.ClaimRecorded, Endpoints: &plan.CurrentEndpoints{}}
	}
	for name, c := range map[string]struct {
		list []*Object
		at   uint64
		back bool
		want map[string]uint64 // the versions that stand then
	}{
		"everything was deleted in the gap":       {nil, 20, false, map[string]uint64{}},
		"nothing happened":                        {[]*Object{object("a", 5), object("new", 10)}, 20, false, map[string]uint64{"a": 5, "new": 10}},
		"one is older than it was":                {[]*Object{object("a", 4), object("new", 10)}, 20, true, map[string]uint64{"a": 4, "new": 10}},
		"a list of before, from a server's cache": {[]*Object{object("a", 5)}, 7, false, map[string]uint64{"a": 5, "new": 10}},
	} {
		t.Run(name, func(t *testing.T) {
			standing := New(func([]Change) {}, nil)
			now, all := time.Now(), Scope{Kind: plan.KindEndpoints}
			standing.Replace(all, []*Object{object("a", 5)}, 7, false, now)
			standing.Upsert(object("new", 10), now)
			if got := standing.Replace(all, c.list, c.at, false, now); got != c.back {
				t.Errorf("went back: %t, want %t", got, c.back)
			}
			for _, name := range []string{"a", "new"} {
				f := standing.Lookup(object(name, 0).ID)
				if rv, stands := c.want[name]; stands != (f != nil) || stands && f.Revision != rv {
					t.Errorf("%s stands as %+v, want %d", name, f, rv)
				}
			}
		})
	}
}
