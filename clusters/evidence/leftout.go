// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Of a member whose namespaces are read each by itself, one may be refused: its Role is
// missing, or went with it; or its requests fail. That concerns it alone. What is known of it stays; what no list
// has shown of it begins for it as a start does for all: what stands of it stays, and what
// comes into sight is announced when its pods have been listed, too.

// leftOut are such namespaces, by kind.
type leftOut struct {
	// last are those that the last list of a kind says nothing of, unlisted those of them that
	// none has shown.
	last, unlisted [kinds]map[string]bool
	// unconfirmed are those that no list that is believed has shown since the store went back in
	// time, by when the first that is left them out.
	unconfirmed [kinds]map[string]time.Time
}

// names are those that the last list of a kind says nothing of, in no order.
func (l *leftOut) names(kind Kind) []string { return slices.Collect(maps.Keys(l.last[kind])) }

// leaveOut takes in which namespaces a list says nothing of, before anything else of it.
func (s *State) leaveOut(now time.Time, kind Kind, refused LeftOut) {
	former, last := s.leftOut.last[kind], setOf(refused.Namespaces)
	s.leftOut.last[kind] = last
	s.leftOut.unlisted[kind] = joined(s.leftOut.unlisted[kind], refused.Unlisted)
	if s.quarantine.lost(kind) {
		s.leaveUnconfirmed(now, kind, refused.Namespaces)
	}
	s.mayAsk(kind, former)
	for _, a := range s.absentIn(kind, last) {
		if q := s.inquiries[a.id.Kind]; a.state != isThere { // nobody answers
			if a.state = mayNotAsk; q != nil {
				delete(q.waiting, a.id)
			}
		}
	}
}

// leaveUnconfirmed notes namespaces that a list leaves out while none of the kind was believed since
// the store went back: what lists in doubt have shown is as if none had.
func (s *State) leaveUnconfirmed(now time.Time, kind Kind, namespaces []string) {
	if kind <= Pods && !s.listed[kind] {
		s.leftOut.unlisted[kind] = joined(s.leftOut.unlisted[kind], namespaces)
	}
	for _, namespace := range namespaces {
		if s.leftOut.unconfirmed[kind] == nil {
			s.leftOut.unconfirmed[kind] = map[string]time.Time{}
		}
		if s.leftOut.unconfirmed[kind][namespace].IsZero() {
			s.leftOut.unconfirmed[kind][namespace] = now
		}
	}
}

// followed takes in that the stream of a kind shows namespaces that the last list left out. It
// goes on where it was, so that nothing of them is to be listed: what lists before that lacked
// is asked for now. Where those were in doubt, nobody knows what they lacked: the kind is listed.
func (s *State) followed(now time.Time, kind Kind, out *Effects) {
	w := &s.reach.watches[kind]
	if w.phase != Following {
		return
	}
	shown := map[string]bool{}
	for namespace := range s.leftOut.last[kind] {
		switch {
		case slices.Contains(w.leftOut, namespace):
		case s.isUnconfirmed(kind, namespace): // ever more seldom
			since := s.leftOut.unconfirmed[kind][namespace]
			s.dueBy(kind, s.listedAt[kind].Add(max(min(now.Sub(since), time.Minute), s.cfg.ConfirmAfter)))
		case !s.leftOut.unlisted[kind][namespace]:
			shown[namespace] = true
			delete(s.leftOut.last[kind], namespace)
		}
	}
	for _, asked := range s.mayAsk(kind, shown) {
		s.inquire(now, asked, out)
	}
}

// mayAsk has what lists lack of some namespaces be asked for that were left out, and returns of
// which kinds there is any.
func (s *State) mayAsk(kind Kind, namespaces map[string]bool) (kinds []Kind) {
	for _, a := range s.absentIn(kind, namespaces) {
		if a.state == mayNotAsk {
			a.state = notAsked
		}
		if !slices.Contains(kinds, a.id.Kind) {
			kinds = append(kinds, a.id.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// absentIn is what lists of a kind lack of some namespaces.
func (s *State) absentIn(kind Kind, namespaces map[string]bool) (all []*absence) {
	for id, a := range s.absent {
		is := id.Kind == kind || id.Kind == Manual && (kind == Endpoints || kind == Slices)
		if is && namespaces[id.Key.Namespace] {
			all = append(all, a)
		}
	}
	return all
}

func setOf(names []string) map[string]bool { return joined(map[string]bool{}, names) }

// joined adds names to a set, which may be nil.
func joined(set map[string]bool, names []string) map[string]bool {
	if set == nil && len(names) > 0 {
		set = map[string]bool{}
	}
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

// lost reports whether what lists of a kind lack in a namespace may be of a time that was lost: none
// that is believed has shown it since.
func (s *State) lost(kind Kind, namespace string) bool {
	if kind == Manual {
		return s.lost(Endpoints, namespace) || s.lost(Slices, namespace)
	}
	return s.quarantine.lost(kind) || s.isUnconfirmed(kind, namespace)
}

func (s *State) isUnconfirmed(kind Kind, namespace string) bool {
	return !s.leftOut.unconfirmed[kind][namespace].IsZero()
}

// isUnlisted reports whether no list of Services, or none of pods, has shown a namespace.
func (s *State) isUnlisted(namespace string) bool {
	return s.leftOut.unlisted[Services][namespace] || s.leftOut.unlisted[Pods][namespace]
}

// isUnread reports whether the pods of a Service have not been listed. One without a selector
// needs none.
func (s *State) isUnread(service syncer.Key) bool {
	return !s.store.IsManual(service) && (s.unread[service] || s.leftOut.unlisted[Pods][service.Namespace])
}

// blind are the namespaces whose pods are out of sight: the list that is being taken in leaves
// them out, else the stream, or all lists until now.
func (s *State) blind() []string {
	if s.lists[Pods] != nil {
		return s.leftOut.names(Pods)
	}
	return s.unfollowed()
}

// unfollowed are those between lists.
func (s *State) unfollowed() []string {
	return slices.AppendSeq(slices.Clone(s.reach.watches[Pods].leftOut), maps.Keys(s.leftOut.unlisted[Pods]))
}

// sighted takes in that other namespaces are out of sight than before: a panic that is paused for
// one that may be seen now is judged anew.
func (s *State) sighted(before []string) {
	now := s.blind()
	if slices.Equal(before, now) {
		return
	}
	s.readiness.recount(s.stillServes)
	if slices.ContainsFunc(before, func(namespace string) bool { return !slices.Contains(now, namespace) }) {
		s.readiness.paused = false
	}
}

func (s *State) isBlind(namespace string) bool { return slices.Contains(s.blind(), namespace) }

// firstShown are the namespaces that the last list of a kind shows, and none before it did.
func (s *State) firstShown(kind Kind) map[string]bool {
	shown := maps.Clone(s.leftOut.unlisted[kind])
	maps.DeleteFunc(shown, func(namespace string, _ bool) bool { return s.leftOut.last[kind][namespace] })
	return shown
}

// announceListed announces what a believed list of a kind has shown the first time of
// namespaces that former ones left out.
func (s *State) announceListed(kind Kind, out *Effects) {
	maps.DeleteFunc(s.leftOut.unconfirmed[kind], func(namespace string, _ time.Time) bool { return !s.isLeftOut(kind, namespace) })
	shown := s.firstShown(kind)
	if len(shown) == 0 {
		return
	}
	maps.DeleteFunc(s.leftOut.unlisted[kind], func(namespace string, _ bool) bool { return shown[namespace] })
	s.forgetStood()
	var dirty []store.Dirty
	for _, replica := range s.store.Replicas() {
		for _, source := range s.store.Sources(replica) {
			if shown[source.Namespace] {
				dirty = append(dirty, store.Dirty{Replica: replica, Source: source, Effect: syncer.Addition})
			}
		}
	}
	for _, replica := range slices.SortedFunc(maps.Keys(s.baseline.idle), syncer.Key.Compare) {
		if slices.ContainsFunc(s.baseline.idle[replica], func(source syncer.Key) bool { return shown[source.Namespace] }) {
			dirty = append(dirty, keptDirty([]syncer.Key{replica})...)
		}
	}
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "relist"}, Dirty: merged(dirty), Bulk: true})
}
