// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// Edit is rules that are to come into force, of which nil are none, and what they say. They
// need Kept.Since of objects to be at least since.
type Edit struct {
	decider Decider
	since   KeptSince
	answers map[asked]*answer
	// left are the pods to be asked about, begun is whether they are known.
	left  []selected
	begun bool
}

// NewEdit returns one that knows nothing.
func NewEdit(decider Decider, since KeptSince) *Edit {
	return &Edit{decider: decider, since: since, answers: map[asked]*answer{}}
}

// selected is a pod of a Service.
type selected struct {
	svc *service
	rec *record
}

// asked is all that an answer depends on. Most pods of a Service are one.
type asked struct {
	current      *syncer.Service
	service, pod Kept
	node, zone   string
}

// Prepare asks the rules of an edit about some pods, so that SetEdit need not, and reports
// whether there are more. In between anything may change.
func (s *Store) Prepare(e *Edit, pods int) (more bool) {
	if e.decider == nil {
		return false
	}
	if !e.begun {
		e.begun = true
		for svc := range s.indexedServices {
			for g := range svc.groups {
				for _, rec := range g.pods {
					e.left = append(e.left, selected{svc, rec})
				}
			}
		}
	}
	n := min(pods, len(e.left))
	for _, of := range e.left[:n] {
		if of.svc.indexed && s.record(of.rec.Key) == of.rec {
			s.answerTo(e, of.svc, of.rec)
		}
	}
	e.left = e.left[n:]
	return len(e.left) > 0
}

// answerTo is what the rules of an edit say of a pod; nil where what is kept of it does not
// say what they ask for. All rules that match are in it: some may come to be held.
func (s *Store) answerTo(e *Edit, svc *service, rec *record) *answer {
	if e.decider == nil {
		return &answer{matched: []Decision{none}}
	}
	in := s.subject(e.decider, svc, rec)
	if in.Pod.Since < e.since.Pod || in.Service.Since < e.since.Service {
		return nil
	}
	of := asked{svc.current, in.Service, in.Pod, in.Node, in.Zone}
	says := e.answers[of]
	if says == nil {
		says = answerOf(e.decider.Decide(in, everyRule), everyRule)
		e.answers[of] = says
	}
	return says
}

// SetEdit puts the rules of an edit in force. What is decided of objects of which too
// little is kept stays until they are shown again. What another decision adds counts at
// once; what one would take away waits for HoldRules. It returns what counts at once.
func (s *Store) SetEdit(e *Edit) []Dirty {
	s.decider, s.keptSince, s.unkept = e.decider, e.since, false
	var d dirtyList
	for svc := range s.indexedServices {
		svc.heldRules = nil
		s.redecide(svc, e, &d)
	}
	if e.decider == nil {
		for _, ns := range s.namespaces {
			ns.kept = nil
			for _, svc := range ns.services {
				svc.kept = Kept{}
			}
		}
	}
	return d.sorted()
}

// redecide judges the pods of a Service by rules that are new.
func (s *Store) redecide(svc *service, e *Edit, d *dirtyList) {
	if e.decider == nil && len(svc.rulings) == 0 {
		return
	}
	waits := false
	for g := range svc.groups {
		for _, rec := range g.pods {
			if says := s.answerTo(e, svc, rec); says != nil {
				waits = s.putAnswer(svc, rec, says, d) || waits
			} else {
				s.unkept = true
			}
		}
	}
	if !waits {
		s.hold(svc, nil, d)
	}
}

func everyRule(string) bool { return true }

// putAnswer notes what new rules say of a pod, and reports whether it is to be judged.
func (s *Store) putAnswer(svc *service, rec *record, says *answer, d *dirtyList) (waits bool) {
	before := svc.as(rec)
	next := ruling{applied: none, says: says}
	if r := svc.rulings[rec.Name]; r != nil {
		next.applied = r.applied
	}
	if decided := next.decided(); !decided.takes() && !s.loses(svc, rec, next.applied, decided) {
		next.applied = decided
	}
	s.setRuling(svc, rec, next)
	s.noteRuling(svc, rec, before, d)
	return next.waits()
}

// loses reports whether a Service loses a ready endpoint by another decision about a pod.
func (s *Store) loses(svc *service, rec *record, by, instead Decision) bool {
	return s.servesBy(svc, by, &rec.Pod) && !s.servesBy(svc, instead, &rec.Pod)
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

// WaitingRules returns what rules would take away if only those were held of which held
// says so, sorted by replica. A rule that is held already, and would not be, is named,
// whether it would take anything away or not.
func (s *Store) WaitingRules(held func(replica syncer.Key, rule string) bool) []Waiting {
	var all []Waiting
	for replica, services := range s.replicas {
		isHeld := func(rule string) bool { return held(replica, rule) }
		w := Waiting{Replica: replica, Rules: map[string]int{}}
		for _, svc := range services {
			for _, rule := range svc.heldRules {
				if !isHeld(rule) {
					w.Rules[rule] += 0
				}
			}
			for _, r := range svc.rulings {
				if r.says == nil {
					continue
				}
				switch d := r.says.but(isHeld); {
				case d == r.applied || d.Rule == "" && isHeld(""):
				case s.loses(svc, r.rec, r.applied, d):
					w.Rules[d.Rule]++
					w.Endpoints++
				default:
					w.Rules[d.Rule] += 0
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
	svc.heldRules = rules
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

// ApplyRules lets what waits for a pod count, where only says so of it and its replica.
// Where nothing waits any more, and nothing is held, no pod is spared.
func (s *Store) ApplyRules(only func(*syncer.Pod, syncer.Key) bool) []Dirty {
	var d dirtyList
	for svc := range s.indexedServices {
		waits := len(svc.heldRules) > 0
		for _, r := range svc.rulings {
			switch {
			case !r.waits():
			case only(&r.rec.Pod, svc.replica):
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
