// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/syncer"
)

// HoldReason is why something is kept that the member seems to have lost; a
// metric label, so the set is closed.
type HoldReason string

// The reasons.
const (
	// HoldList: a list does not show it any more.
	HoldList HoldReason = "list_shrank"
	// HoldRevision: the member went back in time, and what it shows now is not used
	// before a second list confirms it.
	HoldRevision HoldReason = "revision_regressed"
	// HoldStart: the first lists after a start lack too much of what stands.
	HoldStart HoldReason = "first_list_shrank"
	// HoldPanic: too many pods turned not ready at once.
	HoldPanic HoldReason = "mass_not_ready"
	// HoldSilentNode: pods turned not ready because their nodes fell silent.
	HoldSilentNode HoldReason = "node_silent"
)

// Hold is something that is kept back.
type Hold struct {
	// Replica is zero when the member as a whole is meant.
	Replica syncer.Key
	Reason  HoldReason
	// Message says what is kept, for people.
	Message string
	Since   time.Time
	// Confirming is true when a second look may end it without anybody's help.
	Confirming bool
}

// holds lists what is kept, sorted by replica.
func (p *protection) holds() []Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Hold
	if s := &p.starting; !s.since.IsZero() {
		x := p.missing()
		all = append(all, Hold{Reason: HoldStart, Since: s.since, Confirming: s.verdict == guard.Confirm, Message: fmt.Sprintf(
			"%d of %d ready endpoints that stand are not in the first lists; nothing is changed", x.Lost, x.Before)})
	}
	doubted, since := false, time.Time{}
	for kind := range p.lists {
		if l := &p.lists[kind]; l.looks.Doubted() {
			doubted, since = true, earlierOf(since, l.since)
		}
	}
	if doubted {
		all = append(all, Hold{Reason: HoldRevision, Since: since, Confirming: true,
			Message: "the cluster went back in time; what it shows is not used before a second list confirms it"})
	}
	k := p.readiness.Kept()
	if !k.Panic.IsZero() {
		all = append(all, Hold{Reason: HoldPanic, Since: k.Panic, Message: fmt.Sprintf(
			"%d pods turned not ready without being deleted and are kept ready; %d others are ready", k.Pods-k.Silent, k.Ready)})
	}
	if k.Silent > 0 {
		all = append(all, Hold{Reason: HoldSilentNode, Since: k.First, Confirming: true, Message: fmt.Sprintf(
			"%d pods are kept ready whose nodes stopped reporting", k.Silent)})
	}
	if !doubted {
		all = append(all, p.listHolds()...)
	}
	return all
}

// listHolds are the holds of what lists lack, one for each replica. The caller
// holds mu.
func (p *protection) listHolds() []Hold {
	type lack struct{ pods, services, written, first int }
	lacks := map[syncer.Key]*lack{}
	of := func(replica syncer.Key) *lack {
		if lacks[replica] == nil {
			lacks[replica] = &lack{}
		}
		return lacks[replica]
	}
	for _, pod := range p.m.store.HeldPods() {
		for _, replica := range p.m.store.ReplicasOf(pod.Key) {
			of(replica).pods++
		}
	}
	place := p.m.currentSpec().cluster.Place
	for _, svc := range p.m.store.HeldServices() {
		if replica, ok := place(svc); ok {
			of(replica).services++
		}
	}
	for key := range p.written {
		if svc := p.m.store.Service(key.Service); svc != nil {
			if replica, ok := place(svc); !ok {
				continue
			} else if key.first {
				of(replica).first++
			} else {
				of(replica).written++
			}
		}
	}
	var all []Hold
	for _, replica := range slices.SortedFunc(maps.Keys(lacks), syncer.Key.Compare) {
		n := lacks[replica]
		h := Hold{Replica: replica, Reason: HoldList}
		var kinds []int
		switch {
		case n.services > 0:
			h.Message, kinds = "the Service is not listed any more and is kept", []int{guardedServices}
		case n.pods > 0:
			h.Message, kinds = fmt.Sprintf("%d pods are not listed any more and are kept", n.pods), []int{guardedPods}
		case n.first > 0:
			h.Reason, h.Message, kinds = HoldStart, "hand-written endpoints that stand are not in the first lists; what stands is kept", []int{guardedWritten}
		default:
			h.Message, kinds = "hand-written endpoints are not listed any more and are kept", []int{guardedWritten}
		}
		for _, kind := range kinds {
			h.Since = p.lists[kind].since
			h.Confirming = p.lists[kind].looks.Verdict() == guard.Confirm
		}
		all = append(all, h)
	}
	return all
}

func earlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// told is what has been said in the log.
type told struct {
	holding, panicking, overfull bool
}

// tell logs what has begun and ended, and lets the member's state show it.
func (p *protection) tell() {
	p.mu.Lock()
	before, k := p.told, p.readiness.Kept()
	since := time.Time{}
	for kind := range p.lists {
		since = earlierOf(since, p.lists[kind].since)
	}
	p.told = told{holding: !since.IsZero(), panicking: !k.Panic.IsZero(), overfull: p.overfull != [essentialKinds]bool{}}
	after, most := p.told, p.maxObjects()
	p.mu.Unlock()
	if before == after {
		return
	}
	log := p.m.log
	pods, services := p.m.store.Held()
	switch {
	case after.holding && !before.holding:
		log.Warn("lists of cluster lack what is served: it is kept", "pods", pods, "services", services)
	case before.holding && !after.holding:
		log.Info("nothing is kept against lists of cluster any more")
	}
	switch {
	case after.panicking && !before.panicking:
		log.Error("too many pods of cluster turned not ready at once: they are kept ready", "pods", k.Pods, "ready", k.Ready)
	case before.panicking && !after.panicking:
		log.Info("pods of cluster are taken as they are again", "kept", k.Worst)
	}
	p.m.health.note(func(f *facts) {
		f.holding, f.panicking, f.overfull = after.holding, after.panicking, nil
		if after.overfull {
			f.overfull = fmt.Errorf("%w (%d)", errOverfull, most)
		}
	})
}
