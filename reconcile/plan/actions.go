// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Why objects are written.
const (
	differs  = "endpoints differ"
	dressed  = "labels or annotations differ"
	unwanted = "no member has the Service"
)

// Actions returns the writes that may be sent now to bring the current objects to the desired state,
// each on one object; a nil want means that nobody wants the replica. Busy objects are left out, and
// so is what depends on them. Removals wait for nothing. All other writes of slices and Endpoints
// wait for the namespace and for the Service; Endpoints are created after the first slice. After each
// answer the replica is to be compared again, so that later writes need no place here.
func Actions(now Current, want *Desired) ([]Action, Waiting) {
	c := &comparison{now: &now, want: want, gone: want == nil, whole: want == nil}
	if now.Service != nil {
		c.owner = now.Service.UID
	}
	if c.gone {
		c.want = &Desired{Key: now.Key, settings: &Settings{}}
	} else {
		c.waiting = Waiting{Conflicts: slices.Clone(want.Conflicts)}
		c.whole = c.namespace() && c.service()
		for i := range now.Slices {
			if s := &now.Slices[i]; !s.Owned {
				c.foreign(KindEndpointSlice, s.Name, &s.Meta, "consumers take its endpoints for the replica's, and nobody here keeps them up; delete it unless it is meant")
			}
		}
	}
	c.slices()
	c.endpoints(now.Endpoints, c.want.endpoints)
	if c.gone {
		c.lastOfAll(now.Service, now.Endpoints)
	}
	slices.SortFunc(c.waiting.Conflicts, compareConflicts)
	c.waiting.Conflicts = slices.Compact(c.waiting.Conflicts)
	return c.actions, c.waiting
}

// comparison is one run of Actions.
type comparison struct {
	now     *Current
	want    *Desired
	actions []Action
	waiting Waiting
	// gone is true where nobody wants the replica, whole where more than removals may be written.
	gone, whole bool
	// owner is the UID of the Service, if it exists.
	owner string
}

// action begins the write of an object.
func (c *comparison) action(verb Verb, kind Kind, name, why string, current *Meta) Action {
	a := Action{Verb: verb, Kind: kind, Replica: c.want.Key, Name: name, Why: why}
	if current != nil {
		a.UID, a.ResourceVersion, a.Rest = current.UID, current.ResourceVersion, current.Rest
	}
	return a
}

// add adds an action, unless a request for its object is under way.
func (c *comparison) add(a Action, lane Lane) {
	if c.now.Busy != nil && c.now.Busy(a.Object()) {
		c.waiting.More = true
		return
	}
	a.lane = lane
	c.actions = append(c.actions, a)
}

// change adds the write of Endpoints or a slice with its current endpoints; urgent: it removes some.
func (c *comparison) change(a Action, current []syncer.Endpoint, urgent bool) {
	a.Delta = deltaOf(current, a.endpoints())
	lane := Bulk
	switch {
	// An endpoint that serves in place of the first class takes over from those that no longer do.
	case urgent, len(a.Delta.Readied) > 0 && c.want.best != class{syncer.Ready, 0}:
		lane = Removal
	case !a.Delta.Empty():
		lane = Addition
	}
	c.add(a, lane)
}

// wait says what has to happen before more can be written.
func (c *comparison) wait(reason ConflictReason) bool {
	c.waiting.Conflicts = append(c.waiting.Conflicts, Conflict{Reason: reason, Message: "what depends on it is written once that is mended"})
	return false
}

// foreign reports an object of somebody else's where ours should be.
func (c *comparison) foreign(kind Kind, name string, m *Meta, consequence string) bool {
	reason, instance := ConflictForeign, m.Labels.Get(syncer.LabelInstance)
	if instance != "" && instance != c.want.settings.Instance {
		reason = ConflictInstance
	}
	c.waiting.Conflicts = append(c.waiting.Conflicts, Conflict{Reason: reason, Message: fmt.Sprintf(
		"%s is not this installation's (labels %s and %s, here %q, annotation %s): %s", Object{kind, c.want.Namespace, name},
		syncer.LabelManagedBy, syncer.LabelInstance, instance, syncer.AnnotationReplica, consequence)})
	return false
}

// makes adds the write of an object on which all others depend.
func (c *comparison) makes(a Action) bool {
	c.waiting.More = true
	c.add(a, Addition)
	return c.now.AtOnce
}

// namespace reports whether objects can be written to the namespace.
func (c *comparison) namespace() bool {
	switch {
	case c.now.Namespace == NamespaceTerminating:
		return c.wait(ConflictNamespaceTerminating)
	case c.now.Namespace == NamespaceActive || c.now.Service != nil: // seen earlier than its namespace
		return true
	case c.want.service == nil:
		return c.wait(ConflictUnknown)
	case !c.want.settings.CreateNamespaces:
		return c.wait(ConflictNamespaceMissing)
	}
	return c.makes(c.action(Create, KindNamespace, c.want.Namespace, "missing", nil))
}

// service compares the Service. It reports whether slices and Endpoints may be written.
func (c *comparison) service() bool {
	s, w, e := c.now.Service, c.want.service, c.now.Endpoints
	switch {
	case s == nil && w == nil:
		return c.wait(ConflictUnknown)
	case s == nil:
		a := c.action(Create, KindService, c.want.Name, "new", nil)
		a.write(w, nil)
		return c.makes(a)
	case !s.Owned:
		return c.foreign(KindService, c.want.Name, &s.Meta, "the replica is not written; rename or delete it, or exclude the Service in its members")
	case s.Deleting:
		c.wait(ConflictDeleting)
		return true
	case w == nil:
		return true
	case s.ClusterIP == syncer.ClusterIPNone || s.ClusterIP == "":
		c.updateService(s, w)
		return true
	case e != nil && !e.Owned:
		return c.foreign(KindEndpoints, c.want.Name, &e.Meta, "it would go with the Service, which therefore keeps its clusterIP and is not written")
	}
	// A clusterIP cannot be removed. Slices and Endpoints are deleted with the Service.
	return c.makes(c.action(Delete, KindService, c.want.Name, "has a clusterIP", &s.Meta))
}

func (c *comparison) updateService(s *Service, w *wish) {
	why, lane := "", Addition
	switch {
	case s.HasSelector:
		c.waiting.Conflicts = append(c.waiting.Conflicts, Conflict{Reason: ConflictSelector, Message: fmt.Sprintf(
			"somebody gave Service %s a selector, so that the ingress cluster's own controllers write its endpoints; it is taken away", c.want.Key)})
		why = "has a selector"
	case s.ClusterIP == "":
		why = "is not headless"
	case !slices.Equal(s.Ports, w.service.Ports):
		why = "ports changed"
	case !w.carriedBy(&s.Meta):
		why, lane = dressed, Bulk
	default:
		return
	}
	a := c.action(Update, KindService, c.want.Name, why, &s.Meta)
	a.write(w, &s.Meta)
	c.add(a, lane)
}

// slices compares our slices. New ones are created first, and in the removal lane where others lose
// endpoints: the new ones may be all that serve then.
func (c *comparison) slices() {
	wishes, urgent := map[string]*wish{}, false
	for _, w := range c.want.slices {
		wishes[w.slice.Name] = w
	}
	for i := range c.now.Slices {
		if s := &c.now.Slices[i]; s.Owned {
			urgent = c.slice(s, wishes[s.Name]) || urgent
			delete(wishes, s.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wishes)) {
		c.create(KindEndpointSlice, name, wishes[name], urgent)
	}
	slices.SortStableFunc(c.actions, func(a, b Action) int { return cmp.Compare(a.Verb, b.Verb) })
}

// slice compares a current slice; w is nil where it is not desired. It reports whether endpoints are
// removed, now or as soon as other slices have been created.
func (c *comparison) slice(s *Slice, w *wish) (takes bool) {
	why := ""
	switch {
	case c.gone:
		why = unwanted
	case w == nil:
		why = "not needed any more"
	case !sameEndpoints(s.Endpoints, w.slice.Endpoints):
		why = differs
	case s.Malformed || !sameNumbers(s.Ports, w.slice.Ports):
		why = "has what Tributary does not write"
	case !w.carriedBy(&s.Meta):
		why = dressed
	case c.whole && s.Owner != c.owner:
		why = "belongs to another Service"
	default:
		return false
	}
	o := c.now.objectOf(s)
	left := o.rest(c.want.inSlices[MemberOf(c.want.Key, s)], c.now)
	if len(left.moving) > 0 && w != nil && !c.now.AtOnce { // or two slices would wait for each other
		beside := syncer.Slice{Name: s.Name, Family: w.slice.Family, Ports: w.slice.Ports, Endpoints: slices.Concat(w.slice.Endpoints, left.moving)}
		w, left.moving, c.waiting.More = &wish{traits: w.traits, trigger: w.trigger, slice: &beside}, nil, true
		if sameEndpoints(s.Endpoints, beside.Endpoints) {
			return left.sheds
		}
	}
	c.write(o, w, left, why)
	return left.takes || left.sheds
}

// endpoints compares the Endpoints; e is nil where they do not exist, w where they are not desired.
func (c *comparison) endpoints(e *Endpoints, w *wish) {
	why := ""
	switch {
	case e == nil && (w == nil || len(c.want.slices) == 0), e != nil && !e.Owned && w == nil:
		return
	case e == nil && !c.now.AtOnce && !slices.ContainsFunc(c.now.Slices, func(s Slice) bool { return s.Owned && !s.Deleting }):
		c.waiting.More = c.waiting.More || c.whole
		return
	case e == nil:
		c.create(KindEndpoints, c.want.Name, w, false)
		return
	case !e.Owned:
		c.foreign(KindEndpoints, c.want.Name, &e.Meta, "it is left alone, only slices are written")
		return
	case c.gone:
		why = unwanted
	case w == nil:
		why = "not written any more"
	case !sameSubsets(e.Subsets, w.endpoints.Subsets):
		why = differs
	case w.endpoints.Truncated != (e.Annotations[syncer.AnnotationOverCapacity] == overCapacity) || !w.carriedBy(&e.Meta):
		why = dressed
	default:
		return
	}
	o := c.now.objectOfEndpoints()
	c.write(o, w, o.rest(c.want.inEndpoints, c.now), why)
}

// create adds the creation of an object, if it may be created now.
func (c *comparison) create(kind Kind, name string, w *wish, urgent bool) {
	if !c.whole {
		return
	}
	a := c.action(Create, kind, name, "new", nil)
	a.write(w, nil)
	if kind == KindEndpointSlice {
		a.Owner = c.owner
	}
	c.change(a, nil, urgent)
}

// write brings a current object to its desired state, or deletes it where w is nil. Where that has to
// wait, only the removals are written: the object is left with the rest.
func (c *comparison) write(o *object, w *wish, left rest, why string) {
	a := c.action(Update, o.Kind, o.Name, why, o.Meta)
	if o.Deleting {
		c.wait(ConflictDeleting)
	}
	refused := left.takes && c.now.Refused != nil && c.now.Refused(a.Object())
	tells := c.gone && o.slice != nil && c.now.Service != nil && c.now.Service.Owned && !c.now.AtOnce // whose the Service is
	switch {
	case !c.whole || tells || o.Deleting || len(left.moving) > 0 && !c.now.AtOnce || refused:
		c.waiting.More = c.waiting.More || c.whole && !o.Deleting && !tells
		if !left.takes {
			return
		}
		a.Less = true
		a.write(o.less(left.endpoints, w), o.Meta)
		if o.slice != nil {
			a.Owner = o.slice.Owner
		}
	case w == nil:
		a.Verb = Delete
	default:
		a.write(w, o.Meta)
		if o.slice != nil {
			a.Owner = c.owner
		}
	}
	c.change(a, o.endpoints, left.takes)
}

// lastOfAll deletes the Service when nothing of the replica sends traffic any more. Ours stays
// while an Endpoints of its name is another's, which the API server would delete with it.
func (c *comparison) lastOfAll(s *Service, e *Endpoints) {
	serves := func(s Slice) bool { return s.Owned && !s.Deleting && len(s.Endpoints) > 0 }
	switch {
	case s == nil || !s.Owned:
	case s.Deleting:
		c.wait(ConflictDeleting)
	case e != nil && !e.Owned:
		c.foreign(KindEndpoints, c.want.Name, &e.Meta, "nobody wants the Service of that name any more, but they would go with it; delete either by hand")
	case !c.now.AtOnce && (e != nil && !e.Deleting && len(e.Subsets) > 0 || slices.ContainsFunc(c.now.Slices, serves)):
		c.waiting.More = true
	default:
		c.waiting.More = c.waiting.More || len(c.now.Slices) > 0 // which go after it
		c.add(c.action(Delete, KindService, c.want.Name, unwanted, &s.Meta), Bulk)
	}
}
