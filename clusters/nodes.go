// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// nodes are the zones of a member's nodes, if it lets them be read; otherwise slices name
// those that stand already.
type nodes struct {
	*intake
	read atomic.Bool // once, at least
}

// nodesRetry is the time between two questions for nodes that may not be read.
const nodesRetry = 5 * time.Minute

func (n *nodes) watch(s *session) *kube.Loop[store.Versioned[store.Node]] {
	return watch(n.intake, s.ListWatcher(kube.Nodes), kube.Config[store.Versioned[store.Node]]{
		Kind: kube.Nodes.Resource, Convert: convertWith(n.decoder.Node), Key: nodeKey,
		Handler: handler[store.Node]{intake: n.intake, kind: evidence.Nodes, changed: n.changed, shown: func() { n.read.Store(true) }},
		RefusedRetry: func() time.Duration {
			if n.dispensable() {
				return nodesRetry
			}
			return 0
		},
	})
}

func nodeKey(v *store.Versioned[store.Node]) syncer.Key { return syncer.Key{Name: v.Object.Name} }

// dispensable reports whether the member goes on without: a server that has just started
// refuses everything for a moment, so a refusal counts only once other kinds were read;
// and zones that are known are worth more than none.
func (n *nodes) dispensable() bool { return !n.read.Load() && n.synced() }

func (n *nodes) changed(s kube.State) {
	if s.Phase == kube.Forbidden && n.dispensable() {
		n.remarks.remark(kube.Nodes.Resource, "may not be read: endpoints on new nodes carry no zones")
	}
}

// overdue says that the member is read whole without nodes.
func (n *nodes) overdue() {
	if !n.read.Load() {
		n.remarks.remark(kube.Nodes.Resource, "cannot be read: endpoints on new nodes carry no zones yet")
	}
}
