// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// lockedWatermarks are what the store of the ingress cluster can be asked for, to learn
// whether it went back in time: what was heard last of each kind, by a watch or as the
// answer to a write of ours.
func (c *Cache) lockedWatermarks(kind plan.Kind) *kube.Watermarks {
	w := c.watermarks[kind]
	if w == nil {
		w = new(kube.Watermarks)
		c.watermarks[kind] = w
	}
	return w
}

func (c *Cache) Watermarks(kind plan.Kind) *kube.Watermarks {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lockedWatermarks(kind)
}

// Gone notes the version at which an object was deleted.
func (c *Cache) Gone(id ID, rv uint64) {
	c.Watermarks(id.Kind).Heard(kube.Watermark{Key: id.Key, Revision: rv, Gone: true})
}

// lockedCompare holds a complete list against what was heard before it, and reports
// whether it shows something older, as only a store does that went back.
func (c *Cache) lockedCompare(kind plan.Kind, list []*Object, revision uint64) (regressed bool) {
	var newest kube.Watermark
	shown := make(map[syncer.Key]uint64, len(list))
	for _, f := range list {
		shown[f.ID.Key] = f.Revision
		if old := c.entries[f.ID]; old != nil && old.Revision <= revision && f.Revision != 0 && f.Revision < old.Revision {
			regressed = true
		}
		if f.Revision > newest.Revision {
			newest = kube.Watermark{Key: f.ID.Key, Revision: f.Revision}
		}
	}
	lookup := func(key syncer.Key) uint64 { return shown[key] }
	return c.lockedWatermarks(kind).Listed(revision, newest, lookup, regressed) || regressed
}
