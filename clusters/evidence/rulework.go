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

// ruleWork is rules that come into force, a judgement of what those in force would take
// away, or a release of it, in pieces: asking them, going over to them, looking what waits,
// and giving way to what is not held. In between anything may happen, and each Service goes
// by one version of the rules. What comes to be done meanwhile is begun after it.
type ruleWork struct {
	cause Cause
	turn  ruleTurn
	edit  *store.Edit // that comes into force; nil: those in force are judged again
	begun bool        // the first Services go by it
	start bool        // the member is announced after it, and untold then
	// released is what is let go; nil is nothing. leading is what stood when this process came
	// to write; nil: it does not, or that is done.
	released map[syncer.Key]*ruleHold
	leading  *Leading
	// was and held are what is held before and after it.
	was, held map[syncer.Key]*ruleHold
	waiting   map[syncer.Key]store.Waiting
	// replicas are those that the turn is about, of which at are done.
	replicas []syncer.Key
	at       int
	untold   []Change
}

// tell announces what comes of it.
func (w *ruleWork) tell(s *State, c Change, out *Effects) {
	if w.start {
		w.untold = append(w.untold, c)
	} else {
		s.announce(out, c)
	}
}

// ruleTurn is a part of the work.
type ruleTurn int

const (
	ask ruleTurn = iota
	goOver
	look
	giveWay
	ruleTurns
)

// enforce puts the rules of the configuration in force when what they read is known, and
// judges what waits: a piece of it, or all where there are few pods.
func (s *State) enforce(now time.Time, out *Effects) {
	pods, _ := s.store.Size()
	for s.ruling.work != nil || s.beginRules() {
		if s.ruleTurn(now, out); pods > s.piece {
			return
		}
	}
}

// putOff lets go of an edit that no Service goes by yet: it is begun anew.
func (r *ruling) putOff() {
	if w := r.work; w != nil && w.edit != nil && !w.begun && !w.start {
		r.work, r.pending = nil, true
	}
}

// beginRules begins what there is to do.
func (s *State) beginRules() bool {
	r := &s.ruling
	var w ruleWork
	switch {
	case r.released != nil:
		w = ruleWork{turn: giveWay, was: r.held, released: r.released}
		r.released = nil
	case r.leading != nil && s.synced:
		w = ruleWork{turn: look, was: maps.Clone(r.held), leading: r.leading}
		r.leading, r.met = nil, false
	case r.pending && r.needed == [kinds]bool{}:
		w = ruleWork{edit: store.NewEdit(s.cfg.Decider, s.cfg.KeptSince)}
		r.pending = false
	case r.met && s.synced:
		w = ruleWork{turn: look, was: r.held}
		r.met = false
	default:
		return false
	}
	w.cause, w.waiting, w.held = Cause{Kind: "Config", Event: "config"}, map[syncer.Key]store.Waiting{}, map[syncer.Key]*ruleHold{}
	if w.released != nil {
		w.cause, w.held = Cause{Kind: "Cluster", Event: "released"}, maps.Clone(r.held)
	}
	r.work = &w
	return true
}

// startRules puts the rules in force when the member has been read whole, and reports
// whether they are: what stands ready is judged, anything else counts as they have it. The
// member is announced after that.
func (s *State) startRules(now time.Time, out *Effects) (done bool) {
	if s.cfg.Decider == nil {
		return true
	}
	if s.ruling.work == nil {
		s.ruling.pending, s.ruling.needed = true, [kinds]bool{}
		s.beginRules()
		s.ruling.work.start = true
	}
	s.enforce(now, out)
	return false
}

// ruleTurn does a piece.
func (s *State) ruleTurn(now time.Time, out *Effects) {
	w, done := s.ruling.work, false
	switch w.turn {
	case ask: // fewer than a piece of a list has: one that is unlike all before takes longer
		done = !s.store.Prepare(w.edit, max(1, s.piece/8))
	case goOver:
		done = s.goOver(now, w, out)
	case look:
		done = s.lookAtRules(now, w, out)
	case giveWay:
		done = s.giveWay(w, out)
	}
	if done {
		w.turn, w.replicas, w.at = w.turn+1, nil, 0
	}
	if w.turn == ruleTurns {
		s.endRules(now, w, out)
	}
}

// goOver has Services go by the rules of an edit. What they add counts at once.
func (s *State) goOver(now time.Time, w *ruleWork, out *Effects) (done bool) {
	if r := &s.ruling; !w.begun {
		w.begun, r.since, r.takes = true, s.cfg.KeptSince, map[string]int{}
		s.store.Begin(w.edit)
	}
	dirty, more := s.store.Switch(s.piece)
	if w.start { // all is announced
		return !more
	}
	added := map[string][]store.Dirty{}
	for _, d := range dirty {
		rule := s.store.RuleOf(d.Source)
		added[rule] = append(added[rule], d)
	}
	for _, rule := range slices.Sorted(maps.Keys(added)) {
		cause := w.cause
		cause.Rule = rule
		s.announce(out, Change{Cause: cause, Dirty: added[rule], Bulk: true})
	}
	s.rejudge(now, dirty, out)
	return !more
}

// nextReplica is the next of the replicas, while there is room for more in this piece.
func (s *State) nextReplica(w *ruleWork, room *int) (replica syncer.Key, ok bool) {
	if w.at == len(w.replicas) || *room <= 0 {
		return replica, false
	}
	replica = w.replicas[w.at]
	w.at++
	*room -= 1 + s.store.Rulings(replica)
	return replica, true
}

// lookAtRules finds what waits, and decides about it: rule by rule, that which takes most
// first, so that one that takes too much does not keep others back.
func (s *State) lookAtRules(now time.Time, w *ruleWork, out *Effects) (done bool) {
	if w.replicas == nil {
		w.replicas = s.store.Replicas()
	}
	room := s.piece
	for replica, ok := s.nextReplica(w, &room); ok; replica, ok = s.nextReplica(w, &room) {
		if w.start {
			s.store.ApplyRules(replica, func(p *syncer.Pod) bool { return !s.standsReady(p, replica) && !s.mayHaveWaited(now, p) })
		}
		if w.leading != nil && (w.start || w.was[replica] != nil) {
			s.letStand(w, replica, out)
		}
		delete(w.waiting, replica)
		if waiting, is := s.store.WaitingRules(replica, w.held[replica].has); is {
			w.waiting[replica] = waiting
		}
	}
	if w.at < len(w.replicas) {
		return false
	}
	var losses []loss
	for _, replica := range slices.SortedFunc(maps.Keys(w.waiting), syncer.Key.Compare) {
		is := w.waiting[replica]
		losses = append(losses, loss{replica: replica, before: is.Ready, after: is.Ready - is.Endpoints, gone: is.Endpoints})
	}
	unsettled, passed := judge(s.cfg.Limits, losses, s.recent(now), false)
	w.replicas, w.at = nil, 0
	for _, l := range losses {
		// A hold outlasts a moment without pods, or the next ones would never be endpoints.
		if outlasts := w.was[l.replica] != nil && l.before == 0 && s.cfg.Lists; unsettled[l.replica] || outlasts {
			if s.holdRule(now, w, l) {
				w.replicas = append(w.replicas, l.replica) // the others of it wait
			}
		}
	}
	if len(w.replicas) > 0 {
		return false
	}
	s.took(now, passed)
	return true
}

// letStand lets rules count for a replica that are held here and counted for the process that
// wrote until now, because they were released there: what they took does not stand ready, and
// would otherwise.
func (s *State) letStand(w *ruleWork, replica syncer.Key, out *Effects) {
	stands := w.leading.ready(replica)
	released := s.store.ApplyRules(replica, func(p *syncer.Pod) bool { return !stands.has(p) && !s.isDamped(p) })
	if len(released) > 0 {
		delete(w.was, replica) // unless more of it is held
	}
	w.tell(s, Change{Cause: w.cause, Bulk: true, Dirty: released}, out)
}

// holdRule adds to what is held that of a replica which would take most of it; added is
// false if it was there.
func (s *State) holdRule(now time.Time, w *ruleWork, l loss) (added bool) {
	h, was, waiting := w.held[l.replica], w.was[l.replica], w.waiting[l.replica]
	if h == nil {
		h = &ruleHold{since: now, rules: map[string]int{}, ready: l.before}
		if was != nil {
			h.since = was.since
		}
		w.held[l.replica] = h
	}
	rule := mainRule(waiting.Rules)
	added = !h.has(rule)
	h.rules[rule] = waiting.Rules[rule]
	if !was.has(rule) {
		s.ruling.takes[rule] += waiting.Rules[rule]
	}
	return added
}

// giveWay makes held what is to be held, and all else of what waits count: no more than was
// judged.
func (s *State) giveWay(w *ruleWork, out *Effects) (done bool) {
	switch {
	case w.replicas != nil:
	case w.released != nil:
		w.replicas = slices.SortedFunc(maps.Keys(w.released), syncer.Key.Compare)
	default:
		w.replicas = s.store.Replicas()
	}
	room := s.piece
	taken := map[string][]store.Dirty{}
	for replica, ok := s.nextReplica(w, &room); ok; replica, ok = s.nextReplica(w, &room) {
		if w.released != nil {
			s.letGo(w, replica)
		}
		waits, is := w.waiting[replica]
		h, was := w.held[replica], w.was[replica]
		if more, _ := s.store.WaitingRules(replica, w.held[replica].has); more.Endpoints > waits.Endpoints {
			if s.ruling.met = true; was != nil { // it is judged again
				w.held[replica] = was
			}
			continue
		}
		rules := map[string]int{"": 0}
		switch {
		case is:
			rules = waits.Rules
		case h != nil:
			rules = h.rules
		case was != nil:
			rules = was.rules
		}
		for rule, n := range waits.Rules {
			if !was.has(rule) {
				s.ruling.takes[rule] += n
			}
		}
		taken[mainRule(rules)] = append(taken[mainRule(rules)], s.store.HoldRules(replica, h.names())...)
		if h != nil && was == nil {
			cause := w.cause
			cause.Rule, cause.Kept = mainRule(h.rules), HoldRule
			w.tell(s, Change{Cause: cause, Dirty: keptDirty([]syncer.Key{replica}), Bulk: true}, out)
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(taken)) {
		cause := w.cause
		cause.Rule = rule
		w.tell(s, Change{Cause: cause, Dirty: taken[rule]}, out)
	}
	return w.at == len(w.replicas)
}

// letGo has nothing held of a replica but what was not yet when the release came.
func (s *State) letGo(w *ruleWork, replica syncer.Key) {
	delete(w.held, replica)
	if was := w.was[replica]; was != nil {
		if rest := was.but(w.released[replica]); len(rest.rules) > 0 {
			w.held[replica] = rest
		}
		if waiting, is := s.store.WaitingRules(replica, w.held[replica].has); is {
			w.waiting[replica] = waiting
		}
	}
}

// relook is the time between two judgements of what is held.
const relook = 5 * time.Second

// endRules ends the work.
func (s *State) endRules(now time.Time, w *ruleWork, out *Effects) {
	r := &s.ruling
	if w.start && r.leading != nil { // before anything is told
		w.turn, w.was, w.held, w.leading, r.leading = look, w.held, map[syncer.Key]*ruleHold{}, r.leading, nil
		return
	}
	r.work, r.held, r.lookAt = nil, w.held, now.Add(relook)
	out.Rules = out.Rules || w.edit != nil
	if w.start {
		s.synced = true
		for _, c := range w.untold {
			s.announce(out, c)
		}
		s.sync(now, out)
	}
}
