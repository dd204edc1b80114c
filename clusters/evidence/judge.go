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

// loss is what lists would take from a replica.
type loss struct {
	replica syncer.Key
	at      time.Time
	// before are the ready endpoints that it had, after those that it would have, with
	// all replacements; gone are those that lists lack.
	before, after, gone int
	// barren are those of before that were none: pods that count, and give nothing.
	barren int
	// beyond is true for one that passed though it is more than the replica's share.
	beyond bool
}

// lost are the ready endpoints that nothing replaces.
func (l *loss) lost() int { return min(l.gone, max(0, l.before-l.barren-l.after)) }

// judge returns the replicas whose losses are not settled by lists alone. A loss within
// the replica's share passes, whatever happens to others. Those beyond it pass together,
// if with those of the last minute they are no more than MinEndpoints, and nothing is
// emptied. doubtAll is for a kind whose lists are known to lack what is there. passed
// are those that go by it.
func judge(l Limits, losses, recent []loss, doubtAll bool) (unsettled map[syncer.Key]bool, passed []loss) {
	unsettled = map[syncer.Key]bool{}
	if !l.Lists {
		return unsettled, nil
	}
	beyond, emptied := 0, false
	had := map[syncer.Key]int{}
	for _, r := range recent {
		if had[r.replica] += r.lost(); r.beyond {
			beyond += r.lost()
		}
	}
	var over []loss
	for _, x := range losses {
		switch lost := x.lost(); {
		case x.gone == 0:
		case doubtAll:
			unsettled[x.replica] = true
		case lost == 0:
		case x.after == 0 || exceeds(lost+had[x.replica], x.before-x.barren+had[x.replica], l.Percent):
			x.beyond = true
			over = append(over, x)
			beyond += lost
			emptied = emptied || x.after == 0
		default:
			passed = append(passed, x)
		}
	}
	if emptied || beyond > l.MinEndpoints {
		for _, x := range over {
			unsettled[x.replica] = true
		}
		return unsettled, passed
	}
	return unsettled, append(passed, over...)
}

// confirms reports whether a second list may take what cannot be asked for: lost of
// before ready endpoints of the member. An empty list is what a wrong proxy, a wrong
// filter and a wrong restore answer.
func (l Limits) confirms(lost, before int, empty bool) bool {
	return lost <= l.MinEndpoints || !empty && !exceeds(lost, before, l.ConfirmPercent)
}

// recent are the losses that lists took within window.
func (s *State) recent(now time.Time) []loss {
	s.taken = slices.DeleteFunc(s.taken, func(l loss) bool { return now.Sub(l.at) >= window })
	return s.taken
}

// took notes losses that pass.
func (s *State) took(now time.Time, passed []loss) {
	for _, l := range passed {
		l.at = now
		s.taken = append(s.taken, l)
	}
}

// judgeLacking decides about what lists of a kind lack: what is believed goes, the rest
// is kept and asked for.
func (s *State) judgeLacking(now time.Time, kind Kind, before map[syncer.Key]int, empty bool, out *Effects) {
	if kind == Pods {
		s.recallPods(now)
		s.announceUnread(out) // they give what this list shows, and replace by it
	}
	s.damp(now, out)               // what waits to be stable replaces nothing yet
	if kind == Pods && !s.synced { // pods that do not stand have never been given
		s.settleAll(now, slices.DeleteFunc(s.lacking(kind), func(a *absence) bool { return s.baseline.stands(a.id.Key, a.uid) }), "relist", out)
	}
	lacking := s.lacking(kind)
	for _, a := range lacking {
		if p := s.store.Pod(a.id.Key); kind == Pods && p != nil {
			s.refile(a, (*pods)(nil).lost(s, p)) // of Services as they are when the list ends
		}
		s.markHeld(a)
	}
	by := byReplica(lacking)
	var losses []loss
	for _, replica := range slices.SortedFunc(maps.Keys(by), syncer.Key.Compare) {
		losses = append(losses, s.lossOf(replica, kind, before[replica]))
	}
	unsettled, passed := judge(s.cfg.Limits, losses, s.recent(now), !s.contradicted[kind].IsZero())
	s.took(now, passed)
	var taken []*absence
	for _, a := range lacking {
		taken = append(taken, s.withoutObject(a))
	}
	notThere := slices.DeleteFunc(lacking, func(a *absence) bool { return a.state == isThere }) // since the list was read
	s.settleBut(now, notThere, func(replica syncer.Key) bool { return unsettled[replica] }, "relist", out)
	s.believed[kind] = slices.DeleteFunc(taken, func(a *absence) bool { return s.absent[a.id] != nil })
	for _, l := range losses {
		if unsettled[l.replica] {
			s.hold(now, l, by[l.replica])
		}
	}
	s.reportKept(kind, out)
	s.lookTwice(now, kind, losses, before, empty, out)
	s.inquire(now, kind, out)
}

// lossOf is what a replica would lose by all of a kind that is absent, without what counts
// and gives no endpoint.
func (s *State) lossOf(replica syncer.Key, kind Kind, before int) loss {
	l := s.countedLoss(replica, kind, before)
	if kind == Pods {
		s.weigh(&l, s.store.Sources(replica), false)
	}
	return l
}

// weigh takes out of a loss the pods of its sources that are no endpoints, as far as that
// decides: where none is left that is one, and where the loss is within limits for those that
// came. What these are is not known of each: at worst all that are none. Pods alone are judged,
// or what Services that lists lack give as well.
func (s *State) weigh(l *loss, sources []syncer.Key, ofServices bool) {
	if l.gone == 0 {
		return
	}
	came := max(0, l.after-max(0, l.before-l.gone))
	all := came > 0 && exceeds(l.gone, l.before, s.cfg.Percent) && (l.lost() <= s.cfg.MinEndpoints || !exceeds(l.lost(), l.before, s.cfg.Percent))
	var held, shown, heldNone, shownNone int
	for _, source := range sources {
		if src, _ := s.store.Source(source); src.Manual {
			shown += src.Ready
		}
		for isHeld, isEndpoint := range s.store.Candidates(source, ofServices) {
			switch {
			case isHeld && isEndpoint:
				held++
			case isHeld:
				heldNone++
			case isEndpoint:
				shown++
			default:
				shownNone++
			}
			if !all && shown > 0 {
				return
			}
		}
	}
	switch {
	case held == 0 && l.gone == heldNone: // there was none before: by numbers
	case shown == 0:
		l.after = 0
	default:
		l.barren = heldNone + max(0, shownNone-came)
		l.gone, l.after = l.gone-heldNone, l.after-shownNone
	}
}

// countedLoss is what a replica would lose by all of a kind that is absent, by numbers.
func (s *State) countedLoss(replica syncer.Key, kind Kind, before int) loss {
	ready, seen := s.store.ReadyEndpoints(replica), s.store.SeenEndpoints(replica, kind == Services)
	waits, lacking := s.waitingIn(replica)
	for source := range s.unread { // it gives nothing yet
		if in, placed := s.store.Placed(source); placed && in == replica && s.isUnread(source) {
			waits += s.store.SeenFrom(source)
		}
	}
	return loss{replica: replica, before: max(before, 0), after: max(0, seen-waits+lacking), gone: ready - seen - lacking + s.baseline.left(replica)}
}

// rejudge lets go of what is kept for replicas that have replacements by now.
func (s *State) rejudge(now time.Time, dirty []store.Dirty, out *Effects) {
	for _, d := range dirty {
		h := s.holds[d.Replica]
		if h == nil || d.Effect != syncer.Addition && d.Effect != syncer.Removal {
			continue
		}
		s.damp(now, out)
		for _, kind := range []Kind{Services, Pods, Endpoints} {
			s.rejudgePart(now, d.Replica, kind, h.part(kind), out)
		}
	}
}

// rejudgePart does so for kinds that give endpoints together.
func (s *State) rejudgePart(now time.Time, replica syncer.Key, kind Kind, h *heldPart, out *Effects) {
	limits := s.cfg.Limits
	var replaced []*absence
	for id := range h.objects {
		if a := s.absent[id]; a != nil {
			if a.state != mayNotAsk {
				limits.MinEndpoints = 0 // an answer is on its way
			}
			if a.state != isThere && s.contradicted[id.Kind].IsZero() {
				replaced = append(replaced, a)
			}
		}
	}
	unsettled, passed := judge(limits, []loss{s.lossOf(replica, kind, h.before)}, s.recent(now), false)
	if len(replaced) > 0 && !unsettled[replica] {
		s.took(now, passed)
		s.settleBut(now, sortAbsences(replaced), func(other syncer.Key) bool { return other != replica }, "replaced", out)
	}
}

// keepSelected judges what a replica loses because a Service selects other pods than before,
// of which lists lack some: those are kept for others so far. before are the ready endpoints
// that it had.
func (s *State) keepSelected(now time.Time, service syncer.Key, before int) (dirty []store.Dirty) {
	replica, _ := s.store.Placed(service)
	l := s.countedLoss(replica, Pods, before)
	var lacking []*absence
	for _, a := range s.lacking(Pods) {
		if a.state != isThere && !slices.Contains(a.replicas, replica) && s.store.Selects(service, a.id.Key) {
			lacking = append(lacking, a)
			l.gone++
		}
	}
	s.weigh(&l, s.store.Sources(replica), false)
	if unsettled, _ := judge(s.cfg.Limits, []loss{l}, s.recent(now), false); len(lacking) == 0 || !unsettled[replica] {
		return nil
	}
	for _, a := range lacking {
		dirty = append(dirty, s.keepFor(a, append(slices.Clone(a.replicas), replica))...)
	}
	s.hold(now, l, lacking)
	return dirty
}
