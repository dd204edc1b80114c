// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "tributary.dev/tributary/syncer"

// RuledBy returns what rules make of a pod for the Services that select it; the first
// by the Service's name where several have something to say.
func (s *Store) RuledBy(pod syncer.Key) string {
	rec := s.record(pod)
	if rec == nil {
		return ""
	}
	rule, of := "", syncer.Key{}
	for _, svc := range rec.group.services {
		if by := svc.ruledBy(svc.rulings[pod.Name]); by != "" && (rule == "" || svc.current.Key.Compare(of) < 0) {
			rule, of = by, svc.current.Key
		}
	}
	return rule
}

// ruledBy is the rule that decides; "" where none does, or there are no rules any more.
func (svc *service) ruledBy(r *ruling) string {
	if r == nil || svc.rules.decider == nil {
		return ""
	}
	return r.applied.Rule
}

// RuleOf is the rule that decides about most pods of a Service; "" where none does.
func (s *Store) RuleOf(service syncer.Key) (rule string) {
	svc := s.service(service)
	if svc == nil {
		return ""
	}
	counts := map[string]int{}
	for _, r := range svc.rulings {
		counts[svc.ruledBy(r)]++
	}
	delete(counts, "")
	for name, n := range counts {
		if n > counts[rule] || n == counts[rule] && name < rule {
			rule = name
		}
	}
	return rule
}

// As is a pod as it counts for a Service; of one that is no endpoint, as one that is not
// ready.
func (s *Store) As(service syncer.Key, pod *syncer.Pod) *syncer.Pod {
	svc := s.service(service)
	if svc == nil {
		return pod
	}
	if r := svc.rulings[pod.Name]; r == nil || r.rec.UID != pod.UID {
		return pod
	} else {
		return svc.counted(r.rec)
	}
}

// counted is As for a pod that is held.
func (svc *service) counted(rec *record) *syncer.Pod {
	if as := svc.as(rec); as != nil {
		return as
	}
	return Decision{Then: NotReady}.apply(&rec.Pod)
}

// MakesReady reports whether rules, which need not be in force, make a pod that is held
// ready for one of some Services. Of a Service that is not known they see nothing.
func (s *Store) MakesReady(d Decider, pod syncer.Key, services []syncer.Key) bool {
	rec := s.record(pod)
	if rec == nil || d == nil {
		return false
	}
	for _, key := range services {
		svc := s.service(key)
		if svc == nil {
			svc = &service{current: &syncer.Service{}}
		}
		if d.Decide(s.subject(d, svc, rec), nil)[0].Then == Ready {
			return true
		}
	}
	return false
}

// RuleCount counts the pods that a rule decides, each for each of its Services.
func (s *Store) RuleCount() map[string]int {
	counts := map[string]int{}
	for svc := range s.indexedServices {
		for _, r := range svc.rulings {
			if by := svc.ruledBy(r); by != "" {
				counts[by]++
			}
		}
	}
	return counts
}
