// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// nodes follows the zones of a member's nodes, if it may: a refusal from the
// start turns it off, and it asks again now and then. Slices then name no zones.
type nodes struct {
	m *Member
	// reconnected is sent to (without blocking) after session has changed.
	reconnected chan struct{}
	filled      atomic.Bool // nodes have been listed

	mu      sync.Mutex
	session *session
	loop    *kube.Loop[store.Versioned[store.Node]] // nil while turned off
	off     context.CancelFunc                      // turns loop off
}

// nodesRetry is the time between two looks at whether nodes may be read by now.
const nodesRetry = 5 * time.Minute

// nodesPatience is how long the member's first fill waits for nodes.
const nodesPatience = evidence.NodesPatience

func newNodes(m *Member, s *session) *nodes {
	return &nodes{m: m, session: s, reconnected: make(chan struct{}, 1)}
}

// run follows until ctx ends.
func (n *nodes) run(ctx context.Context) {
	patience := time.AfterFunc(nodesPatience, n.waitNoLonger)
	defer patience.Stop()
	for ctx.Err() == nil {
		on, off := context.WithCancel(ctx)
		n.start(off).Run(on)
		off()
		select {
		case <-ctx.Done():
		case <-n.reconnected:
		case <-time.After(nodesRetry):
		}
	}
}

// waitNoLonger says that the member is read whole without nodes.
func (n *nodes) waitNoLonger() {
	if !n.filled.Load() {
		n.m.remarks.remark(kube.Nodes.Resource, "cannot be read: endpoints carry no zones yet")
	}
}

// start makes the next loop.
func (n *nodes) start(off context.CancelFunc) *kube.Loop[store.Versioned[store.Node]] {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.reconnected: // session is read below
	default:
	}
	n.off = off
	n.loop = kube.New(kube.Config[store.Versioned[store.Node]]{
		Kind: kube.Nodes.Resource, Convert: convertWith(n.m.decoder.Node), Key: nodeKey,
		Handler:    handler[store.Node]{m: n.m, kind: evidence.Nodes, changed: n.changed, listed: func() { n.filled.Store(true) }},
		MaxObjects: n.m.maxObjects, Observer: n.m, Logger: n.m.log,
	}, n.session.ListWatcher(kube.Nodes))
	return n.loop
}

func nodeKey(v *store.Versioned[store.Node]) syncer.Key { return syncer.Key{Name: v.Object.Name} }

// exchange goes over to another session.
func (n *nodes) exchange(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session = s
	if n.loop != nil {
		n.loop.SetListWatcher(s.ListWatcher(kube.Nodes))
		return
	}
	select {
	case n.reconnected <- struct{}{}:
	default:
	}
}

// each calls what every loop has, if there is one.
func (n *nodes) each(call func(looper)) {
	n.mu.Lock()
	loop := n.loop
	n.mu.Unlock()
	if loop != nil {
		call(loop)
	}
}

// turnOff ends the loop.
func (n *nodes) turnOff() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loop = nil
	n.off()
}

// changed notes what the member can do without. A server that has just started refuses
// everything for a moment, so a refusal counts only once other kinds were read; and
// zones that are known are worth more than none.
func (n *nodes) changed(s kube.State) {
	switch {
	case n.filled.Load() || !n.m.view.Load().Synced:
	case s.Phase == kube.Forbidden:
		n.m.remarks.remark(kube.Nodes.Resource, "may not be read: endpoints carry no zones")
		n.turnOff()
	}
}
