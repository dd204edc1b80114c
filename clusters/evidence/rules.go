// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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
	// held is what would be taken away, by replica.
	held   map[syncer.Key]*ruleHold
	lookAt time.Time // when that is judged again
	impact map[string]RuleImpact
}

// ruleHold is what rules would take from one replica, and is held.
type ruleHold struct {
	since   time.Time
	message string
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
func (s *State) changeRules(now time.Time, out *Effects) {
	if !s.synced {
		return // they come into force with the first lists
	}
	r := &s.ruling
	r.pending = true
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

// enforce puts the rules of the configuration in force when what they read is known.
func (s *State) enforce(now time.Time, out *Effects) {
	if r := &s.ruling; !r.pending || r.needed != [kinds]bool{} {
		return
	}
	added := map[string][]store.Dirty{}
	for _, d := range s.putInForce() {
		rule := s.store.RuleOf(d.Source)
		added[rule] = append(added[rule], d)
	}
	for _, rule := range slices.Sorted(maps.Keys(added)) {
		s.announce(out, Change{Cause: Cause{Kind: "Config", Event: "config", Rule: rule}, Dirty: added[rule], Bulk: true})
	}
	s.judgeRules(now, out)
	out.Rules = true
}

func (s *State) putInForce() []store.Dirty {
	s.ruling = ruling{since: s.cfg.KeptSince, impact: map[string]RuleImpact{}}
	return s.store.SetDecider(s.cfg.Decider, s.cfg.KeptSince)
}

// startRules puts the rules in force when the member has been read whole: what stands
// ready is judged, anything else counts as they have it.
func (s *State) startRules(now time.Time, out *Effects) {
	if s.cfg.Decider == nil {
		return
	}
	s.putInForce()
	for _, w := range s.store.WaitingRules() {
		s.store.ApplyRules(w.Replica, func(p *syncer.Pod) bool { return !s.standsReady(p, w.Replica) })
	}
	s.judgeRules(now, out)
	out.Rules = true
}

// judgeRules decides about what rules would take away and waits.
func (s *State) judgeRules(now time.Time, out *Effects) {
	r := &s.ruling
	r.lookAt = now.Add(relook)
	waiting := s.store.WaitingRules()
	var losses []loss
	for _, w := range waiting {
		ready, _, _ := s.store.ReadyEndpoints(w.Replica)
		losses = append(losses, loss{replica: w.Replica, before: ready, after: ready - w.Endpoints, gone: w.Endpoints})
	}
	unsettled, passed := judge(s.cfg.Limits, losses, s.recent(now), false)
	s.took(now, passed)
	taken := map[string][]store.Dirty{}
	held := map[syncer.Key]*ruleHold{}
	for i, w := range waiting {
		rule := mainRule(w)
		was := r.held[w.Replica] != nil
		// A hold outlasts a moment without pods, or the next ones would never be endpoints.
		isHeld := unsettled[w.Replica] || was && losses[i].before == 0 && s.cfg.Lists
		for name, n := range w.Rules {
			s.weigh(name, n, isHeld, !was)
		}
		if !isHeld {
			taken[rule] = append(taken[rule], s.store.ApplyRules(w.Replica, nil)...)
			continue
		}
		s.store.HoldRules(w.Replica)
		h := r.held[w.Replica]
		if h == nil {
			h = &ruleHold{since: now}
			cause := Cause{Kind: "Config", Event: "config", Rule: rule, Kept: HoldRule}
			s.announce(out, Change{Cause: cause, Dirty: keptDirty([]syncer.Key{w.Replica}), Bulk: true})
		}
		h.message = holdMessage(rule, w.Endpoints, losses[i].before)
		held[w.Replica] = h
	}
	r.held = held
	for _, rule := range slices.Sorted(maps.Keys(taken)) {
		s.announce(out, Change{Cause: Cause{Kind: "Config", Event: "config", Rule: rule}, Dirty: taken[rule]})
	}
}

// weigh counts what a rule takes away: once, and what is held until it is not.
func (s *State) weigh(rule string, n int, isHeld, isNew bool) {
	is := s.ruling.impact[rule]
	if isNew {
		is.Takes += n
	}
	switch {
	case isHeld && isNew:
		is.Held += n
	case !isHeld && !isNew:
		is.Held = max(0, is.Held-n)
	}
	s.ruling.impact[rule] = is
}

// mainRule is the rule that would take away most.
func mainRule(w store.Waiting) string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(w.Rules)), func(a, b string) int { return cmp.Compare(w.Rules[a], w.Rules[b]) })
}

func holdMessage(rule string, endpoints, ready int) string {
	what := "rule " + rule
	if rule == "" {
		what = "the edit of the rules"
	}
	return fmt.Sprintf("%s would take away %d of %d ready endpoints", what, endpoints, ready)
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
	for _, w := range s.store.WaitingRules() {
		if replica == nil || w.Replica == *replica {
			out.Released.Ruled += w.Endpoints
			for name, n := range w.Rules {
				s.weigh(name, n, false, false)
			}
			cause := Cause{Kind: "Cluster", Event: "released", Rule: mainRule(w)}
			s.announce(out, Change{Cause: cause, Dirty: s.store.ApplyRules(w.Replica, nil)})
			delete(s.ruling.held, w.Replica)
		}
	}
}

// ruleHolds lists what is held, by replica.
func (s *State) ruleHolds() []Hold {
	var all []Hold
	for _, replica := range slices.SortedFunc(maps.Keys(s.ruling.held), syncer.Key.Compare) {
		h := s.ruling.held[replica]
		all = append(all, Hold{Replica: replica, Reason: HoldRule, Message: h.message, Since: h.since})
	}
	return all
}

// Deciders are the rules in force and those that are to be; nil where there are none.
func (s *State) Deciders() (inForce, wanted store.Decider) { return s.store.Decider(), s.cfg.Decider }

// RuleImpact is what rules have done to ready endpoints since they came into force, by rule.
func (s *State) RuleImpact() map[string]RuleImpact { return maps.Clone(s.ruling.impact) }

func deciderID(d store.Decider) string {
	if d == nil {
		return ""
	}
	return d.ID()
}
