// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Of a member whose namespaces are read each by itself, one may be refused: its Role is
// missing, or went with it. That concerns it alone. What is known of it stays; what no list
// has shown of it begins for it as a start does for all: what stands of it stays, and what
// comes into sight is announced when its pods have been listed, too.

// leftOut are such namespaces, by kind.
type leftOut struct {
	// last are those that the last list of a kind says nothing of, unlisted those of them that
	// none has shown.
	last, unlisted [kinds]map[string]bool
}

// names are those that the last list of a kind says nothing of, in no order.
func (l *leftOut) names(kind Kind) []string { return slices.Collect(maps.Keys(l.last[kind])) }

// leaveOut takes in which namespaces a list says nothing of, before anything else of it.
func (s *State) leaveOut(kind Kind, refused LeftOut) {
	former, last := s.leftOut.last[kind], setOf(refused.Namespaces)
	s.leftOut.last[kind] = last
	if len(refused.Unlisted) > 0 {
		unlisted := setOf(refused.Unlisted)
		maps.Copy(unlisted, s.leftOut.unlisted[kind])
		s.leftOut.unlisted[kind] = unlisted
	}
	if len(former)+len(last) == 0 {
		return
	}
	q := s.inquiries[kind]
	for id, a := range s.absent {
		switch {
		case id.Kind != kind || a.state == isThere:
		case last[id.Key.Namespace]: // nobody answers
			if a.state = mayNotAsk; q != nil {
				delete(q.waiting, id)
			}
		case former[id.Key.Namespace] && a.state == mayNotAsk:
			a.state = notAsked
		}
	}
}

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// isLeftOut reports whether the last list of a kind says nothing of a namespace.
func (s *State) isLeftOut(kind Kind, namespace string) bool {
	if kind == Manual {
		return s.leftOut.last[Endpoints][namespace] || s.leftOut.last[Slices][namespace]
	}
	return s.leftOut.last[kind][namespace]
}

// isUnlisted reports whether no list of Services, or none of pods, has shown a namespace.
func (s *State) isUnlisted(namespace string) bool {
	return s.leftOut.unlisted[Services][namespace] || s.leftOut.unlisted[Pods][namespace]
}

// isUnread reports whether the pods of a Service have not been listed.
func (s *State) isUnread(service syncer.Key) bool {
	return s.unread[service] || s.leftOut.unlisted[Pods][service.Namespace]
}

// isBlind reports whether the stream of pods does not show a namespace.
func (s *State) isBlind(namespace string) bool {
	return slices.Contains(s.reach.watches[Pods].leftOut, namespace)
}

// announceListed announces what a believed list of a kind has shown the first time of
// namespaces that former ones left out.
func (s *State) announceListed(kind Kind, out *Effects) {
	shown := maps.Clone(s.leftOut.unlisted[kind])
	maps.DeleteFunc(shown, func(namespace string, _ bool) bool { return s.leftOut.last[kind][namespace] })
	if len(shown) == 0 {
		return
	}
	maps.DeleteFunc(s.leftOut.unlisted[kind], func(namespace string, _ bool) bool { return shown[namespace] })
	var dirty []store.Dirty
	for _, replica := range s.store.Replicas() {
		for _, source := range s.store.Sources(replica) {
			if shown[source.Namespace] {
				dirty = append(dirty, store.Dirty{Replica: replica, Source: source, Effect: syncer.Addition})
			}
		}
	}
	idle := func(sources []syncer.Key) bool {
		return slices.ContainsFunc(sources, func(source syncer.Key) bool { return shown[source.Namespace] })
	}
	for _, replica := range slices.SortedFunc(maps.Keys(s.baseline.idle), syncer.Key.Compare) {
		if idle(s.baseline.idle[replica]) {
			dirty = append(dirty, keptDirty([]syncer.Key{replica})...)
		}
	}
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "relist"}, Dirty: merged(dirty), Bulk: true})
}
