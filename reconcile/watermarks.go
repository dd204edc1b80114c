// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// lockedWatermarks are what the store of the ingress cluster can be asked for, to learn
// whether it went back in time: what was heard last of each kind, by a watch or as the
// answer to a write of ours.
func (v *view) lockedWatermarks(kind plan.Kind) *kube.Watermarks {
	w := v.watermarks[kind]
	if w == nil {
		w = new(kube.Watermarks)
		v.watermarks[kind] = w
	}
	return w
}

func (v *view) heardOf(kind plan.Kind) *kube.Watermarks {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lockedWatermarks(kind)
}

// heardGone notes the version at which an object was deleted.
func (v *view) heardGone(id objectID, rv uint64) {
	v.heardOf(id.kind).Heard(kube.Watermark{Key: id.Key, Revision: rv, Gone: true})
}

// lockedSettled holds a complete list against what was heard before it, and reports
// whether it shows something older, as only a store does that went back.
func (v *view) lockedSettled(kind plan.Kind, list []*found, revision uint64) (regressed bool) {
	var newest kube.Watermark
	shown := make(map[syncer.Key]uint64, len(list))
	for _, f := range list {
		shown[f.id.Key] = f.rv
		if old := v.entries[f.id]; old != nil && old.rv <= revision && f.rv != 0 && f.rv < old.rv {
			regressed = true
		}
		if f.rv > newest.Revision {
			newest = kube.Watermark{Key: f.id.Key, Revision: f.rv}
		}
	}
	lookup := func(key syncer.Key) uint64 { return shown[key] }
	return v.lockedWatermarks(kind).Listed(revision, newest, lookup, regressed) || regressed
}
