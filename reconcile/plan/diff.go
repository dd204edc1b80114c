// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Diff returns the writes that make what stands equal to what is desired; nil
// means that nobody wants the replica. Nothing that Tributary does not own is in
// any action. The stages, of which most plans have one:
//
//  1. the namespace
//  2. the Service, if it is new or its ports or selector change: consumers that
//     see a slice before its Service may ignore both
//  3. slices: new ones, updates, and those that nothing replaces
//  4. Endpoints, in stage 3 unless slices are created
//  5. slices from which endpoints have moved to others: updates, then deletions
//
// Where nobody wants the replica: slices and Endpoints, then the Service.
func Diff(observed Observed, desired *Replica, settings Settings) Plan {
	if desired == nil {
		return removal(observed)
	}
	d := differ{observed: &observed, desired: desired, settings: settings, standing: make(map[string]*ObservedSlice, len(observed.Slices))}
	for i := range observed.Slices {
		d.standing[observed.Slices[i].Meta.Name] = &observed.Slices[i]
	}
	d.plan = Plan{Replica: desired.Key, Held: desired.Held, Kept: desired.Kept, Conflicts: slices.Clone(desired.Conflicts)}
	if d.ready() {
		d.service()
		if !d.recreate && !d.blocked {
			d.slices()
			d.endpoints()
		}
		d.stage()
		d.plan.Delta = d.delta()
	} else if s := observed.Service; s != nil && !s.Owned {
		d.salvage()
	}
	slices.SortFunc(d.plan.Conflicts, compareConflicts)
	return d.plan
}

// differ is one run of Diff.
type differ struct {
	observed *Observed
	desired  *Replica
	settings Settings
	plan     Plan
	// standing are the observed slices by name.
	standing map[string]*ObservedSlice
	// recreate is true when the Service has to go before anything can be written.
	recreate bool
	// blocked is true when it would have to go, and may not.
	blocked bool

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
	switch d.observed.Namespace {
	case NamespaceTerminating:
		d.plan.Waiting = WaitNamespaceTerminating
		return false
	case NamespaceMissing:
		if d.observed.Service != nil {
			break // seen before its namespace was
		}
		if !d.settings.CreateNamespaces {
			d.plan.Waiting = WaitNamespaceMissing
			return false
		}
		d.namespace = []Action{{Verb: Create, Kind: KindNamespace, Name: d.desired.Namespace, Why: "missing"}}
	}
	s := d.observed.Service
	switch {
	case s == nil:
		return true
	case !s.Owned:
		d.foreign(KindService, d.desired.Name, "the replica is not written, but for removals from what is left of it; rename or delete the object, or exclude the Service in its members")
		return false
	case s.Deleting:
		d.plan.Waiting = WaitObjectDeleting
		return false
	}
	return true
}

// foreign reports an object of somebody else's where ours should be.
func (d *differ) foreign(kind Kind, name, consequence string) {
	label := LabelManagedBy
	if kind == KindEndpointSlice {
		label = LabelSliceManagedBy
	}
	d.plan.Conflicts = append(d.plan.Conflicts, Conflict{Replica: d.desired.Key, Reason: ConflictForeign, Message: fmt.Sprintf(
		"%s %s/%s stands and is not Tributary's (label %s): %s", kind, d.desired.Namespace, name, label, consequence)})
}

func (d *differ) service() {
	want := d.desired.Service
	s := d.observed.Service
	if s == nil {
		want.Annotations = annotated(nil, want.Annotations)
		d.first = append(d.first, Action{Verb: Create, Kind: KindService, Name: d.desired.Name, Service: &want, Why: "new"})
		return
	}
	if !s.Headless {
		// A clusterIP cannot be taken back; the slices and Endpoints go with the
		// Service, so the rest is planned when it is gone.
		if e := d.observed.Endpoints; e != nil && !e.Owned {
			d.foreign(KindEndpoints, d.desired.Name, "it would go with the Service, which therefore keeps its clusterIP and is not written")
			d.blocked = true
			return
		}
		d.recreate, d.plan.Again = true, true
		d.first = append(d.first, Action{Verb: Delete, Kind: KindService, Name: d.desired.Name, Standing: &s.Meta, Why: "has a clusterIP"})
		return
	}
	want.Annotations = annotated(s.Annotations, want.Annotations)
	update := Action{Verb: Update, Kind: KindService, Name: d.desired.Name, Service: &want, Standing: &s.Meta}
	switch {
	case len(s.Selector) > 0:
		d.plan.Conflicts = append(d.plan.Conflicts, Conflict{Replica: d.desired.Key, Reason: ConflictSelector,
			Message: "somebody gave the replica a selector, so that the ingress cluster's own controllers write its endpoints; it is taken away"})
		update.Why = "has a selector"
		d.first = append(d.first, update)
	case !samePorts(s.Ports, want.Ports):
		update.Why = "ports changed"
		d.first = append(d.first, update)
	case s.Stray != "":
		update.Why = "somebody set " + s.Stray
		d.beside = append(d.beside, update)
	case !syncer.EqualLabels(s.Labels, want.Labels):
		update.Why = "labels differ"
		d.beside = append(d.beside, update)
	case !sameAnnotations(s.Annotations, d.desired.Service.Annotations):
		update.Why = "sources changed"
		d.beside = append(d.beside, update)
	}
}

func (d *differ) endpoints() {
	e := d.observed.Endpoints
	want := d.desired.Endpoints
	wanted := want.Annotations
	action := Action{Verb: Create, Kind: KindEndpoints, Name: d.desired.Name, Endpoints: &want, Why: "new"}
	switch {
	case e == nil && !d.settings.WriteEndpoints:
		return
	case e == nil:
		want.Annotations = annotated(nil, wanted)
		d.ends = append(d.ends, action)
		return
	case !e.Owned:
		if d.settings.WriteEndpoints {
			d.foreign(KindEndpoints, d.desired.Name, "it is left alone, only slices are written")
		}
		return
	case e.Deleting:
		d.plan.Waiting = WaitObjectDeleting
		return
	case !d.settings.WriteEndpoints:
		d.last = append(d.last, Action{Verb: Delete, Kind: KindEndpoints, Name: d.desired.Name, Standing: &e.Meta, Why: "not written any more"})
		return
	}
	want.Annotations = annotated(e.Annotations, wanted)
	action.Verb, action.Standing = Update, &e.Meta
	switch {
	case !sameSubsets(e.Subsets, want.Subsets):
		action.Why = describeSubsets(e.Subsets, want.Subsets)
	case !syncer.EqualLabels(e.Labels, want.Labels):
		action.Why = "labels differ"
	case !sameAnnotations(e.Annotations, wanted):
		action.Why = "annotations differ"
	default:
		return
	}
	d.ends = append(d.ends, action)
}

// stage puts the actions in order.
func (d *differ) stage() {
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
}

// removal takes a replica down: what sends traffic first, the Service last.
func removal(observed Observed) Plan {
	p := Plan{Replica: observed.Key}
	var first []Action
	gone := func(kind Kind, m *Meta) (Action, bool) {
		if m.Owned && m.Deleting {
			p.Waiting = WaitObjectDeleting
		}
		return Action{Verb: Delete, Kind: kind, Name: m.Name, Standing: m, Why: "no member has the Service"}, m.Owned && !m.Deleting
	}
	var subsets []syncer.Subset
	var slices []*syncer.Slice
	changed := spots{}
	if e := observed.Endpoints; e != nil {
		if a, do := gone(KindEndpoints, &e.Meta); do {
			first = append(first, a)
			subsets = e.Subsets
			changed.subsets(subsets, nil)
		}
	}
	for i := range observed.Slices {
		s := &observed.Slices[i]
		if a, do := gone(KindEndpointSlice, &s.Meta); do {
			first = append(first, a)
			slices = append(slices, &s.Slice)
			changed.slice(&s.Slice, &syncer.Slice{})
		}
	}
	if len(first) > 0 {
		p.Stages = append(p.Stages, first)
	}
	if s := observed.Service; s != nil {
		switch a, do := gone(KindService, &s.Meta); {
		case do && observed.Endpoints != nil && !observed.Endpoints.Owned:
			p.Conflicts = []Conflict{{Replica: observed.Key, Reason: ConflictForeign, Message: fmt.Sprintf(
				"nobody wants Service %s any more, but the Endpoints of that name are not Tributary's and would go with it: delete either by hand", observed.Key)}}
		case do:
			p.Stages = append(p.Stages, []Action{a})
		}
	}
	before := changed.tally().subsets(subsets)
	for _, s := range slices {
		before.slice(s)
	}
	p.Delta = deltaBetween(before, changed.tally())
	return p
}
