// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

// ruling is what rules make of a pod for one Service. Services have one for each pod that
// a rule decides, and for those that wait; without rules there are none.
type ruling struct {
	rec *record
	// applied is what counts. decided is what the rules say: another thing only while an
	// edit of theirs would take the endpoint away and waits to be judged, or is held.
	applied, decided Decision
	// as is the pod as it counts; nil: not at all.
	as *syncer.Pod
}

func (r *ruling) waits() bool { return r.applied != r.decided }

// counts is what the ruling adds to a count of pods, and takes from it.
func (r *ruling) counts() (t podCounts) {
	t.remove(&r.rec.Pod)
	if r.as != nil {
		t.add(r.as)
	}
	return t
}

// takes reports whether a decision can take an endpoint away.
func (d Decision) takes() bool { return d.Then == Absent || d.Then == NotReady }

// apply is a pod as a decision has it; nil for one that is no endpoint.
func (d Decision) apply(p *syncer.Pod) *syncer.Pod {
	as := *p
	switch {
	case d.Then == Absent:
		return nil
	case d.Then == NotReady:
		as.Ready, as.Withheld = false, true
	case d.Then == Ready && !p.Terminating() && !p.Terminal:
		as.Ready, as.NodeSilent = true, false
	default:
		return p
	}
	return &as
}

// as is a pod as it counts for a Service; nil: not at all.
func (svc *service) as(rec *record) *syncer.Pod {
	if r := svc.rulings[rec.Name]; r != nil {
		return r.as
	}
	return &rec.Pod
}

// servesAs reports whether a pod, as it counts, is a ready endpoint of a Service.
func (s *Store) servesAs(svc *service, p *syncer.Pod) bool {
	if p == nil {
		return false
	}
	var t podCounts
	t.add(p)
	ready, _ := t.endpoints(s.publishes(svc))
	return ready > 0
}

// decide asks the rules about a pod that a indexed Service selects. known is false where
// what is kept of the pod does not say what they ask for: nobody has read it since.
func (s *Store) decide(svc *service, rec *record) (d Decision, known bool) {
	if s.decider == nil {
		return none, true
	}
	kept := s.namespaces[rec.Namespace].kept[rec.Name]
	if kept.Since < s.keptSince.Pod || svc.kept.Since < s.keptSince.Service {
		s.unkept = true
		return none, false
	}
	in := Subject{Pod: kept, Service: svc.kept, Namespace: rec.Namespace, Labels: svc.current.Labels}
	if s.decider.ReadsNode() {
		in.Node, in.Zone = rec.NodeName, s.zones[rec.NodeName]
	}
	return s.decider.Decide(in), true
}

// rule has the rules decide about a version of a pod that a indexed Service selects, and
// that takes the place of another, or nil. What a pod or its Service shows of itself
// counts at once; only a pod that is new is not judged by a rule that is held for the Service.
// same is true where nothing that rules see has changed.
func (s *Store) rule(svc *service, old, rec *record, same bool) {
	r := svc.rulings[rec.Name]
	if r == nil && (s.decider == nil || same) {
		return
	}
	var decided Decision
	known := false
	if !same {
		decided, known = s.decide(svc, rec)
	}
	isNew := !same && (old == nil || old.UID != rec.UID)
	switch {
	case isNew:
		r = &ruling{applied: decided, decided: decided}
		if svc.suspended[decided.Rule] && decided.takes() {
			r.applied = none
		}
	case !known && r == nil:
		return
	case r == nil:
		r = &ruling{applied: decided, decided: decided}
	case known && r.decided != decided:
		r.applied, r.decided = decided, decided
	}
	s.setRuling(svc, rec, r)
}

// setRuling makes a ruling that of a pod.
func (s *Store) setRuling(svc *service, rec *record, r *ruling) {
	if r.applied == none && r.decided == none {
		delete(svc.rulings, rec.Name)
		return
	}
	r.rec, r.as = rec, r.applied.apply(&rec.Pod)
	if svc.rulings == nil {
		svc.rulings = map[string]*ruling{}
	}
	svc.rulings[rec.Name] = r
}

// reruleAll has the rules decide anew about all pods of a Service that is indexed.
func (s *Store) reruleAll(svc *service, d *dirtyList) {
	for g := range svc.groups {
		for _, rec := range g.pods {
			s.rerule(svc, rec, d)
		}
	}
}

// rerule has them decide anew about a pod that has not changed.
func (s *Store) rerule(svc *service, rec *record, d *dirtyList) {
	before := svc.as(rec)
	s.rule(svc, rec, rec, false)
	s.noteRuling(svc, rec, before, d)
}

func (s *Store) noteRuling(svc *service, rec *record, before *syncer.Pod, d *dirtyList) {
	if effect := syncer.PodEffect(before, svc.as(rec)); effect != syncer.None {
		s.notePod(rec.Key, rec)
		d.add(svc, effect)
	}
}

// keep notes what rules need of a pod, and reports whether that is another than before.
func (ns *namespace) keep(name string, kept Kept) (changed bool) {
	if ns.kept[name] == kept {
		return false
	}
	delete(ns.kept, name) // or the map keeps a former pod's string as its key
	if kept == (Kept{}) {
		return true
	}
	if ns.kept == nil {
		ns.kept = map[string]Kept{}
	}
	ns.kept[name] = kept
	return true
}

// indexedServices are the Services whose endpoints come from pods, in no order.
func (s *Store) indexedServices(yield func(*service) bool) {
	for _, services := range s.replicas {
		for _, svc := range services {
			if svc.indexed && !yield(svc) {
				return
			}
		}
	}
}

// SetDecider puts other rules in force, of which nil are none. It needs Kept.Since of
// objects to be at least since; what is decided of others stays until they are shown
// again. What another decision adds counts at once; what one would take away waits for
// ApplyRules or HoldRules. It returns what counts at once.
func (s *Store) SetDecider(decider Decider, since KeptSince) []Dirty {
	s.decider, s.keptSince, s.unkept = decider, since, false
	var d dirtyList
	for svc := range s.indexedServices {
		svc.suspended = nil
		s.redecide(svc, &d)
	}
	if decider == nil {
		for _, ns := range s.namespaces {
			ns.kept = nil
			for _, svc := range ns.services {
				svc.kept = Kept{}
			}
		}
	}
	return d.sorted()
}

// Decider has the rules in force; nil is none.
func (s *Store) Decider() Decider { return s.decider }

// redecide judges the pods of a Service by rules that are new. Most pods have the same
// of what is kept: they are decided once.
func (s *Store) redecide(svc *service, d *dirtyList) {
	if s.decider == nil && len(svc.rulings) == 0 {
		return
	}
	type subject struct {
		kept Kept
		node string
	}
	decisions := map[subject]Decision{}
	for g := range svc.groups {
		for _, rec := range g.pods {
			of := subject{kept: s.namespaces[rec.Namespace].kept[rec.Name]}
			if s.decider != nil && s.decider.ReadsNode() {
				of.node = rec.NodeName
			}
			decided, done := decisions[of]
			if !done {
				var known bool
				if decided, known = s.decide(svc, rec); !known {
					continue
				}
				decisions[of] = decided
			}
			s.putDecision(svc, rec, decided, d)
		}
	}
}

// putDecision notes what new rules say of a pod.
func (s *Store) putDecision(svc *service, rec *record, decided Decision, d *dirtyList) {
	before := svc.as(rec)
	r := svc.rulings[rec.Name]
	if r == nil {
		r = &ruling{applied: none}
	}
	r.decided = decided
	if !decided.takes() && (!s.servesAs(svc, before) || s.servesAs(svc, decided.apply(&rec.Pod))) {
		r.applied = decided
	}
	s.setRuling(svc, rec, r)
	s.noteRuling(svc, rec, before, d)
}

// Waiting is what waits of the rules for one replica.
type Waiting struct {
	Replica syncer.Key
	// Rules would take away that many ready endpoints each, or none any more; "" is that no
	// rule makes them ready any more.
	Rules map[string]int
	// Endpoints are all of them.
	Endpoints int
}

// WaitingRules returns what SetDecider found that rules would take away, and has not
// been applied, sorted by replica; with those of new pods that a held rule is about.
func (s *Store) WaitingRules() []Waiting {
	var all []Waiting
	for replica, services := range s.replicas {
		w := Waiting{Replica: replica, Rules: map[string]int{}}
		for _, svc := range services {
			for rule := range svc.suspended {
				w.Rules[rule] += 0
			}
			for _, r := range svc.rulings {
				switch {
				case !r.waits():
				case s.servesAs(svc, r.as) && !s.servesAs(svc, r.decided.apply(&r.rec.Pod)):
					w.Rules[r.decided.Rule]++
					w.Endpoints++
				default:
					w.Rules[r.decided.Rule] += 0
				}
			}
		}
		if len(w.Rules) > 0 {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b Waiting) int { return a.Replica.Compare(b.Replica) })
	return all
}

// ApplyRules lets what waits for a replica count, by pod where only is not nil. Without
// that nothing is held for it any more.
func (s *Store) ApplyRules(replica syncer.Key, only func(*syncer.Pod) bool) []Dirty {
	var d dirtyList
	for _, svc := range s.replicas[replica] {
		if only == nil {
			svc.suspended = nil
		}
		for _, r := range maps.Clone(svc.rulings) {
			if r.waits() && (only == nil || only(&r.rec.Pod)) {
				rec, before := r.rec, r.as
				r.applied = r.decided
				s.setRuling(svc, rec, r)
				s.noteRuling(svc, rec, before, &d)
			}
		}
	}
	return d.sorted()
}

// HoldRules keeps the rules that wait for a replica from it: they decide about no pod
// that comes, either, until ApplyRules.
func (s *Store) HoldRules(replica syncer.Key) {
	for _, svc := range s.replicas[replica] {
		for _, r := range svc.rulings {
			if r.waits() && r.decided.Rule != "" {
				if svc.suspended == nil {
					svc.suspended = map[string]bool{}
				}
				svc.suspended[r.decided.Rule] = true
			}
		}
	}
}

// Unkept reports, once, whether an object was seen of which the rules need more than was
// read of it.
func (s *Store) Unkept() bool {
	was := s.unkept
	s.unkept = false
	return was
}

// RuledBy returns what rules make of a pod for the Services that select it; the first
// by the Service's name where several have something to say.
func (s *Store) RuledBy(pod syncer.Key) string {
	rec := s.record(pod)
	if rec == nil || s.decider == nil {
		return ""
	}
	rule, of := "", syncer.Key{}
	for _, svc := range rec.group.services {
		if r := svc.rulings[pod.Name]; r != nil && r.applied.Rule != "" && (rule == "" || svc.current.Key.Compare(of) < 0) {
			rule, of = r.applied.Rule, svc.current.Key
		}
	}
	return rule
}

// RuleOf is the rule that decides about most pods of a Service; "" where none does.
func (s *Store) RuleOf(service syncer.Key) (rule string) {
	svc := s.service(service)
	if svc == nil || s.decider == nil {
		return ""
	}
	counts := map[string]int{}
	for _, r := range svc.rulings {
		counts[r.applied.Rule]++
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

// RuleCount counts the pods that a rule decides, each for each of its Services.
func (s *Store) RuleCount() map[string]int {
	counts := map[string]int{}
	if s.decider == nil {
		return counts
	}
	for svc := range s.indexedServices {
		for _, r := range svc.rulings {
			if r.applied.Rule != "" {
				counts[r.applied.Rule]++
			}
		}
	}
	return counts
}
