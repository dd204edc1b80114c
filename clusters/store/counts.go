// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "tributary.dev/tributary/syncer"

// podCounts counts pods by what they can be for a Service. It looks at the pod
// alone, so it is a little high where a named port does not resolve or an
// address is refused: near enough for gauges and guards, and free.
type podCounts struct {
	ready, notReady, terminating int32
	// withheld are not ready whatever the Service publishes: rules say so.
	withheld int32
}

func (t *podCounts) add(p *syncer.Pod)    { t.count(p, 1) }
func (t *podCounts) remove(p *syncer.Pod) { t.count(p, -1) }

func (t *podCounts) count(p *syncer.Pod, n int32) {
	if p.Terminal || !hasAddress(p) {
		return
	}
	switch {
	case p.Withheld:
		t.withheld += n
	case p.Terminating():
		t.terminating += n
	case p.Ready:
		t.ready += n
	default:
		t.notReady += n
	}
}

func hasAddress(p *syncer.Pod) bool {
	for i := range p.IPs {
		if p.IPs[i].Addr.IsValid() {
			return true
		}
	}
	return false
}

// endpoints counts a Service's endpoints, ready and not. Terminating pods are
// counted as ready with publishNotReadyAddresses and not at all otherwise, since
// no new traffic is meant for them.
func (t podCounts) endpoints(publishNotReady bool) (ready, notReady int) {
	if publishNotReady {
		return int(t.ready) + int(t.notReady) + int(t.terminating), int(t.withheld)
	}
	return int(t.ready), int(t.notReady) + int(t.withheld)
}

func (t podCounts) plus(o podCounts) podCounts {
	return podCounts{ready: t.ready + o.ready, notReady: t.notReady + o.notReady, terminating: t.terminating + o.terminating, withheld: t.withheld + o.withheld}
}

func (t podCounts) minus(o podCounts) podCounts {
	return podCounts{ready: t.ready - o.ready, notReady: t.notReady - o.notReady, terminating: t.terminating - o.terminating, withheld: t.withheld - o.withheld}
}
