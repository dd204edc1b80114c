// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// ruling is what rules make of a pod for one Service. Services have one for each pod that
// a rule decides, and for those that a held rule spares; without rules there are none.
type ruling struct {
	rec *record
	// applied is what counts.
	applied Decision
	// says is what the rules say where that is not simply what counts: an edit of theirs
	// waits to be judged, or is held.
	says *answer
	// as is the pod as it counts; nil: not at all.
	as *syncer.Pod
}

// answer is what rules say of a pod while some of them spare it: those that are held for
// its Service, and that it has matched ever since. It is never changed.
type answer struct {
	// matched are, in order, the rules that match and spare it, and the first other.
	matched []Decision
	// other is the place of that: what rules say but for those that spare the pod.
	other int
}

// answerOf puts what was matched in order; spared says of a rule that it spares the pod.
func answerOf(matched []Decision, spared func(rule string) bool) *answer {
	return &answer{matched, slices.IndexFunc(matched, func(d Decision) bool { return d.Rule == "" || !spared(d.Rule) })}
}

// but is what rules say but for those that spare the pod, of which some may not be asked
// for any more.
func (a *answer) but(spared func(rule string) bool) Decision {
	for i, d := range a.matched {
		if i == a.other || !spared(d.Rule) {
			return d
		}
	}
	return none // there is always another
}

// decided is what all rules say, those that spare the pod, too.
func (r *ruling) decided() Decision {
	if r.says == nil {
		return r.applied
	}
	return r.says.matched[0]
}

// unheld is what those rules say that do not spare the pod.
func (r *ruling) unheld() Decision {
	if r.says == nil {
		return r.applied
	}
	return r.says.matched[r.says.other]
}

// spares reports whether a rule is held for the pod.
func (r *ruling) spares(rule string) bool {
	return r.says != nil && slices.ContainsFunc(r.says.matched, func(d Decision) bool { return d.Rule == rule && d != r.unheld() })
}

// waits reports whether another thing would count if nothing were held.
func (r *ruling) waits() bool { return r.applied != r.decided() }

// counts is what the ruling adds to a count of pods, and takes from it.
func (r *ruling) counts() (t podCounts) {
	t.remove(&r.rec.Pod)
	if r.as != nil {
		t.add(r.as)
	}
	return t
}

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

// servesBy is servesAs for a pod as a decision has it.
func (s *Store) servesBy(svc *service, d Decision, p *syncer.Pod) bool {
	switch {
	case d.takes():
		return false
	case d.Then == Ready && !p.Terminating() && !p.Terminal:
		return hasAddress(p)
	}
	return s.servesAs(svc, p)
}

// takes reports whether a decision can take an endpoint away.
func (d Decision) takes() bool { return d.Then == Absent || d.Then == NotReady }

// decide asks the rules about a pod that an indexed Service selects: see Decider. known is
// false where what is kept of the pod does not say what they ask for: nobody has read it
// since.
func (s *Store) decide(svc *service, rec *record, held func(rule string) bool) (matched []Decision, known bool) {
	by := svc.rules
	if by.decider == nil {
		return []Decision{none}, true
	}
	in := s.subject(by.decider, svc, rec)
	if !by.knows(&in) {
		s.unkept = true
		return nil, false
	}
	return by.decider.Decide(in, held), true
}

// subject is a pod of a Service as rules know it.
func (s *Store) subject(decider Decider, svc *service, rec *record) Subject {
	in := Subject{Pod: s.namespaces[rec.Namespace].kept[rec.Name], Service: svc.kept, Namespace: rec.Namespace, Labels: svc.current.Labels}
	if decider.ReadsNode() {
		in.Node = rec.NodeName
		zone, known := s.zones[rec.NodeName]
		in.Zone, in.Zoneless = zone, !known && rec.NodeName != ""
	}
	return in
}

// rule has the rules decide about a version of a pod that an indexed Service selects, and
// that takes the place of another, or nil. What a pod or its Service shows of itself
// counts at once, also behind a rule that spares the pod: such a one is asked whether it
// still matches, and else left out. A pod that is new is spared by all that are held.
// same is true where nothing that rules see has changed.
func (s *Store) rule(svc *service, old, rec *record, same bool) {
	r := svc.rulings[rec.Name]
	if r == nil && (svc.rules.decider == nil || same) {
		return
	}
	isNew := old == nil || old.UID != rec.UID
	if r == nil || isNew {
		r = &ruling{applied: none}
	}
	spared := r.spares
	switch {
	case isNew && svc.open:
		spared = everyRule
	case isNew:
		spared = svc.holds
	}
	next := *r
	if !same {
		if matched, known := s.decide(svc, rec, spared); known {
			next.says = answerOf(matched, spared)
			switch {
			case isNew && svc.open: // it counts, and which of it is held remains to be seen
				next.applied = next.decided()
			case isNew || next.unheld() != r.unheld():
				next.applied = next.unheld()
			}
		}
	}
	if svc.open {
		s.admit(svc, rec, &next)
	}
	// Of a rule that is no more, and still counts, nothing is left that the pod takes back.
	if !isNew && next.applied != next.decided() && s.servesBy(svc, r.unheld(), &old.Pod) && !s.servesBy(svc, next.unheld(), &rec.Pod) {
		next.applied = next.unheld()
	}
	s.setRuling(svc, rec, next)
}

// setRuling makes a ruling that of a pod.
func (s *Store) setRuling(svc *service, rec *record, r ruling) {
	if r.says != nil && len(r.says.matched) == 1 && r.unheld() == r.applied {
		r.says = nil
	}
	if r.applied == none && r.says == nil {
		delete(svc.rulings, rec.Name)
		return
	}
	r.rec, r.as = rec, r.applied.apply(&rec.Pod)
	if svc.rulings == nil {
		svc.rulings = map[string]*ruling{}
	}
	svc.rulings[rec.Name] = &r
}

// reruleAll has the rules decide anew about all pods of a Service that is indexed.
func (s *Store) reruleAll(svc *service, d *dirtyList) {
	for rec := range svc.records {
		s.rerule(svc, rec, d)
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

// Decider has the rules in force, or those that are coming into force; nil is none.
func (s *Store) Decider() Decider { return s.rules.decider }

// Deciders are the rules that some Service goes by, or may.
func (s *Store) Deciders() []Decider {
	if s.formerRules != nil {
		return []Decider{s.rules.decider, s.formerRules.decider}
	}
	return []Decider{s.rules.decider}
}

// Unkept reports, once, whether an object was seen of which the rules need more than was
// read of it.
func (s *Store) Unkept() bool {
	was := s.unkept
	s.unkept = false
	return was
}
