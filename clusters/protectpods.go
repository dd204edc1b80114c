// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"fmt"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// errOverfull is a member that has more objects than it may.
var errOverfull = errors.New("the cluster has more objects of a kind than maxObjects allows")

// upsertPod takes in a pod of a watch event. others are replicas that are dirty
// because more than this pod is taken anew: a panic has begun. kept is why the pod
// is kept ready that turned not ready by this event. Nothing is taken from an event
// that is older than what is known.
func (p *protection) upsertPod(v store.Versioned[syncer.Pod]) (dirty, others []store.Dirty, kept HoldReason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m.store.PodOutdated(v) { // nor may it be counted as a pod that turned
		return p.m.store.UpsertPod(v), nil, ""
	}
	held := p.m.store.Pod(v.Object.Key)
	if pods, _ := p.m.store.Size(); held == nil && p.full(kindPods, pods) {
		return nil, nil, ""
	}
	before := p.keeps(v.Object.Key)
	taken, restore := p.readiness.Saw(time.Now(), p.limits, p.m.store, held, v)
	dirty = p.m.store.UpsertPod(taken)
	if before == "" {
		kept = p.keeps(v.Object.Key)
	}
	return dirty, p.retake(restore), kept
}

// keeps is why a pod is kept ready, if it is. The caller holds mu.
func (p *protection) keeps(pod syncer.Key) HoldReason {
	switch panic, silentNode := p.readiness.Keeps(pod); {
	case panic:
		return HoldPanic
	case silentNode:
		return HoldSilentNode
	}
	return ""
}

// deletePod takes in the deletion of a pod, which nothing holds back.
func (p *protection) deletePod(v store.Versioned[syncer.Pod]) []store.Dirty {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.m.store.Pod(v.Object.Key)
	dirty := p.m.store.DeletePod(v)
	if held != nil && p.m.store.Pod(v.Object.Key) == nil {
		p.readiness.Gone(held)
	}
	return dirty
}

// upsertService takes in a Service of a watch event.
func (p *protection) upsertService(v store.Versioned[syncer.Service]) []store.Dirty {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, services := p.m.store.Size(); p.m.store.Service(v.Object.Key) == nil && p.full(kindServices, services) {
		return nil
	}
	return p.m.store.UpsertService(v)
}

// full reports whether there is no room for one more. What the member adds from
// then on is not seen; what it removes and changes is. The caller holds mu.
func (p *protection) full(kind, objects int) bool {
	if most := p.maxObjects(); most == 0 || objects < most {
		return false
	}
	p.overfull[kind] = true
	return true
}

// listed notes, after a list was taken in, whether the member is still doubted.
// When all kinds have been listed anew after it went back in time, it is not: what
// the lists do not show was for the guard to judge.
func (p *protection) listed(kind int, r kube.Replacement) {
	p.mu.Lock()
	doubted := p.lists[guardedKind(kind)].looks.Doubted()
	p.mu.Unlock()
	p.m.health.note(func(f *facts) {
		switch {
		case doubted && f.suspect == nil:
			f.wentBack(fmt.Errorf("%w: a list shows revision %s, a later one was seen before", kube.ErrWentBack, r.ResourceVersion))
		case doubted:
			f.anew[kind] = false
		case r.Reason == kube.Rewound || f.suspect != nil:
			f.listedAnew(kind)
		}
	})
}

// guardedKind is the kind of list of an essential kind.
func guardedKind(kind int) int {
	if kind == kindServices {
		return guardedServices
	}
	return guardedPods
}
