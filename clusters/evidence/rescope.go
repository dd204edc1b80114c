// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// A configuration that takes in more namespaces begins for these as a start does for
// all: half of a Service's pods would make half of its endpoints, and none of them none.
// So a Service that comes into sight is announced when the pods have been listed, too.

// rescope waits for the pods of namespaces that were not read before.
func (s *State) rescope() {
	s.rescoped = s.synced
}

// readWhole leaves out what comes of Services whose pods have not been read.
func (s *State) readWhole(dirty []store.Dirty) []store.Dirty {
	if len(s.unread)+len(s.leftOut.unlisted[Pods]) == 0 {
		return dirty
	}
	return slices.DeleteFunc(dirty, func(d store.Dirty) bool { return s.isUnread(d.Source) })
}

// announceUnread announces the Services that waited for a list of pods.
func (s *State) announceUnread(out *Effects) {
	var dirty []store.Dirty
	for source := range s.unread {
		if s.isLeftOut(Pods, source.Namespace) {
			continue
		}
		delete(s.unread, source)
		if replica, placed := s.store.Placed(source); placed {
			dirty = append(dirty, store.Dirty{Replica: replica, Source: source, Effect: syncer.Addition})
		}
	}
	s.rescoped = false
	slices.SortFunc(dirty, func(a, b store.Dirty) int { return a.Source.Compare(b.Source) })
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "relist"}, Dirty: dirty, Bulk: true})
}
