// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"sync"
	"time"

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
	started     time.Time
	filled      bool // nodes have been listed; only the handler uses it

	mu      sync.Mutex
	session *session
	loop    *kube.Loop[store.Versioned[store.Node]] // nil while turned off
	off     context.CancelFunc                      // turns loop off
}

// nodesRetry is the time between two looks at whether nodes may be read by now.
const nodesRetry = 5 * time.Minute

// nodesPatience is how long the member's first fill waits for nodes that cannot
// be read for a reason other than a refusal, or are not answered at all.
const nodesPatience = 10 * time.Second

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

// waitNoLonger lets the member be read whole without nodes.
func (n *nodes) waitNoLonger() {
	if n.m.feed.has(fillNodes) {
		return
	}
	n.m.health.remark(kube.Nodes.Resource, "cannot be read: endpoints carry no zones yet")
	n.m.feed.fill(fillNodes, time.Now())
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
		Handler: nodesHandler{n.m.feed, n}, MaxObjects: n.m.protect.maxObjects,
		Observer: n.m.feed, Logger: n.m.log,
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

// nodesHandler takes in the nodes of a member.
type nodesHandler struct {
	*feed
	nodes *nodes
}

// Replaced implements kube.Handler.
func (h nodesHandler) Replaced(items []store.Versioned[store.Node], r kube.Replacement) {
	h.nodes.filled = true
	h.m.health.remark(kube.Nodes.Resource, "")
	h.bulk(h.m.store.ReplaceNodes(items), h.cause("Node", "relist", r.Finished))
	h.fill(fillNodes, r.Finished)
}

// Upserted implements kube.Handler.
func (h nodesHandler) Upserted(n store.Versioned[store.Node], e kube.EventMeta) {
	h.event(kube.Nodes.Resource, e)
	cause := h.liveCause("Node", syncer.Key{Name: n.Object.Name}, "", e)
	cause.Live = false // nobody waits for a zone
	h.bulk(h.m.store.SetNode(n.Object), cause)
}

// Deleted implements kube.Handler. The zone stays: a node's pods outlive it
// for a while, and rewriting their slices without it would serve nobody.
func (h nodesHandler) Deleted(_ store.Versioned[store.Node], e kube.EventMeta) {
	h.event(kube.Nodes.Resource, e)
}

// Contact implements kube.Handler.
func (h nodesHandler) Contact(at time.Time, bookmark bool) {
	h.contact(kube.Nodes.Resource, at, bookmark)
}

// Changed implements kube.Handler. A server that has just started refuses
// everything for a moment, so a refusal counts only once other kinds were read;
// and zones that are known are worth more than none.
func (h nodesHandler) Changed(s kube.State) {
	switch {
	case h.nodes.filled:
	case s.Phase == kube.Forbidden && h.has(fillServices) && h.has(fillPods):
		h.m.health.remark(kube.Nodes.Resource, "may not be read: endpoints carry no zones")
		h.fill(fillNodes, time.Now())
		h.nodes.turnOff()
	}
}
