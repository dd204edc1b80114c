// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// Edit is rules of a configuration, of which nil are none. They need Kept.Since of objects
// to be at least since. Prepare asks them, Begin and Switch put them in force; each takes
// some pods at a time, and anything may happen in between: every Service goes by its former
// rules until Switch comes to it.
type Edit struct {
	decider Decider
	since   KeptSince
	answers map[asked]*answer // until they are in force
	// services are those that are left, pods those of the first of them.
	services []*service
	pods     []*record
	begun    bool
}

// NewEdit returns one that knows nothing.
func NewEdit(decider Decider, since KeptSince) *Edit {
	return &Edit{decider: decider, since: since, answers: map[asked]*answer{}}
}

// asked is all that an answer depends on. Most pods of a Service are one.
type asked struct {
	current      *syncer.Service
	service, pod Kept
	node, zone   string
	zoneless     bool
}

// Prepare asks the rules of an edit about some pods, so that Switch need not, and reports
// whether there are more.
func (s *Store) Prepare(e *Edit, pods int) (more bool) {
	if e.decider == nil {
		return false
	}
	if !e.begun {
		e.begun, e.services = true, slices.Collect(s.indexedServices)
	}
	for len(e.services) > 0 {
		svc := e.services[0]
		if e.pods == nil && svc.indexed {
			e.pods = slices.Collect(svc.records)
		}
		n := min(pods, len(e.pods))
		for _, rec := range e.pods[:n] {
			if svc.indexed && s.record(rec.Key) == rec {
				s.answerTo(e, svc, rec)
			}
		}
		if e.pods, pods = e.pods[n:], pods-n-1; len(e.pods) == 0 {
			e.pods, e.services = nil, e.services[1:]
		}
		if pods <= 0 {
			return len(e.services) > 0
		}
	}
	return false
}

// knows reports whether what is kept says what the rules ask for.
func (e *Edit) knows(in *Subject) bool {
	return in.Pod.Since >= e.since.Pod && in.Service.Since >= e.since.Service
}

// answerTo is what the rules of an edit say of a pod; nil where what is kept of it does not
// say what they ask for. All rules that match are in it: some may come to be held.
func (s *Store) answerTo(e *Edit, svc *service, rec *record) *answer {
	if e.decider == nil {
		return &answer{matched: []Decision{none}}
	}
	in := s.subject(e.decider, svc, rec)
	if !e.knows(&in) {
		return nil
	}
	of := asked{svc.current, in.Service, in.Pod, in.Node, in.Zone, in.Zoneless}
	says := e.answers[of]
	if says == nil {
		says = answerOf(e.decider.Decide(in, everyRule), everyRule)
		e.answers[of] = says
	}
	return says
}

// Begin makes the rules of an edit those of all Services that come from now on.
func (s *Store) Begin(e *Edit) {
	s.rules, s.formerRules, s.unkept = e, s.rules, false
	e.services = slices.Collect(s.indexedServices)
}

// Switch has some Services go by the rules that came last, of at least so many pods, and
// reports whether there are more. What is decided of objects of which too little is kept
// stays until they are shown again. What another decision adds counts at once; what one
// would take away waits for HoldRules. It returns what counts at once.
func (s *Store) Switch(pods int) (dirty []Dirty, more bool) {
	e := s.rules
	var d dirtyList
	for ; pods > 0 && len(e.services) > 0; e.services = e.services[1:] {
		if svc := e.services[0]; svc.indexed && svc.rules != e {
			svc.rules = e
			pods -= 1 + s.redecide(svc, &d)
		}
	}
	if len(e.services) > 0 {
		return d.sorted(), true
	}
	if e.answers, s.formerRules = nil, nil; e.decider == nil {
		for _, ns := range s.namespaces {
			ns.kept = nil
			for _, svc := range ns.services {
				svc.kept = Kept{}
			}
		}
	}
	return d.sorted(), false
}

// redecide judges the pods of a Service by rules that are new, and counts them.
func (s *Store) redecide(svc *service, d *dirtyList) (pods int) {
	svc.heldRules, svc.open = nil, false
	if svc.rules.decider == nil && len(svc.rulings) == 0 {
		return 0
	}
	for rec := range svc.records {
		pods++
		if says := s.answerTo(svc.rules, svc, rec); says != nil {
			svc.open = s.putAnswer(svc, rec, says, d) || svc.open
		} else {
			s.unkept = true
		}
	}
	if !svc.open {
		s.hold(svc, nil, d)
	}
	return pods
}

func everyRule(string) bool { return true }

// putAnswer notes what new rules say of a pod, and reports whether it is to be judged.
func (s *Store) putAnswer(svc *service, rec *record, says *answer, d *dirtyList) (waits bool) {
	before := svc.as(rec)
	next := ruling{applied: none, says: says}
	if r := svc.rulings[rec.Name]; r != nil {
		next.applied = r.applied
	}
	s.admit(svc, rec, &next)
	s.setRuling(svc, rec, next)
	s.noteRuling(svc, rec, before, d)
	return next.waits()
}

// admit lets all rules count of a pod where they take nothing.
func (s *Store) admit(svc *service, rec *record, r *ruling) {
	if decided := r.decided(); !decided.takes() && !s.loses(svc, rec, r.applied, decided) {
		r.applied = decided
	}
}

// loses reports whether a Service loses a ready endpoint by another decision about a pod.
func (s *Store) loses(svc *service, rec *record, by, instead Decision) bool {
	return s.servesBy(svc, by, &rec.Pod) && !s.servesBy(svc, instead, &rec.Pod)
}

// Waiting is what waits of the rules for one replica.
type Waiting struct {
	// Rules would take away that many ready endpoints each, or none any more; "" is that no
	// rule makes them ready any more.
	Rules map[string]int
	// Endpoints are all of them, Ready those that the replica has.
	Endpoints, Ready int
}

// WaitingRules returns what rules would take away from a replica if only those were held of
// which held says so; ok is false where there is nothing. A rule that is held already, and
// would not be, is named, whether it would take anything away or not.
func (s *Store) WaitingRules(replica syncer.Key, held func(rule string) bool) (w Waiting, ok bool) {
	w.Rules = map[string]int{}
	for _, svc := range s.replicas[replica] {
		for _, rule := range svc.heldRules {
			if !held(rule) {
				w.Rules[rule] += 0
			}
		}
		for _, r := range svc.rulings {
			if r.says == nil {
				continue
			}
			switch d := r.says.but(held); {
			case d == r.applied || d.Rule == "" && held(""):
			case s.loses(svc, r.rec, r.applied, d):
				w.Rules[d.Rule]++
				w.Endpoints++
			default:
				w.Rules[d.Rule] += 0
			}
		}
	}
	if ok = len(w.Rules) > 0; ok {
		w.Ready = s.ReadyEndpoints(replica)
	}
	return w, ok
}

// Rulings counts what rules decide, or wait for, of a replica.
func (s *Store) Rulings(replica syncer.Key) (n int) {
	for _, svc := range s.replicas[replica] {
		n += len(svc.rulings)
	}
	return n
}

// HoldRules makes these the rules that are held for a replica, of those that wait or are
// held: they spare the pods that match, and those that come, as long as they match. All
// else that waits counts. "" is that a rule is gone that made pods ready: they stay so.
func (s *Store) HoldRules(replica syncer.Key, rules []string) []Dirty {
	var d dirtyList
	for _, svc := range s.replicas[replica] {
		s.hold(svc, rules, &d)
	}
	return d.sorted()
}

// holds reports whether a rule is held for a Service.
func (svc *service) holds(rule string) bool { return slices.Contains(svc.heldRules, rule) }

func (s *Store) hold(svc *service, rules []string, d *dirtyList) {
	svc.heldRules, svc.open = rules, false
	answers := map[*answer]*answer{} // most pods have the same
	for _, r := range svc.rulings {
		if r.says == nil {
			continue
		}
		says := answers[r.says]
		if says == nil {
			says = r.says.hold(svc.holds)
			answers[r.says] = says
		}
		if r.applied.takes() && !says.matched[says.other].takes() { // what took it keeps it
			by := r.says.taking(r.applied.Rule)
			says = r.says.hold(func(rule string) bool { return svc.holds(rule) && rule != by })
		}
		rec, before, next := r.rec, r.as, ruling{applied: r.applied, says: says}
		if is := next.unheld(); is.Rule != "" || !svc.holds("") || !s.loses(svc, rec, r.applied, is) {
			next.applied = is
		}
		s.setRuling(svc, rec, next)
		s.noteRuling(svc, rec, before, d)
	}
}

// hold is the answer where of the rules that spare the pod these do and no others.
func (a *answer) hold(held func(rule string) bool) *answer {
	out := &answer{other: -1}
	for i, d := range a.matched {
		switch spares := i != a.other && held(d.Rule); {
		case spares:
			out.matched = append(out.matched, d)
		case out.other < 0:
			out.other = len(out.matched)
			out.matched = append(out.matched, d)
		}
	}
	return out
}

// taking is a rule that takes the pod: that of this name, or the first.
func (a *answer) taking(rule string) (first string) {
	for _, d := range slices.Backward(a.matched) {
		if d.takes() && d.Rule == rule {
			return rule
		}
		if d.takes() {
			first = d.Rule
		}
	}
	return first
}

// DeferRules has what rules take from a Service wait to be judged, where only says so of a
// pod.
func (s *Store) DeferRules(service syncer.Key, only func(*syncer.Pod) bool) []Dirty {
	var d dirtyList
	svc := s.service(service)
	if svc == nil || !svc.indexed {
		return nil
	}
	for _, r := range svc.rulings {
		if r.says != nil || !r.applied.takes() || !only(&r.rec.Pod) {
			continue
		}
		if matched, known := s.decide(svc, r.rec, everyRule); known {
			s.setRuling(svc, r.rec, ruling{applied: none, says: answerOf(matched, everyRule)})
			s.noteRuling(svc, r.rec, r.as, &d)
		}
	}
	return d.sorted()
}

// HoldNew makes these the rules that are held for a Service that is new: see HoldRules.
func (s *Store) HoldNew(service syncer.Key, rules []string) []Dirty {
	dirty := s.DeferRules(service, func(*syncer.Pod) bool { return true })
	if svc := s.service(service); svc != nil && svc.indexed {
		var d dirtyList
		s.hold(svc, rules, &d)
		dirty = append(dirty, d.sorted()...)
	}
	return dirty
}

// ApplyRules lets what waits for a pod of a replica count, where only says so of it, and it
// would be a ready endpoint otherwise. Where nothing waits any more, and nothing is held, no
// pod is spared.
func (s *Store) ApplyRules(replica syncer.Key, only func(*syncer.Pod) bool) []Dirty {
	var d dirtyList
	for _, svc := range s.replicas[replica] {
		waits := len(svc.heldRules) > 0
		for _, r := range svc.rulings {
			switch {
			case !r.waits():
			case s.servesBy(svc, r.unheld(), &r.rec.Pod) && only(&r.rec.Pod):
				s.setRuling(svc, r.rec, ruling{applied: r.decided()})
				s.noteRuling(svc, r.rec, r.as, &d)
			default:
				waits = true
			}
		}
		if !waits {
			s.hold(svc, nil, &d)
		}
	}
	return d.sorted()
}
