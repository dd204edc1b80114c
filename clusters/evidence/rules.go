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
	work    *ruleWork // under way; nil is none
	// held is what would be taken away, by replica.
	held   map[syncer.Key]*ruleHold
	lookAt time.Time // when that is judged again
	met    bool      // something may wait that was not judged
	// released is what is to be let go, leading what stood when this process came to write:
	// nil is nothing.
	released map[syncer.Key]*ruleHold
	leading  *Leading
	takes    map[string]int // ready endpoints, by rule; those that are held, too
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

// changeRules takes in other rules of the configuration, once what they read is known.
func (s *State) changeRules(now time.Time, former Config, out *Effects) {
	for _, key := range slices.SortedFunc(maps.Keys(s.baseline.byPod), syncer.Key.Compare) {
		if p := s.store.Pod(key); p != nil {
			s.meetBaseline(p, out) // the former ones may have made it ready
		}
	}
	r := &s.ruling
	if w := r.work; w != nil && !w.begun && w.edit != nil {
		r.work = nil
	}
	if !s.synced && r.work == nil { // they come into force with the first lists, which must show what they read
		for _, kind := range []Kind{Services, Pods} {
			if former.keptSince(kind) < s.cfg.keptSince(kind) && (s.listed[kind] || s.lists[kind] != nil) {
				s.short[kind], s.listed[kind] = true, false
				s.dueBy(kind, now)
			}
		}
		s.syncWhenListed(now, out)
		return
	}
	r.pending = true
	r.needed = [kinds]bool{Pods: s.cfg.KeptSince.Pod > r.since.Pod, Services: s.cfg.KeptSince.Service > r.since.Service}
	for _, kind := range []Kind{Services, Pods} {
		if r.needed[kind] {
			s.dueBy(kind, now)
		}
	}
	s.enforce(now, out)
}

// decideAgain has the rules in force decide about all pods, because a list tells what they
// read: what they take away by that is judged like what an edit takes.
func (s *State) decideAgain(now time.Time, out *Effects) {
	if w := s.ruling.work; w == nil || w.edit == nil || w.begun {
		s.ruling.pending = true
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

// takeOverRules has rules count that are held here and counted for the process that wrote
// until now: see letStand.
func (s *State) takeOverRules(now time.Time, e *Leading, out *Effects) {
	r := &s.ruling
	if r.putOff(); r.work != nil || len(r.held) > 0 {
		r.leading = e
	}
	s.enforce(now, out)
}

// has reports whether a rule is held; h may be nil.
func (h *ruleHold) has(rule string) bool {
	if h == nil {
		return false
	}
	_, is := h.rules[rule]
	return is
}

// but is what is held of a replica without what another has, which may be nil.
func (h *ruleHold) but(other *ruleHold) *ruleHold {
	rest := *h
	rest.rules = maps.Clone(h.rules)
	maps.DeleteFunc(rest.rules, func(rule string, _ int) bool { return other.has(rule) })
	return &rest
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
		s.ruling.met = true
	}
	s.enforce(now, out)
}

// releaseRules lets rules count that are held, for one replica or with nil for all.
func (s *State) releaseRules(now time.Time, replica *syncer.Key, out *Effects) {
	r := &s.ruling
	r.putOff()
	for of, h := range r.held {
		if replica != nil && of != *replica {
			continue
		}
		if r.released == nil {
			r.released = map[syncer.Key]*ruleHold{}
		}
		r.released[of] = h
		for _, n := range h.rules {
			out.Released.Ruled += n
		}
	}
	s.enforce(now, out)
}

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
