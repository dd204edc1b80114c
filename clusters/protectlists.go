// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// podList takes in a complete list of pods. missing are those that it lacks and
// that are kept from now on.
func (p *protection) podList(items []store.Versioned[syncer.Pod], r kube.Replacement) (dirty []store.Dirty, missing []*syncer.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, rv := p.m.store, store.Revision(r.ResourceVersion)
	now, l := time.Now(), &p.lists[guardedPods]
	l.note(now, len(items))
	if again, doubted := l.looks.Doubt(now, p.limits, r.Older); doubted {
		known := items[:0]
		for _, v := range items {
			if held := s.Pod(v.Object.Key); held != nil {
				v.Object = *held
				known = append(known, v)
			}
		}
		l.keep(now, again)
		return s.PlanReplacePods(known, rv).Apply(func(store.AbsentPod) bool { return true }), nil
	}
	p.readiness.List(now, p.limits, s, p.pod, items)
	plan := s.PlanReplacePods(items, rv)
	d := l.looks.Look(now, p.limits, loss(plan.Impact, l.empty))
	dirty = plan.Apply(p.keepPods(plan, d, func(a store.AbsentPod) {
		if !a.Held {
			missing = append(missing, a.Pod)
		}
	}))
	p.readiness.Recount(s.Pods())
	held, _ := s.Held()
	l.decided(now, d, held)
	return dirty, missing
}

// keepPods says which pods stay although a list lacks them: those of replicas
// that would lose endpoints. One whose deletion had begun, or whose address
// another pod has by now, does not. kept is called for each that does.
func (p *protection) keepPods(plan *store.PodReplacement, d guard.Decision, kept func(store.AbsentPod)) func(store.AbsentPod) bool {
	if d.Verdict == guard.Pass {
		return nil
	}
	losing := plan.Impact.Losing
	return func(a store.AbsentPod) bool {
		if a.Reused || a.Pod.Terminating() || d.Confirmed && a.Held {
			return false
		}
		stays := slices.ContainsFunc(p.m.store.ReplicasOf(a.Pod.Key), func(replica syncer.Key) bool { return contains(losing, replica) })
		if stays {
			kept(a)
		}
		return stays
	}
}

// contains searches sorted keys.
func contains(keys []syncer.Key, key syncer.Key) bool {
	_, found := slices.BinarySearchFunc(keys, key, syncer.Key.Compare)
	return found
}

// serviceList takes in a complete list of Services. missing are those that it lacks
// and that are kept from now on.
func (p *protection) serviceList(items []store.Versioned[syncer.Service], r kube.Replacement) (dirty []store.Dirty, missing []store.AbsentService) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, rv := p.m.store, store.Revision(r.ResourceVersion)
	now, l := time.Now(), &p.lists[guardedServices]
	l.note(now, len(items))
	if again, doubted := l.looks.Doubt(now, p.limits, r.Older); doubted {
		known := items[:0]
		for _, v := range items {
			if held := s.Service(v.Object.Key); held != nil {
				v.Object = *held
				known = append(known, v)
			}
		}
		l.keep(now, again)
		return s.PlanReplaceServices(known, rv).Apply(func(store.AbsentService) bool { return true }), nil
	}
	plan := s.PlanReplaceServices(items, rv)
	d := l.looks.Look(now, p.limits, loss(plan.Impact, l.empty))
	var keep func(store.AbsentService) bool
	if d.Verdict != guard.Pass {
		losing := plan.Impact.Losing
		keep = func(a store.AbsentService) bool {
			stays := contains(losing, a.Replica) && !(d.Confirmed && a.Held)
			if stays && !a.Held {
				missing = append(missing, a)
			}
			return stays
		}
	}
	dirty = plan.Apply(keep)
	_, held := s.Held()
	l.decided(now, d, held)
	return dirty, missing
}

func loss(i store.Impact, empty bool) guard.Loss {
	return guard.Loss{Before: i.Before, Lost: i.Lost, Emptied: len(i.Emptied), Empty: empty}
}

func (l *listGuard) note(now time.Time, objects int) { l.read, l.empty = now, objects == 0 }

// keep notes that something is kept, and when to look again.
func (l *listGuard) keep(now, again time.Time) {
	if l.since.IsZero() {
		l.since = now
	}
	l.again = again
}

// decided notes what came of a list.
func (l *listGuard) decided(now time.Time, d guard.Decision, held int) {
	if held > 0 {
		l.keep(now, d.Again)
		return
	}
	l.looks.Clear()
	l.since, l.again = time.Time{}, time.Time{}
}
