// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// Actions returns the writes that may be sent now to make what stands what is desired, each on
// one object; nil for want means that nobody wants the replica. Objects that are busy are
// left out. What takes away waits for nothing. What else is written of slices and
// Endpoints waits for the namespace, for the Service, and for those of its ports that they
// need; Endpoints are made after the first slice. After each answer the replica is to be
// compared again, so that what follows needs no place here.
func Actions(now Current, want *Desired, busy func(Object) bool) ([]Action, Waiting) {
	c := &comparison{now: &now, want: want, busy: busy}
	if c.gone = want == nil; c.gone {
		c.want, c.whole = &Desired{Key: now.Key, settings: &Settings{}}, true
	} else {
		c.waiting.Conflicts = slices.Clone(want.Conflicts)
		c.whole = c.namespace() && c.service()
	}
	c.slices()
	c.endpoints()
	if c.gone {
		c.lastOfAll()
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
	// gone is true where nobody wants the replica, whole where more may be written than what takes
	// away.
	gone, whole bool
	// lacking are the names of ports that the Service has yet to get.
	lacking map[string]bool
	// places are the wanted slices by address, see onItsWay.
	places map[addrOf][]*wish
}

// action begins the write of an object; nil while a request for it is under way.
func (c *comparison) action(verb Verb, kind Kind, name, why string, standing *Meta) *Action {
	a := Action{Verb: verb, Kind: kind, Replica: c.want.Key, Name: name, Why: why, want: c.want}
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

// foreign reports an object of somebody else's where ours should be.
func (c *comparison) foreign(kind Kind, name string, m *Meta, consequence string) {
	reason, instance := ConflictForeign, m.Labels.Get(syncer.LabelInstance)
	if instance != "" && instance != c.want.settings.Instance {
		reason = ConflictInstance
	}
	c.waiting.Conflicts = append(c.waiting.Conflicts, Conflict{Reason: reason, Message: fmt.Sprintf(
		"%s is not this installation's (labels %s and %s, here %q, annotation %s): %s", Object{kind, c.want.Namespace, name},
		syncer.LabelManagedBy, syncer.LabelInstance, instance, syncer.AnnotationReplica, consequence)})
}

// makes adds the write of what all else stands on.
func (c *comparison) makes(a *Action) bool {
	c.waiting.More = true
	if a != nil {
		a.lane = Bulk
		if slices.ContainsFunc(c.want.members, func(m *member) bool { return len(m.endpoints) > 0 }) {
			a.lane = Addition
		}
		c.add(a)
	}
	return false
}

// namespace reports whether the namespace is there to be written to.
func (c *comparison) namespace() bool {
	switch {
	case c.now.Namespace == NamespaceTerminating:
		return c.wait(WaitNamespaceTerminating)
	case c.now.Namespace == NamespaceActive || c.now.Service != nil: // seen before its namespace was
		return true
	case c.want.service == nil:
		return c.wait(WaitUnknownService)
	case !c.want.settings.CreateNamespaces:
		return c.wait(WaitNamespaceMissing)
	}
	return c.makes(c.action(Create, KindNamespace, c.want.Namespace, "missing", nil))
}

// service compares the Service. It reports whether there is one for slices and Endpoints to
// be written beside.
func (c *comparison) service() bool {
	s, w := c.now.Service, c.want.service
	switch {
	case s == nil && w == nil:
		return c.wait(WaitUnknownService)
	case s == nil:
		a := c.action(Create, KindService, c.want.Name, "new", nil)
		if a != nil {
			a.fill(w, nil)
		}
		return c.makes(a)
	case !s.Owned:
		c.foreign(KindService, c.want.Name, &s.Meta, "the replica is not written; rename or delete it, or exclude the Service in its members")
		return c.wait(WaitForeign)
	case s.Deleting:
		return c.wait(WaitObjectDeleting)
	case w == nil:
		return true
	case s.ClusterIP == syncer.ClusterIPNone || s.ClusterIP == "":
		c.updateService(s, w)
		return true
	case c.now.Endpoints != nil && !c.now.Endpoints.Owned:
		c.foreign(KindEndpoints, c.want.Name, &c.now.Endpoints.Meta, "it would go with the Service, which therefore keeps its clusterIP and is not written")
		return c.wait(WaitForeign)
	}
	// A clusterIP cannot be taken back. Slices and Endpoints go with the Service.
	return c.makes(c.action(Delete, KindService, c.want.Name, "has a clusterIP", &s.Meta))
}

func (c *comparison) updateService(s *Service, w *wish) {
	ports := samePorts(s.Ports, w.service.Ports)
	why := ""
	switch {
	case s.HasSelector:
		c.waiting.Conflicts = append(c.waiting.Conflicts, Conflict{Reason: ConflictSelector, Message: fmt.Sprintf(
			"somebody gave Service %s a selector, so that the ingress cluster's own controllers write its endpoints; it is taken away", c.want.Key)})
		why = "has a selector"
	case s.ClusterIP == "":
		why = "is not headless"
	case !ports:
		why = "ports changed"
	case !c.want.mark(KindService, "").stands(&s.Meta, w.traits):
		why = "labels or annotations differ"
	default:
		return
	}
	gone := portNames(s.Ports, w.service.Ports)
	c.lacking = portNames(w.service.Ports, s.Ports)
	a := c.action(Update, KindService, c.want.Name, why, &s.Meta)
	if a == nil {
		return
	}
	a.fill(w, &object{Meta: &s.Meta, kind: KindService})
	switch {
	case s.HasSelector || s.ClusterIP == "" || len(gone) > 0 && len(c.lacking) == 0:
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
func (c *comparison) lacks(w *wish) bool {
	of := func(ports []syncer.Port) bool {
		return slices.ContainsFunc(ports, func(p syncer.Port) bool { return c.lacking[p.Name] })
	}
	return len(c.lacking) > 0 && (w.slice != nil && of(w.slice.Ports) ||
		w.endpoints != nil && slices.ContainsFunc(w.endpoints.Subsets, func(s syncer.Subset) bool { return of(s.Ports) }))
}

// lastOfAll takes the Service when nothing of the replica sends traffic any more. Ours stays
// while an Endpoints of its name is another's, which the API server would delete along.
func (c *comparison) lastOfAll() {
	s, e := c.now.Service, c.now.Endpoints
	serves := func(s Slice) bool { return s.Owned && !s.Deleting && len(s.Endpoints) > 0 }
	switch {
	case s == nil || !s.Owned:
	case s.Deleting:
		c.wait(WaitObjectDeleting)
	case e != nil && !e.Owned:
		c.foreign(KindEndpoints, c.want.Name, &e.Meta, "nobody wants the Service of that name any more, but they would go with it; delete either by hand")
		c.wait(WaitForeign)
	case e != nil && !e.Deleting && len(e.Subsets) > 0 || slices.ContainsFunc(c.now.Slices, serves):
		c.waiting.More = true
	default:
		if a := c.action(Delete, KindService, c.want.Name, unwanted, &s.Meta); a != nil {
			a.lane = Bulk
			c.add(a)
		}
	}
}

// fill makes an action write an object as it is wished; o is what stands.
func (a *Action) fill(w *wish, o *object) {
	a.Member, a.Service, a.Endpoints, a.Slice = w.member, w.service, w.endpoints, w.slice
	var standing *Meta
	var before []syncer.Endpoint
	if o != nil {
		standing, before = o.Meta, o.endpoints
	}
	a.want.mark(a.Kind, w.member).dress(a, standing, w.traits)
	if !w.trigger.IsZero() {
		a.Annotations[syncer.AnnotationTriggerTime] = w.trigger.UTC().Format(time.RFC3339Nano)
	}
	if w.endpoints != nil && w.endpoints.Truncated {
		a.Annotations[syncer.AnnotationOverCapacity] = overCapacity
	}
	if w.slice != nil {
		if reserve := reserveOf(w.slice.Endpoints); reserve != "" {
			a.Annotations[syncer.AnnotationReserve] = reserve
		}
	}
	a.Delta = deltaOf(slices.Values(before), w.all())
}
