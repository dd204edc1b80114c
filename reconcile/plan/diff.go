// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// Diff returns the writes that make what stands equal to what is desired; nil
// means that nobody wants the replica. Nothing that Tributary does not own is in
// any action. What must go, goes first (removals.go). The stages after that:
//
//  1. the namespace
//  2. the Service, if it is new or its ports or selector change: consumers that
//     see a slice before its Service may ignore both
//  3. slices: new ones, updates, and empty ones that nobody wants
//  4. Endpoints, in stage 3 unless slices are created
//  5. slices from which endpoints have moved to others: updates, then deletions
func Diff(current Current, desired *Desired, settings Settings) Plan {
	if desired == nil {
		return removal(current)
	}
	conflicts := desired.Conflicts
	if current.mutated() {
		conflicts = slices.Concat(conflicts, current.mutations())
		current = *current.asWished(desired)
	}
	d := differ{current: &current, desired: desired, settings: settings,
		standing: make(map[string]*CurrentSlice, len(current.Slices)), left: map[string]*syncer.Slice{}, reduced: map[Object]int{}}
	for i := range current.Slices {
		d.standing[current.Slices[i].Meta.Name] = &current.Slices[i]
	}
	if e := current.Endpoints; e != nil {
		d.leftSubsets = e.Subsets
	}
	d.plan = Plan{current: d.current, Replica: desired.Key, Held: desired.Held, Kept: desired.Kept, Conflicts: slices.Clone(conflicts)}
	ready := d.ready()
	if ready {
		d.service()
	}
	whole := ready && !d.recreate && !d.blocked
	d.removals(whole)
	if whole {
		d.slices()
		d.endpoints()
	}
	d.stage()
	if !d.plan.Empty() {
		d.plan.Delta = d.current.content().to(d.plan.outcome())
	}
	slices.SortFunc(d.plan.Conflicts, compareConflicts)
	return d.plan
}

// differ is one run of Diff.
type differ struct {
	current  *Current
	desired  *Desired
	settings Settings
	plan     Plan
	// standing are the current slices by name.
	standing map[string]*CurrentSlice
	// left and leftSubsets are what the first half leaves of slices, where it changes
	// them, and of Endpoints; reduced are the places of its actions in the plan.
	left        map[string]*syncer.Slice
	leftSubsets []syncer.Subset
	reduced     map[Object]int
	// recreate is true when the Service has to go before anything can be written.
	recreate bool
	// blocked is true when it would have to go, and may not.
	blocked bool

	// adopts is the write of a Service that a former version has written.
	adopts    *Action
	namespace []Action
	// first are Service writes that everything waits for, beside those that
	// nothing does.
	first, beside []Action
	// creates, updates and removes concern slices; late are updates and last are
	// deletions that wait for others, see postpone.
	creates, updates, removes, late, last []Action
	// ends is the write of Endpoints.
	ends []Action
}

// ready reports whether the replica can be written at all.
func (d *differ) ready() bool {
	switch d.current.Namespace {
	case NamespaceTerminating:
		d.plan.Waiting = WaitNamespaceTerminating
		return false
	case NamespaceUnreadable:
		d.plan.Waiting = WaitNamespaceMissing
		return false
	case NamespaceMissing:
		if d.current.Service != nil {
			break // seen before its namespace was
		}
		if !d.settings.CreateNamespaces {
			d.plan.Waiting = WaitNamespaceMissing
			return false
		}
		d.namespace = []Action{{Verb: Create, Kind: KindNamespace, Name: d.desired.Namespace, Why: "missing"}}
	}
	s := d.current.Service
	switch {
	case s == nil:
		return true
	case !s.Owned:
		d.foreign(KindService, &s.Meta, "the replica is not written, but for removals from what is left of it; rename or delete the object, or exclude the Service in its members")
		return false
	case s.Deleting:
		d.plan.Waiting = WaitObjectDeleting
		return false
	}
	return true
}

// foreign reports an object of somebody else's where ours should be.
func (d *differ) foreign(kind Kind, m *Meta, consequence string) {
	d.plan.Conflicts = append(d.plan.Conflicts, notOurs(d.desired.Key, kind, m, consequence))
}

func (d *differ) service() {
	want := d.desired.Service
	s := d.current.Service
	if s == nil {
		want.Annotations = want.annotated(nil)
		d.first = append(d.first, Action{Verb: Create, Kind: KindService, Name: d.desired.Name, Service: &want, Why: "new"})
		return
	}
	if !s.Headless {
		// A clusterIP cannot be taken back; the slices and Endpoints go with the
		// Service, so the rest is planned when it is gone.
		if e := d.current.Endpoints; e != nil && !e.Owned {
			d.foreign(KindEndpoints, &e.Meta, "it would go with the Service, which therefore keeps its clusterIP and is not written")
			d.blocked = true
			return
		}
		d.recreate, d.plan.Again = true, true
		d.first = append(d.first, Action{Verb: Delete, Kind: KindService, Name: d.desired.Name, Standing: &s.Meta, Why: "has a clusterIP"})
		return
	}
	want.Annotations = s.noted(want.Annotations)
	update := Action{Verb: Update, Kind: KindService, Name: d.desired.Name, Service: &want, Standing: &s.Meta}
	stage := &d.beside
	switch {
	case len(s.Selector) > 0:
		d.plan.Conflicts = append(d.plan.Conflicts, Conflict{Replica: d.desired.Key, Reason: ConflictSelector,
			Message: "somebody gave the replica a selector, so that the ingress cluster's own controllers write its endpoints; it is taken away"})
		update.Why, stage = "has a selector", &d.first
	case !samePorts(s.Ports, want.Ports):
		update.Why, stage = "ports changed", &d.first
	case len(s.Stray) > 0:
		update.Why = "somebody set " + s.Stray[0]
	case !syncer.EqualLabels(s.Labels, want.Labels):
		update.Why = "labels differ"
	case !want.Record.stands(&s.Record), !sameAnnotations(s.Annotations, want.Annotations, AnnotationSources, AnnotationPassed):
		update.Why = "sources changed"
		if d.unrecorded(s.Sources) {
			stage = &d.first
		}
	default:
		return
	}
	want.Annotations = want.annotated(s)
	if s.unrecorded() { // it is what makes the others ours until they have records
		d.adopts = &update
		return
	}
	*stage = append(*stage, update)
}

// adopt writes the Service of a former version after all that is ours by it.
func (d *differ) adopt() {
	if d.adopts == nil {
		return
	}
	for _, stage := range d.plan.Sequence() {
		for i := range stage {
			if a := &stage[i]; a.Standing != nil && a.Standing.unrecorded() {
				d.adopts.Needs = append(d.adopts.Needs, a.Object())
			}
		}
	}
	d.plan.Stages = append(d.plan.Stages, []Action{*d.adopts})
}

// unrecorded reports whether a wanted slice is of a cluster that the record does not
// name yet. What stands of a cluster counts by that record, so it is written before.
func (d *differ) unrecorded(recorded Sources) bool {
	return slices.ContainsFunc(d.desired.Slices, func(s SliceSpec) bool { return !recorded.has(s.Cluster) })
}

func (d *differ) endpoints() {
	e := d.current.Endpoints
	want := d.desired.Endpoints
	wanted := want.Annotations
	action := Action{Verb: Create, Kind: KindEndpoints, Name: d.desired.Name, Endpoints: &want, Why: "new"}
	switch {
	case e == nil && !d.settings.WriteEndpoints:
		return
	case e == nil:
		want.Annotations = annotated(nil, nil, wanted)
		d.ends = append(d.ends, action)
		return
	case !e.Owned:
		if d.settings.WriteEndpoints {
			d.foreign(KindEndpoints, &e.Meta, "it is left alone, only slices are written")
		}
		return
	case e.Deleting:
		d.plan.Waiting = WaitObjectDeleting
		return
	case !d.settings.WriteEndpoints:
		d.last = append(d.last, Action{Verb: Delete, Kind: KindEndpoints, Name: d.desired.Name, Standing: &e.Meta, Why: "not written any more"})
		return
	}
	wanted = e.noted(wanted)
	want.Annotations = annotated(e.Annotations, nil, wanted)
	action.Verb, action.Standing = Update, &e.Meta
	sameLabels := syncer.EqualLabels(e.Labels, want.Labels)
	if at, reduced := d.reduced[action.Object()]; reduced && !d.settings.Apart && sameLabels && sameSubsets(d.leftSubsets, syncer.Repack(want.Subsets)) {
		action.Why = d.plan.Removals[at].Why
		d.plan.Removals[at] = action // with its records, and in the order that is wanted
		return
	}
	switch {
	case !sameSubsets(d.leftSubsets, want.Subsets):
		action.Why = describeSubsets(d.leftSubsets, want.Subsets)
	case !sameLabels:
		action.Why = "labels differ"
	case !sameAnnotations(e.Annotations, wanted):
		action.Why = "annotations differ"
		for i := range d.creates { // with which what is on record here is in slices
			action.Needs = append(action.Needs, d.creates[i].Object())
		}
	default:
		return
	}
	d.ends = append(d.ends, action)
}

// combine makes one write of two where nothing has to come between them. Should the
// server refuse it, what must go still goes by itself.
func (d *differ) combine() {
	if d.settings.Apart || len(d.namespace)+len(d.first) > 0 {
		return
	}
	d.updates = d.combined(d.updates)
	if len(d.creates) == 0 {
		d.ends = d.combined(d.ends)
	}
}

func (d *differ) combined(actions []Action) (rest []Action) {
	for _, a := range actions {
		at, reduced := d.reduced[a.Object()]
		if !reduced {
			rest = append(rest, a)
			continue
		}
		first := d.plan.Removals[at]
		a.Otherwise = &first
		if a.Slice != nil {
			a.Why = describeSlice(&d.standing[a.Name].Slice, &a.Slice.Slice)
		} else {
			a.Why = describeSubsets(d.current.Endpoints.Subsets, a.Endpoints.Subsets)
		}
		d.plan.Removals[at] = a
	}
	return rest
}

// stage puts the actions in order.
func (d *differ) stage() {
	d.combine()
	add := func(actions ...Action) {
		if len(actions) > 0 {
			d.plan.Stages = append(d.plan.Stages, actions)
		}
	}
	add(d.namespace...)
	add(d.first...)
	middle := slices.Concat(d.creates, d.updates, d.removes)
	if len(d.creates) == 0 {
		// Nothing has to be there first, so both kinds go out at once.
		add(slices.Concat(d.ends, middle, d.beside)...)
	} else {
		add(slices.Concat(middle, d.beside)...)
		add(d.ends...)
	}
	add(d.late...)
	add(d.last...)
	d.adopt()
	d.depend()
}

// depend says what nothing else makes sense without: a namespace and a Service that do
// not stand yet, and the deletion of one that has to be made anew.
func (d *differ) depend() {
	var needs []Object
	for i := range d.plan.Stages {
		made := needs
		for j := range d.plan.Stages[i] {
			a := &d.plan.Stages[i][j]
			a.Needs = slices.Concat(a.Needs, needs)
			if a.Kind == KindNamespace || a.Kind == KindService && a.Verb == Create {
				made = append(slices.Clip(made), a.Object())
			}
		}
		needs = made
	}
}

// removal takes a replica down: what sends traffic first, the Service last.
func removal(current Current) Plan {
	p := Plan{current: &current, Replica: current.Key, Conflicts: current.disputes()}
	const why = "no member has the Service"
	remove := func(empty *Action, serves bool) {
		empty.Why = why
		a := Action{Verb: Delete, Kind: empty.Kind, Name: empty.Name, Standing: empty.Standing, Why: why}
		switch {
		case !empty.Standing.Deleting:
			if serves {
				a.Otherwise = empty
			}
			p.Removals = append(p.Removals, a)
			return
		case serves: // as long as a finalizer keeps it
			p.Removals = append(p.Removals, *empty)
		}
		p.Waiting = WaitObjectDeleting
	}
	if e := current.ours(); e.Owned {
		a := e.Unchanged()
		a.Endpoints.Subsets, a.Endpoints.Trigger = nil, time.Time{}
		remove(a, len(e.Subsets) > 0)
	}
	for _, s := range current.slicesOf(every) {
		a := s.Unchanged()
		a.Slice.Endpoints = nil
		remove(a, len(s.Endpoints) > 0)
	}
	switch s := current.Service; {
	case s == nil || !s.Owned:
	case s.Deleting:
		p.Waiting = WaitObjectDeleting
	case current.Endpoints != nil && !current.Endpoints.Owned:
		p.Conflicts = append(p.Conflicts, Conflict{Replica: current.Key, Reason: ConflictForeign, Message: fmt.Sprintf(
			"nobody wants Service %s any more, but the Endpoints of that name are not Tributary's and would go with it: delete either by hand", current.Key)})
	default:
		p.Stages = [][]Action{{{Verb: Delete, Kind: KindService, Name: s.Name, Standing: &s.Meta, Why: why}}}
	}
	p.Delta = current.content().to(p.outcome())
	return p
}
