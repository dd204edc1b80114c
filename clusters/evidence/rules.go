// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// ruling is how far the rules of the configuration are in force.
//
// What a rule makes of a pod because the pod, its Service or its node has changed is
// hard evidence: it passes like a pod that is not ready. What an edit of the rules would
// take away is judged like what a list lacks, and so is at a start what stands: whoever
// wrote the rule may have erred about thousands of pods at once.
type ruling struct {
	since store.KeptSince // of the rules in force
	// pending is true while other rules wait for lists that show what they read; needed
	// are those.
	pending bool
	needed  [kinds]bool
	edit    *store.Edit // what they say; nil before they are asked
	// held is what would be taken away, by replica.
	held   map[syncer.Key]*ruleHold
	lookAt time.Time      // when that is judged again
	met    bool           // a Service has come of which something may wait
	takes  map[string]int // ready endpoints, by rule; those that are held, too
}

// ruleHold is what rules would take from one replica, and is held.
type ruleHold struct {
	since time.Time
	rules map[string]int // ready endpoints, by rule
	ready int            // all that the replica has
}

// RuleImpact is what the last edit of the rules, or the start, did to ready endpoints by
// one rule.
type RuleImpact struct {
	// Takes are the ready endpoints that it takes away, Held those of them that are held.
	Takes, Held int
}

// keptSince is what Kept.Since of objects of a kind must be for the rules.
func (c *Config) keptSince(kind Kind) uint32 {
	switch kind {
	case Pods:
		return c.KeptSince.Pod
	case Services:
		return c.KeptSince.Service
	}
	return 0
}

// ruledBy is the rule that decides about an object, if it is a pod and one does.
func (s *State) ruledBy(id object) string {
	if id.Kind != Pods {
		return ""
	}
	return s.store.RuledBy(id.Key)
}

// relook is the time between two judgements of what is held.
const relook = 5 * time.Second

// changeRules takes in other rules of the configuration, once what they read is known.
func (s *State) changeRules(now time.Time, former Config, out *Effects) {
	for _, key := range slices.SortedFunc(maps.Keys(s.baseline.byPod), syncer.Key.Compare) {
		if p := s.store.Pod(key); p != nil {
			s.meetBaseline(p, out) // the former ones may have made it ready
		}
	}
	if !s.synced { // they come into force with the first lists, which must show what they read
		for _, kind := range []Kind{Services, Pods} {
			if former.keptSince(kind) < s.cfg.keptSince(kind) && (s.listed[kind] || s.lists[kind] != nil) {
				s.short[kind], s.listed[kind] = true, false
				s.dueBy(kind, now)
			}
		}
		return
	}
	r := &s.ruling
	r.pending, r.edit = true, nil
	r.needed = [kinds]bool{Pods: s.cfg.KeptSince.Pod > r.since.Pod, Services: s.cfg.KeptSince.Service > r.since.Service}
	for _, kind := range []Kind{Services, Pods} {
		if r.needed[kind] {
			s.dueBy(kind, now)
		}
	}
	s.enforce(now, out)
}

// rulesListed takes in that a kind was listed, and whether the list is believed.
func (s *State) rulesListed(now time.Time, kind Kind, doubted bool, out *Effects) {
	if r := &s.ruling; r.pending && r.needed[kind] {
		if s.short[kind] || doubted {
			s.dueBy(kind, now.Add(time.Second))
			return
		}
		r.needed[kind] = false
		s.enforce(now, out)
	}
}

// enforce puts the rules of the configuration in force when what they read is known. They
// are asked about some pods at a time, fewer than a piece of a list has: a pod that is
// another to them than all before costs tens of microseconds.
func (s *State) enforce(now time.Time, out *Effects) {
	r := &s.ruling
	if !r.pending || r.needed != [kinds]bool{} {
		return
	}
	if r.edit == nil {
		r.edit = store.NewEdit(s.cfg.Decider, s.cfg.KeptSince)
	}
	if more := s.store.Prepare(r.edit, max(1, s.piece/8)); more && out.Next == nil {
		out.Next = Enforce{}
		return
	}
	added := map[string][]store.Dirty{}
	for _, d := range s.putInForce(r.edit) {
		rule := s.store.RuleOf(d.Source)
		added[rule] = append(added[rule], d)
	}
	for _, rule := range slices.Sorted(maps.Keys(added)) {
		s.announce(out, Change{Cause: Cause{Kind: "Config", Event: "config", Rule: rule}, Dirty: added[rule], Bulk: true})
	}
	s.judgeRules(now, out)
	out.Rules = true
}

func (s *State) putInForce(e *store.Edit) []store.Dirty {
	s.ruling = ruling{since: s.cfg.KeptSince, takes: map[string]int{}}
	return s.store.SetEdit(e)
}

// startRules puts the rules in force when the member has been read whole: what stands
// ready is judged, anything else counts as they have it.
func (s *State) startRules(now time.Time, out *Effects) {
	if s.cfg.Decider == nil {
		return
	}
	s.putInForce(store.NewEdit(s.cfg.Decider, s.cfg.KeptSince))
	s.store.ApplyRules(func(p *syncer.Pod, replica syncer.Key) bool { return !s.standsReady(p, replica) })
	s.judgeRules(now, out)
	out.Rules = true
}

// takeOverRules lets rules count that are held here and counted for the process that wrote
// until now, because they were released there: what they took does not stand ready.
func (s *State) takeOverRules(now time.Time, stands map[syncer.Key]Standing, out *Effects) {
	if len(s.ruling.held) == 0 {
		return
	}
	released := s.store.ApplyRules(func(p *syncer.Pod, replica syncer.Key) bool {
		return !slices.ContainsFunc(stands[replica].Endpoints, func(e syncer.Endpoint) bool { return e.Ready && e.Target.UID == p.UID })
	})
	for _, d := range released {
		delete(s.ruling.held, d.Replica) // unless more of it is held
	}
	s.announce(out, Change{Cause: Cause{Kind: "Config", Event: "config"}, Bulk: true, Dirty: released})
	s.judgeRules(now, out)
}

// judgeRules decides about what rules would take away and waits: rule by rule, that which
// takes most first, so that one that takes too much does not keep others back.
func (s *State) judgeRules(now time.Time, out *Effects) {
	r := &s.ruling
	r.lookAt = now.Add(relook)
	held := map[syncer.Key]*ruleHold{}
	isHeld := func(replica syncer.Key, rule string) bool {
		h := held[replica]
		return h != nil && h.has(rule)
	}
	for {
		waiting := s.store.WaitingRules(isHeld)
		var losses []loss
		for _, w := range waiting {
			ready := s.store.ReadyEndpoints(w.Replica)
			losses = append(losses, loss{replica: w.Replica, before: ready, after: ready - w.Endpoints, gone: w.Endpoints})
		}
		unsettled, passed := judge(s.cfg.Limits, losses, s.recent(now), false)
		more := false
		for i, w := range waiting {
			// A hold outlasts a moment without pods, or the next ones would never be endpoints.
			if outlasts := r.held[w.Replica] != nil && losses[i].before == 0 && s.cfg.Lists; unsettled[w.Replica] || outlasts {
				more = s.holdRule(now, held, w, losses[i].before) || more
			}
		}
		if !more {
			s.took(now, passed)
			s.applyRules(held, waiting, Cause{Kind: "Config", Event: "config"}, out)
			return
		}
	}
}

// holdRule adds to what is held that of a replica which would take most of it; added is
// false if it was there.
func (s *State) holdRule(now time.Time, held map[syncer.Key]*ruleHold, w store.Waiting, ready int) (added bool) {
	h, was := held[w.Replica], s.ruling.held[w.Replica]
	if h == nil {
		h = &ruleHold{since: now, rules: map[string]int{}, ready: ready}
		if was != nil {
			h.since = was.since
		}
		held[w.Replica] = h
	}
	rule := mainRule(w.Rules)
	added = !h.has(rule)
	h.rules[rule] = w.Rules[rule]
	if was == nil || !was.has(rule) {
		s.ruling.takes[rule] += w.Rules[rule]
	}
	return added
}

// applyRules makes held what is held, and all else of what waits count.
func (s *State) applyRules(held map[syncer.Key]*ruleHold, waiting []store.Waiting, cause Cause, out *Effects) {
	was := s.ruling.held
	s.ruling.held = held
	main := map[syncer.Key]string{}
	for replica := range was {
		main[replica] = mainRule(was[replica].rules)
	}
	for replica, h := range held {
		main[replica] = mainRule(h.rules)
	}
	for _, w := range waiting {
		main[w.Replica] = mainRule(w.Rules)
		for rule, n := range w.Rules {
			if h := was[w.Replica]; h == nil || !h.has(rule) {
				s.ruling.takes[rule] += n
			}
		}
	}
	taken := map[string][]store.Dirty{}
	for _, replica := range slices.SortedFunc(maps.Keys(main), syncer.Key.Compare) {
		h := held[replica]
		taken[main[replica]] = append(taken[main[replica]], s.store.HoldRules(replica, h.names())...)
		if h != nil && was[replica] == nil {
			cause := cause
			cause.Rule, cause.Kept = mainRule(h.rules), HoldRule
			s.announce(out, Change{Cause: cause, Dirty: keptDirty([]syncer.Key{replica}), Bulk: true})
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(taken)) {
		cause.Rule = rule
		s.announce(out, Change{Cause: cause, Dirty: taken[rule]})
	}
}

// has reports whether a rule is held.
func (h *ruleHold) has(rule string) bool {
	_, is := h.rules[rule]
	return is
}

// names are the rules that are held; h may be nil.
func (h *ruleHold) names() []string {
	if h == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(h.rules))
}

// mainRule is the rule that would take away most.
func mainRule(rules map[string]int) string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(rules)), func(a, b string) int { return cmp.Compare(rules[a], rules[b]) })
}

// message says what is held, for people.
func (h *ruleHold) message() string {
	n := 0
	var named []string
	for _, rule := range h.names() {
		n += h.rules[rule]
		if rule == "" {
			rule = "the edit of the rules"
		} else {
			rule = "rule " + rule
		}
		named = append(named, rule)
	}
	return fmt.Sprintf("%s would take away %d of %d ready endpoints", strings.Join(named, " and "), n, h.ready)
}

// tickRules looks again at what is held: it may be little by now.
func (s *State) tickRules(now time.Time, out *Effects) {
	if s.store.Unkept() {
		s.dueBy(Pods, now)
		s.dueBy(Services, now)
	}
	if len(s.ruling.held) > 0 && !now.Before(s.ruling.lookAt) {
		s.judgeRules(now, out)
	}
}

// releaseRules lets rules count that are held, for one replica or with nil for all.
func (s *State) releaseRules(replica *syncer.Key, out *Effects) {
	left := map[syncer.Key]*ruleHold{}
	if replica != nil {
		left = maps.Clone(s.ruling.held)
		delete(left, *replica)
	}
	waiting := s.store.WaitingRules(func(of syncer.Key, _ string) bool { return left[of] != nil })
	for _, w := range waiting {
		out.Released.Ruled += w.Endpoints
	}
	s.applyRules(left, waiting, Cause{Kind: "Cluster", Event: "released"}, out)
}

// HoldsRules reports whether anything is held that rules would take away.
func (s *State) HoldsRules() bool { return len(s.ruling.held) > 0 }

// ruleHolds lists what is held, by replica.
func (s *State) ruleHolds() []Hold {
	var all []Hold
	for _, replica := range slices.SortedFunc(maps.Keys(s.ruling.held), syncer.Key.Compare) {
		h := s.ruling.held[replica]
		all = append(all, Hold{Replica: replica, Reason: HoldRule, Message: h.message(), Since: h.since})
	}
	return all
}

// Deciders are the rules in force and those that are to be; nil where there are none.
func (s *State) Deciders() (inForce, wanted store.Decider) { return s.store.Decider(), s.cfg.Decider }

// RuleImpact is what rules have done to ready endpoints since they came into force, by rule.
func (s *State) RuleImpact() map[string]RuleImpact {
	all := map[string]RuleImpact{}
	for rule, n := range s.ruling.takes {
		all[rule] = RuleImpact{Takes: n}
	}
	for _, h := range s.ruling.held {
		for rule, n := range h.rules {
			all[rule] = RuleImpact{Takes: all[rule].Takes, Held: all[rule].Held + n}
		}
	}
	return all
}

func deciderID(d store.Decider) string {
	if d == nil {
		return ""
	}
	return d.ID()
}
