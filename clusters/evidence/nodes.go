// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// nodeSeen takes in the zone of a node, for which nobody waits.
func (s *State) nodeSeen(now time.Time, e *Seen[store.Node], out *Effects) {
	s.reach.contact = now
	cause := objectCause("Node", syncer.Key{Name: e.Object.Name}, "", e.RV, e.name())
	cause.Live = false
	s.announce(out, Change{Cause: cause, Dirty: s.store.SetNode(e.Object), Bulk: true})
}

// nodesListed takes in a list of nodes.
func (s *State) nodesListed(now time.Time, e Listed[store.Node], out *Effects) {
	s.reach.contact = now
	dirty, rules := s.store.ReplaceNodes(e.Items, s.listed[Pods])
	s.announce(out, Change{Cause: Cause{Kind: "Node", Event: "relist"}, Dirty: dirty, Bulk: true})
	if rules {
		s.decideAgain(now, out)
	}
	s.markListed(now, Nodes, out)
}

// NodesPatience is how long the first fill waits for nodes that cannot be read.
const NodesPatience = 10 * time.Second

// skipNodes goes on with the zones of what stands where nodes cannot be read: at once where they are
// refused and the others are not, for a server that has just started refuses everything
// for a moment.
func (s *State) skipNodes(now time.Time, out *Effects) {
	if s.listed[Nodes] || s.since.IsZero() {
		return
	}
	refused := s.reach.watches[Nodes].phase == Denied && s.listed[Services] && s.listed[Pods]
	if refused || now.Sub(s.since) >= NodesPatience {
		s.markListed(now, Nodes, out)
	}
}
