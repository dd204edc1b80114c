// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/native"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// nativeAgain is how often Services are looked at that are not compared for now:
// that what a guard kept is seen again touches none of them.
const nativeAgain = time.Second

// touch notes Services whose computed endpoints may have changed.
func (n *nativeObserver) touch(dirty []store.Dirty, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tracker == nil {
		return
	}
	for _, d := range dirty {
		if known := n.dirty[d.Source]; known.IsZero() {
			n.dirty[d.Source] = at
		}
	}
	signal(n.touched)
}

// again has Services looked at that nothing has touched. The caller holds mu.
func (n *nativeObserver) again(services ...syncer.Key) {
	for _, service := range services {
		if _, known := n.dirty[service]; !known {
			n.dirty[service] = time.Time{}
		}
	}
	signal(n.touched)
}

// lookAt has the Services of replicas looked at: what the member shows of them may
// have changed although nothing did that is replicated.
func (n *nativeObserver) lookAt(replicas ...syncer.Key) {
	if !n.observes() {
		return
	}
	services := n.sources(replicas...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tracker != nil {
		n.again(services...)
	}
}

// observes reports whether an observation is under way, for those who would have
// to walk over all Services to tell it something.
func (n *nativeObserver) observes() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.tracker != nil
}

// lookAtAll has all Services looked at, once the member has been read whole: half
// of the pods would make half of the endpoints.
func (n *nativeObserver) lookAtAll() {
	if n.synced() && n.observes() {
		n.lookAt(n.replicas()...)
	}
}

// compute tells the tracker what touched Services come to.
func (n *nativeObserver) compute(ctx context.Context) {
	tick := time.NewTicker(nativeAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n.mu.Lock()
			n.again(slices.Collect(maps.Keys(n.aside))...)
			n.mu.Unlock()
		case <-n.touched:
			n.mu.Lock()
			batch := n.dirty
			n.dirty = map[syncer.Key]time.Time{}
			n.mu.Unlock()
			for service, at := range batch {
				n.tell(service, at)
			}
		}
	}
}

// tell computes one Service; at is zero where no event touched it, and then there
// is nothing to measure.
func (n *nativeObserver) tell(service syncer.Key, at time.Time) {
	expected, comparable, held := n.ours(service)
	n.mu.Lock()
	delete(n.aside, service)
	if held {
		n.aside[service] = true
	}
	timed := !at.IsZero() && n.sees
	if at.IsZero() {
		at = time.Now()
	}
	late, measured := n.tracker.Ours(service, expected, comparable, at)
	n.mu.Unlock()
	n.report(late, measured && timed)
}

// ours is what the member's own controller is to come to for a Service: not what is
// replicated, which depends on settings and guards that it knows nothing of.
// Hand-written endpoints are nobody's computation and not comparable. held is true
// where a list lacks the Service, or pods of it, and nobody knows whether they are
// gone.
func (n *nativeObserver) ours(service syncer.Key) (expected native.Expected, comparable, held bool) {
	shown, ok := n.reported(service)
	if !ok || shown.Held {
		return native.Expected{}, false, ok
	}
	c := syncer.Compute(shown.Service, slices.Values(shown.Pods), syncer.Options{})
	expected, comparable = native.Expect(&c, n.capacity())
	return expected, comparable, false
}

// Controllers from this version on limit the addresses of an Endpoints object.
const truncatingMajor, truncatingMinor = 1, 22

// capacity is how many addresses the member's own controller writes at most.
func (n *nativeObserver) capacity() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return capacityOf(n.session.Version())
}

func capacityOf(v kube.ServerVersion) int {
	if v.Major > 0 && !v.AtLeast(truncatingMajor, truncatingMinor) {
		return math.MaxInt
	}
	return syncer.EndpointsCapacity
}

func (n *nativeObserver) report(late time.Duration, measured bool) {
	if measured && n.opts.NativeLag != nil {
		n.opts.NativeLag(n.cluster, late)
	}
}
