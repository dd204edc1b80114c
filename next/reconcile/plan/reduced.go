// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/next/syncer"
)

// Reduced is the write of the same object with only what it takes away, as the object stands
// now; false if that is nothing. It is sent where the server refused the full write: nothing
// is added and nothing else put right, so that there is as little as can be to refuse.
// What is merely moved, replaced or demoted stays.
func (a Action) Reduced(now Current) (Action, bool) {
	if a.reduced || a.Verb == Create || a.Replica != now.Key {
		return Action{}, false
	}
	r := Action{Verb: Update, Kind: a.Kind, Replica: a.Replica, Name: a.Name, want: a.want}
	switch a.Kind {
	case KindEndpoints:
		if e := now.Endpoints; e != nil && e.Owned {
			left, takes := a.want.reduceSubsets(e.Subsets)
			r.fillReducedEndpoints(e, left)
			return r, takes
		}
	case KindEndpointSlice:
		if s := now.slice(a.Name); s != nil && s.Owned {
			left, takes := a.want.reduceSlice(s)
			r.fillReducedSlice(s, left)
			return r, takes
		}
	}
	return Action{}, false
}

// fillReducedEndpoints makes an action write Endpoints with less.
func (a *Action) fillReducedEndpoints(e *Endpoints, left []syncer.Subset) {
	a.Endpoints = &EndpointsSpec{Subsets: left, Truncated: e.Annotations[syncer.AnnotationOverCapacity] != ""}
	a.Delta = content{subsets: e.Subsets}.to(content{subsets: left})
	var trigger time.Time
	if a.want != nil && a.want.endpoints != nil {
		trigger = a.want.endpoints.trigger
	}
	a.keepMeta(&e.Meta, trigger)
}

// fillReducedSlice makes an action write a slice with less.
func (a *Action) fillReducedSlice(s *Slice, left []syncer.Endpoint) {
	content := s.Slice
	content.Endpoints = left
	a.Member, a.Owner, a.Slice = s.Labels.Get(syncer.LabelSourceCluster), s.Owner, &content
	a.Delta = inSlice(&s.Slice).to(inSlice(&content))
	var trigger time.Time
	if a.want != nil {
		if w := a.want.slice(s.Name); w != nil {
			trigger = w.trigger
		}
	}
	a.keepMeta(&s.Meta, trigger)
	delete(a.Annotations, syncer.AnnotationReserve)
	if reserve := reserveOf(left); reserve != "" {
		a.Annotations[syncer.AnnotationReserve] = reserve
	}
}

// keepMeta carries on what stands but for the trigger time.
func (a *Action) keepMeta(m *Meta, trigger time.Time) {
	a.UID, a.ResourceVersion, a.Rest = m.UID, m.ResourceVersion, m.Rest
	a.Labels, a.Annotations = m.Labels.Map(), maps.Clone(m.Annotations)
	if a.Annotations == nil {
		a.Annotations = map[string]string{}
	}
	delete(a.Annotations, syncer.AnnotationTriggerTime)
	if !trigger.IsZero() {
		a.Annotations[syncer.AnnotationTriggerTime] = trigger.UTC().Format(time.RFC3339Nano)
	}
	a.Verb, a.lane, a.reduced = Update, Removal, true
	a.Why = a.Delta.describe(cmp.Or(a.Why, details))
}

// claim is the best that the members say of an endpoint that stands, whether its class
// serves or not.
type claim struct {
	said                        bool
	ready, serving, terminating bool
	// ports are those that the endpoint is to have.
	ports []syncer.Port
}

// claim gathers what is said of an endpoint, with its ports, in a kind; of one member, or of
// all where that is "". Pods may share an address, on the network of their node: another pod
// counts where it has one of the ports.
func (d *Desired) claim(e *syncer.Endpoint, member string, kind syncer.Kinds) (c claim) {
	if d == nil {
		return c
	}
	for _, m := range d.members {
		if member != "" && m.Member != member {
			continue
		}
		for o := range on(m.endpoints, e.Addr) {
			if !o.In(kind) || kind == syncer.KindEndpoints && o.Terminating && !o.Ready || !follows(o, o.Ports, e, e.Ports) {
				continue
			}
			c.terminating = o.Terminating && (c.terminating || !c.said)
			c.said, c.ready, c.serving = true, c.ready || o.Ready, c.serving || o.Serving
			c.ports = append(c.ports, o.Ports...)
		}
	}
	return c
}

// reduceSlice is what a standing slice keeps, and whether it loses anything by that: endpoints
// of which nobody says anything leave, and those that are not ready turn so.
func (d *Desired) reduceSlice(s *Slice) (left []syncer.Endpoint, takes bool) {
	var wanted []syncer.Endpoint
	member := ""
	if d != nil {
		member = memberOf(d.Key, s, d.members)
		wanted = wantedOf(d.slice(s.Name))
	}
	same := func(a, b *syncer.Endpoint) bool { return a.Equal(b) }
	middle, _ := trim(s.Endpoints, wanted, same)
	if len(middle) == 0 {
		return s.Endpoints, false
	}
	at := slices.IndexFunc(s.Endpoints, func(e syncer.Endpoint) bool { return e.Equal(&middle[0]) })
	left = slices.Clone(s.Endpoints[:at])
	for i := range middle {
		e := middle[i]
		e.Ports = s.Ports
		c := d.claim(&e, member, syncer.KindEndpointSlices)
		e.Ports = nil
		switch {
		case !c.said || !e.Addr.IsValid():
			takes = true
			continue
		case e.Ready && !c.ready || e.Serving && !c.serving:
			e.Ready, e.Serving, e.Terminating = e.Ready && c.ready, e.Serving && c.serving, e.Terminating || c.terminating
			if !c.ready {
				e.Grade = syncer.NotReady
			}
			takes = true
		}
		left = append(left, e)
	}
	return append(left, s.Endpoints[at+len(middle):]...), takes
}

// losesPorts reports whether endpoints of a slice that goes are to have fewer ports, and no other.
func (d *Desired) losesPorts(s *Slice) bool {
	member := memberOf(d.Key, s, d.members)
	return slices.ContainsFunc(s.Endpoints, func(e syncer.Endpoint) bool {
		e.Ports = s.Ports
		c := d.claim(&e, member, syncer.KindEndpointSlices)
		return c.said && within(c.ports, s.Ports) && !within(s.Ports, c.ports)
	})
}

// takesOver reports whether addresses serve in Endpoints that were in reserve: those that turn
// ready while another class than the first serves.
func (d *Desired) takesOver(delta *Delta) bool {
	return len(delta.Readied) > 0 && d.best != class{syncer.Ready, 0}
}

// reduceSubsets is what standing Endpoints keep, and whether they lose anything by that. A port
// leaves, too, if its address gets no other in its place. Where no Endpoints are wanted what
// lives in slices stays until they go.
func (d *Desired) reduceSubsets(standing []syncer.Subset) (left []syncer.Subset, takes bool) {
	kind := syncer.KindEndpoints
	var wanted []syncer.Subset
	if d != nil && d.endpoints != nil {
		wanted = d.endpoints.Subsets
	} else {
		kind |= syncer.KindEndpointSlices
	}
	suspects, has := places{}, map[netip.Addr][]syncer.Port{}
	suspects.subsets(standing, wanted)
	for at := range suspects {
		has[at.Addr()] = nil
	}
	for e := range endpointsIn(standing) {
		if ports, suspect := has[e.Addr]; suspect {
			has[e.Addr] = append(ports, e.Ports...)
		}
	}
	return filteredSubsets(standing, func(s *syncer.Subset, a *syncer.Address, ready bool) (bool, bool, []syncer.Port) {
		all, suspect := has[a.Addr]
		if a.Addr.IsValid() && !suspect {
			return true, ready, s.Ports
		}
		e := syncer.Endpoint{Addr: a.Addr, Ports: all, Target: a.Target}
		c := d.claim(&e, "", kind)
		ports, stays := s.Ports, c.said && a.Addr.IsValid()
		if len(c.ports) > 0 && within(c.ports, all) {
			ports = slices.DeleteFunc(slices.Clone(s.Ports), func(p syncer.Port) bool { return !slices.Contains(c.ports, p) })
			stays = stays && (len(ports) > 0 || len(s.Ports) == 0)
		}
		return stays, ready && c.ready, ports
	})
}

// filteredSubsets asks of each address whether it stays, ready, and with which ports. It
// returns the argument itself and false where nothing differs.
func filteredSubsets(standing []syncer.Subset, keeps func(s *syncer.Subset, a *syncer.Address, ready bool) (stays, isReady bool, ports []syncer.Port)) (out []syncer.Subset, changed bool) {
	for i := range standing {
		s := &standing[i]
		left := syncer.Subset{Ports: s.Ports}
		put := func(list []syncer.Address, ready bool) {
			for j := range list {
				stays, isReady, ports := keeps(s, &list[j], ready)
				to := &left
				if len(ports) != len(s.Ports) {
					out = append(out, syncer.Subset{Ports: ports})
					to, changed = &out[len(out)-1], true
				}
				switch changed = changed || !stays || isReady != ready; {
				case !stays:
				case isReady:
					to.Ready = append(to.Ready, list[j])
				default:
					to.NotReady = append(to.NotReady, list[j])
				}
			}
		}
		put(s.Ready, true)
		put(s.NotReady, false)
		out = append(out, left)
	}
	if !changed {
		return standing, false
	}
	return syncer.Repack(slices.DeleteFunc(out, func(s syncer.Subset) bool { return len(s.Ready)+len(s.NotReady) == 0 })), true
}
