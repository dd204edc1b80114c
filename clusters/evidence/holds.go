// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// hold is what is kept for one replica, by the kinds that give endpoints together.
type hold struct {
	since time.Time
	parts [3]heldPart
}

// heldPart are the objects of such kinds. before are the ready endpoints that the replica
// had when the first of them was found to be absent: what replaces them since adds nothing.
type heldPart struct {
	before  int
	objects map[object]bool
}

// part is that of a kind.
func (h *hold) part(kind Kind) *heldPart { return &h.parts[min(kind, Nodes)] }

// objects are all of them.
func (h *hold) objects() iter.Seq[object] {
	return func(yield func(object) bool) {
		for _, p := range h.parts {
			for id := range p.objects {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// had are the ready endpoints that a replica had, as a list of a kind is to judge it: of all
// that it has, with what is kept, as many as when its hold began.
func (s *State) had(replica syncer.Key, kind Kind, ready int) int {
	if h := s.holds[replica]; h != nil && len(h.part(kind).objects) > 0 {
		return min(ready, max(h.part(kind).before, s.countedLoss(replica, kind, 0).after))
	}
	return ready
}

// Holds lists what is kept, that of the member as a whole first, then by replica. It is
// the one place that others learn it from.
func (s *State) Holds() []Hold {
	all := s.readinessHolds()
	if since := s.quarantine.from(); !since.IsZero() {
		return slices.Insert(all, 0, Hold{Reason: HoldRevision, Since: since, Confirming: true,
			Message: "the cluster went back in time; what it shows is not used before a second list confirms it"})
	}
	for _, replica := range slices.SortedFunc(maps.Keys(s.holds), syncer.Key.Compare) {
		all = append(all, s.holdOf(replica, s.holds[replica]))
	}
	return append(all, s.ruleHolds()...)
}

// Keeps reports whether anything is kept, or stands, that the member does not show.
func (s *State) Keeps() bool {
	return len(s.holds)+len(s.ruling.held)+len(s.baseline.replicas)+s.readiness.kept > 0
}

func (s *State) readinessHolds() []Hold {
	var all []Hold
	r := &s.readiness
	silent, first := r.silentKept()
	if s.inPanic() {
		all = append(all, Hold{Reason: HoldPanic, Since: r.panicAt, Message: fmt.Sprintf(
			"%d pods turned not ready without being deleted and are kept ready; %d others are ready", r.kept-silent, s.readyPods())})
	}
	if silent > 0 {
		all = append(all, Hold{Reason: HoldSilentNode, Since: first, Confirming: true, Message: fmt.Sprintf(
			"%d pods are kept ready whose nodes stopped reporting", silent)})
	}
	return all
}

// holdOf describes what is kept for a replica.
func (s *State) holdOf(replica syncer.Key, h *hold) Hold {
	var n [kinds + 1]int
	there, failed := 0, 0
	out := Hold{Replica: replica, Reason: HoldList, Since: h.since}
	for id := range h.objects() {
		a := s.absent[id]
		if a == nil {
			continue
		}
		n[id.Kind]++
		switch {
		case a.state == isThere:
			there++
		case a.state != mayNotAsk:
			out.Confirming = true
			if a.failures >= askFailures {
				failed++
			}
		default:
			out.Confirming = out.Confirming || s.tries[id.Kind] <= 1
		}
		if len(a.baseline) > 0 {
			out.Reason = HoldStart
		}
	}
	how := ""
	switch {
	case there > 0:
		how = fmt.Sprintf("; %d of them were asked for and are there", there)
	case failed > 0:
		how = fmt.Sprintf("; the cluster fails to say of %d of them whether they are there", failed)
	case !out.Confirming:
		how = "; they may not be asked for one by one (the right to get them is missing)"
	}
	switch {
	case n[Services] > 0:
		out.Message = "the Service is not listed any more and is kept" + how
	case n[Pods] > 0:
		out.Message = fmt.Sprintf("%d pods are not listed any more and are kept%s", n[Pods], how)
	case n[Manual] > 0:
		out.Message = "hand-written endpoints that stand are not in the first lists; what stands is kept" + how
	default:
		out.Message = "hand-written endpoints are not listed any more and are kept" + how
	}
	return out
}

// release lets go of what is kept, for one replica or for all.
func (s *State) release(now time.Time, replica *syncer.Key, out *Effects) {
	var gone []*absence
	is := func(other syncer.Key) bool { return replica == nil || other == *replica }
	for _, a := range s.absent {
		if _, has := s.has(a); !has && a.rv > 0 {
			continue // it was taken, and is asked for
		}
		if !a.since.IsZero() && (replica == nil || slices.Contains(a.replicas, *replica)) {
			gone = append(gone, a)
			switch a.id.Kind {
			case Pods:
				out.Released.Pods++
			case Services:
				out.Released.Services++
			default:
				out.Released.Manual++
			}
			for _, e := range a.baseline {
				if is(e.in.key) {
					out.Released.Standing++
				}
			}
		}
	}
	s.settleBut(now, sortAbsences(gone), func(other syncer.Key) bool { return !is(other) }, "released", out)
	var match func(syncer.Key) bool
	if replica != nil {
		match = func(pod syncer.Key) bool { return slices.Contains(s.store.ReplicasOf(pod), *replica) }
	}
	free := s.readiness.release(match)
	out.Released.NotReady += len(free)
	dirty := s.overrideAll(free, out)
	s.releaseRules(now, replica, out)
	if replica == nil {
		out.List = append(out.List, s.quarantine.end()...)
		s.contradicted = [kinds + 1]time.Time{}
	}
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "released"}, Dirty: dirty})
}

// logged is what was last said in the log.
type logged struct{ holding, panicking, ruling bool }

// logTransitions says what has begun and ended.
func (s *State) logTransitions(out *Effects) {
	r := &s.readiness
	is, was := logged{holding: len(s.holds) > 0, panicking: s.inPanic(), ruling: len(s.ruling.held) > 0}, s.logged
	if s.lists != [kinds]anyList{} {
		is.holding = was.holding // what a list lacks is judged at its end
	}
	s.logged = is
	switch {
	case is.holding && !was.holding:
		out.say(Warning, "lists of cluster lack what is served: it is kept", "objects", s.heldObjects(), "replicas", len(s.holds))
	case was.holding && !is.holding:
		out.say(Info, "nothing is kept against lists of cluster any more")
	}
	switch {
	case is.ruling && !was.ruling:
		out.say(Warning, "rules would take away too many endpoints of cluster at once: they are held", "replicas", len(s.ruling.held))
	case was.ruling && !is.ruling:
		out.say(Info, "no rule is held for cluster any more")
	}
	switch {
	case is.panicking && !was.panicking:
		out.say(Error, "too many pods of cluster turned not ready at once: they are kept ready", "pods", r.kept, "ready", s.readyPods())
	case was.panicking && !is.panicking:
		out.say(Info, "pods of cluster are taken as they are again", "kept", r.worst)
	}
}

// heldObjects counts what is kept against lists.
func (s *State) heldObjects() (n int) {
	for _, a := range s.absent {
		if !a.since.IsZero() {
			n++
		}
	}
	return n
}
