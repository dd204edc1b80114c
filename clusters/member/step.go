// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"time"

	"tributary.dev/tributary/next/clusters/store"
	"tributary.dev/tributary/next/syncer"
)

// step gathers the effects of one Step.
type step struct {
	Effects
	now time.Time
}

// add notes a replica.
func (o *step) add(replica syncer.Key, effect syncer.Effect, c *Cause) {
	o.Dirty = append(o.Dirty, Change{replica, effect, c})
}

// dirty notes replicas that have one cause.
func (o *step) dirty(list []store.Dirty, c *Cause) {
	for _, d := range list {
		o.add(d.Replica, d.Effect, c)
	}
}

// touch notes replicas of which an endpoint that stands may be another one now.
func (o *step) touch(replicas []syncer.Key, c *Cause) {
	for _, key := range replicas {
		o.add(key, syncer.Removal, c)
	}
}

// effects returns what was gathered, in an order of its own: each replica once, with its
// strongest effect and the cause of that.
func (o *step) effects() Effects {
	if len(o.Dirty) > 1 {
		slices.SortStableFunc(o.Dirty, func(a, b Change) int {
			if c := a.Replica.Compare(b.Replica); c != 0 {
				return c
			}
			return int(b.Effect) - int(a.Effect)
		})
		o.Dirty = slices.CompactFunc(o.Dirty, func(a, b Change) bool { return a.Replica == b.Replica })
	}
	slices.SortFunc(o.Ask, func(a, b Question) int { return int(a.ID) - int(b.ID) })
	slices.SortFunc(o.Relist, Scope.compare)
	o.Relist = slices.Compact(o.Relist)
	slices.SortFunc(o.Restart, Scope.compare)
	return o.Effects
}

// podCause says what became of a pod; before is nil if it was not known, after if it is gone.
// written is the second in which it was last changed.
func podCause(before, after *syncer.Pod, written int64) (c Cause) {
	pod := after
	if pod == nil {
		pod = before
	}
	c.Kind = Pods.String()
	if pod == nil {
		return c
	}
	c.Key, c.UID = pod.Key, pod.UID
	if len(pod.IPs) > 0 {
		c.IP = pod.IPs[0].Addr.String()
	}
	var second int64
	switch {
	case after == nil:
		c.State = "gone"
		return c
	case pod.Terminating:
		c.State = "terminating"
		if before == nil || !before.Terminating {
			second = written
		}
	case pod.Ready:
		c.State = "ready"
		if before == nil || !before.Ready {
			second = pod.ReadySince
		}
	default:
		c.State = "not ready"
		if before != nil && before.Ready {
			second = pod.ReadySince
		}
	}
	if second != 0 {
		c.SourceTime = time.Unix(second, 0)
	}
	return c
}
