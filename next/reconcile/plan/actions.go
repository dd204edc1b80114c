// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"tributary.dev/tributary/next/syncer"
)

// maxSlice is how many endpoints the API lets a slice have.
const maxSlice = 1000

// Actions returns the writes that may be sent now to make what stands what is desired, each on
// one object; nil for want means that nobody wants the replica. Objects that are busy are
// left out. Something that takes away waits for nothing. What else is written of slices and
// Endpoints waits for the namespace, for the Service, and for those of its ports that they
// need; Endpoints are made after the first slice. After each answer the replica is to be
// compared again, so that what follows needs no place here.
func Actions(now Current, want *Desired, busy func(Object) bool) ([]Action, Waiting) {
	c := &comparison{now: &now, want: want, busy: busy}
	if want == nil {
		c.teardown()
	} else {
		c.waiting.Conflicts = slices.Clone(want.Conflicts)
		c.whole = c.namespace() && c.service()
		c.slices()
		c.endpoints()
	}
	slices.SortFunc(c.waiting.Conflicts, compareConflicts)
	return c.actions, c.waiting
}

// comparison is one run of Actions.
type comparison struct {
	now     *Current
	want    *Desired
	busy    func(Object) bool
	actions []Action
	waiting Waiting
	// whole is true where more may be written than what takes away.
	whole bool
	// lacking are the names of ports that the Service has yet to get.
	lacking map[string]bool
	// places are the wanted slices by address, see wantedIn.
	places map[addrOf][]*sliceWish
}

// action begins the write of an object; nil while a request for it is under way.
func (c *comparison) action(verb Verb, kind Kind, name, why string, standing *Meta) *Action {
	a := Action{Verb: verb, Kind: kind, Replica: c.now.Key, Name: name, Why: why, want: c.want}
	if c.want != nil {
		a.Replica = c.want.Key
	}
	if standing != nil {
		a.UID, a.ResourceVersion, a.Rest = standing.UID, standing.ResourceVersion, standing.Rest
	}
	if c.busy != nil && c.busy(a.Object()) {
		c.waiting.More = true
		return nil
	}
	return &a
}

func (c *comparison) add(a *Action) { c.actions = append(c.actions, *a) }

func (c *comparison) wait(reason WaitReason) bool {
	c.waiting.Reason = reason
	return false
}

func (c *comparison) conflict(reason ConflictReason, format string, args ...any) {
	c.waiting.Conflicts = append(c.waiting.Conflicts, Conflict{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// foreign reports an object of somebody else's where ours should be.
func (c *comparison) foreign(kind Kind, name string, m *Meta, consequence string) {
	object, instance := Object{kind, c.now.Key.Namespace, name}, m.Labels.Get(syncer.LabelInstance)
	if instance != "" && (c.want == nil || instance != c.want.settings.Instance) {
		c.conflict(ConflictInstance, "%s is of another installation (label %s: %s): %s", object, syncer.LabelInstance, instance, consequence)
		return
	}
	c.conflict(ConflictForeign, "%s is not Tributary's (labels %s and %s, annotation %s): %s",
		object, syncer.LabelManagedBy, syncer.LabelInstance, syncer.AnnotationReplica, consequence)
}

// serves reports whether anybody waits for the replica.
func (c *comparison) serves() bool {
	return slices.ContainsFunc(c.want.members, func(m *member) bool { return len(m.endpoints) > 0 })
}

// makes adds the creation of what all else stands on.
func (c *comparison) makes(a *Action) {
	c.waiting.More = true
	if a != nil {
		a.lane = Bulk
		if c.serves() {
			a.lane = Addition
		}
		c.add(a)
	}
}

// namespace reports whether the namespace is there to be written to.
func (c *comparison) namespace() bool {
	switch c.now.Namespace {
	case NamespaceTerminating:
		return c.wait(WaitNamespaceTerminating)
	case NamespaceMissing:
		switch {
		case c.now.Service != nil: // seen before its namespace was
			return true
		case c.want.service == nil:
			return c.wait(WaitUnknownService)
		case !c.want.settings.CreateNamespaces:
			return c.wait(WaitNamespaceMissing)
		}
		c.makes(c.action(Create, KindNamespace, c.want.Namespace, "missing", nil))
		return false
	}
	return true
}

// service compares the Service. It reports whether there is one for slices and Endpoints to
// be written beside.
func (c *comparison) service() bool {
	s, w := c.now.Service, c.want.service
	id := mark{kind: KindService, replica: c.want.Key, instance: c.want.settings.Instance}
	switch {
	case s == nil && w == nil:
		return c.wait(WaitUnknownService)
	case s == nil:
		a := c.action(Create, KindService, c.want.Name, "new", nil)
		if a != nil {
			a.Service = &w.ServiceSpec
			id.dress(a, nil, w.traits, time.Time{})
		}
		c.makes(a)
		return false
	case !s.Owned:
		c.foreign(KindService, c.want.Name, &s.Meta, "the replica is not written; rename or delete it, or exclude the Service in its members")
		return c.wait(WaitForeign)
	case s.Deleting:
		return c.wait(WaitObjectDeleting)
	case w == nil:
		return true
	case s.ClusterIP != syncer.ClusterIPNone && s.ClusterIP != "":
		return c.remake(s)
	}
	c.updateService(s, w, id)
	return true
}

// remake deletes a Service that has a clusterIP, which cannot be taken back. Its slices and
// Endpoints go with it; the rest is compared when it is gone.
func (c *comparison) remake(s *Service) bool {
	if e := c.now.Endpoints; e != nil && !e.Owned {
		c.foreign(KindEndpoints, c.want.Name, &e.Meta, "it would go with the Service, which therefore keeps its clusterIP and is not written")
		return c.wait(WaitForeign)
	}
	c.makes(c.action(Delete, KindService, c.want.Name, "has a clusterIP", &s.Meta))
	return false
}

func (c *comparison) updateService(s *Service, w *serviceWish, id mark) {
	ports := samePorts(s.Ports, w.Ports)
	why := ""
	switch {
	case s.HasSelector:
		c.conflict(ConflictSelector, "somebody gave Service %s a selector, so that the ingress cluster's own controllers write its endpoints; it is taken away", c.want.Key)
		why = "has a selector"
	case s.ClusterIP == "":
		why = "is not headless"
	case !ports:
		why = "ports changed"
	case !id.stands(&s.Meta, w.traits):
		why = "labels or annotations differ"
	default:
		return
	}
	gone, lacking := portNames(s.Ports, w.Ports), portNames(w.Ports, s.Ports)
	c.lacking = lacking
	a := c.action(Update, KindService, c.want.Name, why, &s.Meta)
	if a == nil {
		return
	}
	a.Service = &w.ServiceSpec
	id.dress(a, &s.Meta, w.traits, time.Time{})
	switch {
	case s.HasSelector || s.ClusterIP == "" || len(gone) > 0 && len(lacking) == 0:
		a.lane = Removal
	case !ports:
		a.lane = Addition
	default:
		a.lane = Bulk
	}
	c.add(a)
}

// portNames are the names of ports that are in one list and not in another.
func portNames(in, notIn []syncer.ServicePort) map[string]bool {
	names := map[string]bool{}
	for _, p := range in {
		if !slices.ContainsFunc(notIn, func(o syncer.ServicePort) bool { return o.Name == p.Name }) {
			names[p.Name] = true
		}
	}
	return names
}

// lacks reports whether the Service has yet to get one of the ports.
func (c *comparison) lacks(ports []syncer.Port) bool {
	return len(c.lacking) > 0 && slices.ContainsFunc(ports, func(p syncer.Port) bool { return c.lacking[p.Name] })
}

// endpoints compares the Endpoints.
func (c *comparison) endpoints() {
	e, w := c.now.Endpoints, c.want.endpoints
	switch {
	case e == nil && w == nil:
	case e == nil:
		c.createEndpoints(w)
	case !e.Owned && w == nil:
	case !e.Owned:
		c.foreign(KindEndpoints, c.want.Name, &e.Meta, "it is left alone, only slices are written")
	case w == nil && c.whole && !e.Deleting:
		if a := c.action(Delete, KindEndpoints, c.want.Name, "not written any more", &e.Meta); a != nil {
			_, takes := c.want.reduceSubsets(e.Subsets)
			a.rank(takes)
			c.add(a)
		}
	default:
		c.updateEndpoints(e, w)
	}
}

// createEndpoints makes Endpoints, after the first of the slices.
func (c *comparison) createEndpoints(w *endpointsWish) {
	ports := func(s syncer.Subset) bool { return c.lacks(s.Ports) }
	sliced := len(c.want.slices) == 0 || slices.ContainsFunc(c.now.Slices, func(s Slice) bool { return s.Owned && !s.Deleting })
	if !c.whole || !sliced || slices.ContainsFunc(w.Subsets, ports) {
		c.waiting.More = c.waiting.More || c.whole
		return
	}
	if a := c.action(Create, KindEndpoints, c.want.Name, "new", nil); a != nil {
		c.fillEndpoints(a, nil, w)
		a.rank(false)
		c.add(a)
	}
}

func (c *comparison) fillEndpoints(a *Action, e *Endpoints, w *endpointsWish) {
	id := mark{kind: KindEndpoints, replica: c.want.Key, instance: c.want.settings.Instance}
	a.Endpoints = &w.EndpointsSpec
	var before []syncer.Subset
	if e == nil {
		id.dress(a, nil, w.traits, w.trigger)
	} else {
		id.dress(a, &e.Meta, w.traits, w.trigger)
		before = e.Subsets
	}
	if w.Truncated {
		a.Annotations[syncer.AnnotationOverCapacity] = overCapacity
	}
	a.Delta = content{subsets: before}.to(content{subsets: w.Subsets})
}

func (c *comparison) updateEndpoints(e *Endpoints, w *endpointsWish) {
	id := mark{kind: KindEndpoints, replica: c.want.Key, instance: c.want.settings.Instance}
	why := ""
	switch {
	case w == nil: // it waits to go
	case !sameSubsets(e.Subsets, w.Subsets):
		why = "addresses differ"
	case w.Truncated != (e.Annotations[syncer.AnnotationOverCapacity] == overCapacity) || !id.stands(&e.Meta, w.traits):
		why = "labels or annotations differ"
	default:
		return
	}
	left, takes := c.want.reduceSubsets(e.Subsets)
	blocked := w == nil || !c.whole || e.Deleting || slices.ContainsFunc(w.Subsets, func(s syncer.Subset) bool { return c.lacks(s.Ports) })
	if blocked && e.Deleting && c.waiting.Reason == "" {
		c.wait(WaitObjectDeleting)
	}
	if blocked {
		c.waiting.More = c.waiting.More || c.whole
	}
	if blocked && !takes {
		return
	}
	a := c.action(Update, KindEndpoints, c.want.Name, why, &e.Meta)
	switch {
	case a == nil:
		return
	case blocked:
		a.fillReducedEndpoints(e, left)
	default:
		c.fillEndpoints(a, e, w)
		a.Why = a.Delta.describe(why)
		a.rank(takes || c.want.takesOver(&a.Delta))
	}
	c.add(a)
}

// teardown takes a replica down: what sends traffic first, the Service last. Our Service
// stays while an Endpoints of its name is another's, for the API server would delete that along.
// A slice stays, empty, until Endpoints are gone: addresses that stand in Endpoints alone would
// be taken for those of a member that is not listed.
func (c *comparison) teardown() {
	const why = "no member has the Service"
	e := c.now.Endpoints
	last := e != nil && e.Owned && len(e.Subsets) > 0
	serving := last && !e.Deleting
	for i := range c.now.Slices {
		s := &c.now.Slices[i]
		if !s.Owned {
			continue
		}
		empties := s.Deleting || last
		if last = last && s.Deleting; s.Deleting {
			c.wait(WaitObjectDeleting)
		}
		serving = serving || len(s.Endpoints) > 0 && !s.Deleting
		if empties && len(s.Endpoints) == 0 {
			continue
		}
		if a := c.action(Delete, KindEndpointSlice, s.Name, why, &s.Meta); a != nil {
			if a.fillReducedSlice(s, nil); !empties {
				a.erase()
			}
			c.add(a)
		}
	}
	if e != nil && e.Owned {
		if e.Deleting {
			c.wait(WaitObjectDeleting)
		}
		if a := c.action(Delete, KindEndpoints, c.now.Key.Name, why, &e.Meta); a != nil && (!e.Deleting || len(e.Subsets) > 0) {
			if a.fillReducedEndpoints(e, nil); !e.Deleting {
				a.erase()
			}
			c.add(a)
		}
	}
	c.teardownService(serving, why)
}

// erase makes a deletion of an action that leaves nothing of its object.
func (a *Action) erase() {
	a.Verb, a.reduced, a.Labels, a.Annotations, a.Slice, a.Endpoints = Delete, false, nil, nil, nil, nil
	a.rank(!a.Delta.Empty())
}

func (c *comparison) teardownService(serving bool, why string) {
	s := c.now.Service
	switch {
	case s == nil || !s.Owned:
	case s.Deleting:
		c.wait(WaitObjectDeleting)
	case c.now.Endpoints != nil && !c.now.Endpoints.Owned:
		c.foreign(KindEndpoints, c.now.Key.Name, &c.now.Endpoints.Meta, "nobody wants the Service of that name any more, but they would go with it; delete either by hand")
		c.wait(WaitForeign)
	case serving:
		c.waiting.More = true
	default:
		if a := c.action(Delete, KindService, c.now.Key.Name, why, &s.Meta); a != nil {
			a.lane = Bulk
			c.add(a)
		}
	}
}
