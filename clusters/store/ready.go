// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"net/netip"
	"slices"
	"strconv"

	"tributary.dev/tributary/syncer"
)

// publishes reports whether all pods of a Service count as ready.
func (s *Store) publishes(svc *service) bool { return s.publishesAs(svc.current) }

func (s *Store) publishesAs(v *syncer.Service) bool {
	if s.options.TolerateUnreadyAnnotation {
		if tolerate, err := strconv.ParseBool(v.Annotations[syncer.TolerateUnreadyAnnotation]); err == nil {
			return tolerate
		}
	}
	return v.PublishNotReadyAddresses
}

// Publishes reports whether a Service takes every pod for ready; false if there is
// no such Service.
func (s *Store) Publishes(key syncer.Key) bool {
	svc := s.service(key)
	return svc != nil && s.publishes(svc)
}

// endpoints counts the endpoints of a placed Service.
func (s *Store) endpoints(svc *service) (ready, notReady int) {
	if svc.computed() {
		return svc.podCounts().endpoints(s.publishes(svc))
	}
	return s.manual[svc.current.Key].count(false)
}

// unheld counts the ready endpoints of a placed Service without those that are held of
// what gives them.
func (s *Store) unheld(svc *service) (ready int) {
	if !svc.computed() {
		ready, _ = s.manual[svc.current.Key].count(true)
		return ready
	}
	var t podCounts
	for g := range svc.groups {
		t = t.plus(g.podCounts).minus(g.held)
	}
	for _, r := range svc.rulings {
		if !r.rec.held {
			t = t.plus(r.counts())
		}
	}
	ready, _ = t.endpoints(s.publishes(svc))
	return ready
}

// ReadyEndpoints counts the ready endpoints that this member gives to a replica, as
// Stats does.
func (s *Store) ReadyEndpoints(replica syncer.Key) (ready int) {
	for _, svc := range s.replicas[replica] {
		n, _ := s.endpoints(svc)
		ready += n
	}
	return ready
}

// ReadyFrom counts those that come of one Service.
func (s *Store) ReadyFrom(service syncer.Key) (ready int) {
	if svc := s.service(service); svc != nil && svc.placed {
		ready, _ = s.endpoints(svc)
	}
	return ready
}

// ReadyAs counts those that a Service would have by another version, but for rules. It looks
// at every label set of the namespace.
func (s *Store) ReadyAs(v *syncer.Service) (ready int) {
	ns := s.namespaces[v.Namespace]
	if ns == nil || v.Selector == nil {
		return 0
	}
	var t podCounts
	for _, g := range ns.groups {
		for ; g != nil; g = g.next {
			if selects(v.Selector, g.labels) && (len(g.keptFor) == 0 || slices.Contains(g.keptFor, v.Key)) {
				t = t.plus(g.podCounts)
			}
		}
	}
	ready, _ = t.endpoints(s.publishesAs(v))
	return ready
}

// SeenFrom counts those of them that are left without what is held of what gives them.
func (s *Store) SeenFrom(service syncer.Key) int {
	if svc := s.service(service); svc != nil && svc.placed {
		return s.unheld(svc)
	}
	return 0
}

// SeenEndpoints counts those of them that are left without what is held against lists: of
// Services, or of what gives their endpoints. The one says nothing about the other.
func (s *Store) SeenEndpoints(replica syncer.Key, ofServices bool) (seen int) {
	for _, svc := range s.replicas[replica] {
		switch {
		case !ofServices:
			seen += s.unheld(svc)
		case !svc.held:
			n, _ := s.endpoints(svc)
			seen += n
		}
	}
	return seen
}

// Candidates are the pods that count as ready endpoints of a Service. An endpoint is one if
// its address is taken and its ports resolve; held are those that lists lack, and where that
// counts all of a Service that they lack.
func (s *Store) Candidates(service syncer.Key, ofServices bool) iter.Seq2[bool, bool] {
	return func(yield func(held, isEndpoint bool) bool) {
		svc := s.service(service)
		if svc == nil || !svc.computed() {
			return
		}
		for g := range svc.groups {
			for _, rec := range g.pods {
				p := svc.as(rec)
				if !s.servesAs(svc, p) {
					continue
				}
				c := syncer.Compute(svc.effective, func(yield func(*syncer.Pod) bool) { yield(p) }, s.options)
				if !yield(rec.held || ofServices && svc.held, len(c.Endpoints) > 0 && c.Endpoints[0].Ready) {
					return
				}
			}
		}
	}
}

// Source is what a Service of this member has, whichever replica it is placed in.
type Source struct {
	// Placed is false for a Service that is not replicated; of such a one nothing else
	// is known.
	Placed bool
	// Ready counts its ready endpoints, as Stats does, without what is held. Known is
	// false while hand-written ones have not been read. Manual is true for a Service
	// without selector.
	Ready         int
	Known, Manual bool
}

// Source looks a Service up; found is false if there is none.
func (s *Store) Source(key syncer.Key) (src Source, found bool) {
	svc := s.service(key)
	if svc == nil || !svc.placed {
		return Source{}, svc != nil
	}
	src = Source{Placed: true, Manual: svc.needsManual(), Known: !svc.needsManual() || s.manual[key].known()}
	if !svc.held {
		src.Ready = s.unheld(svc)
	}
	return src, true
}

// Serving counts the ready pods of which Serves is true, but for some namespaces. It looks at
// every label set.
func (s *Store) Serving(but ...string) (ready int) {
	for name, ns := range s.namespaces {
		if slices.Contains(but, name) {
			continue
		}
		for _, g := range ns.groups {
			for ; g != nil; g = g.next {
				ready += s.servingOf(g)
			}
		}
	}
	return ready
}

func (s *Store) servingOf(g *group) (ready int) {
	plain := func(svc *service) bool { return !s.publishes(svc) }
	ruled := func(svc *service) bool { return len(svc.rulings) > 0 }
	if g.podCounts.ready == 0 || !slices.ContainsFunc(g.services, plain) {
		return 0
	}
	if !slices.ContainsFunc(g.services, ruled) {
		return int(g.podCounts.ready)
	}
	for _, rec := range g.pods {
		if IsReady(&rec.Pod) && s.Serves(&rec.Pod) {
			ready++
		}
	}
	return ready
}

// Serves reports whether a placed Service selects a pod, which need not be held, and
// cares whether it is ready: no rule of the configuration says so instead.
func (s *Store) Serves(p *syncer.Pod) bool {
	for _, svc := range s.selecting(p) {
		if r := svc.rulings[p.Name]; !s.publishes(svc) && (r == nil || r.applied.Then == Upstream) {
			return true
		}
	}
	return false
}

// selecting returns the indexed Services that select a pod, which need not be held.
func (s *Store) selecting(p *syncer.Pod) []*service {
	ns := s.namespaces[p.Namespace]
	if ns == nil {
		return nil
	}
	if rec := ns.pods[p.Name]; rec != nil && syncer.EqualLabels(rec.Labels, p.Labels) {
		return rec.group.services
	}
	if g := ns.find(HashLabels(s.seed, p.Labels), p.Labels, nil); g != nil {
		return g.services
	}
	return ns.matching(p.Labels)
}

// ReplicasFor returns the replicas of the Services that select a pod, which need not
// be held, sorted.
func (s *Store) ReplicasFor(p *syncer.Pod) []syncer.Key {
	var keys []syncer.Key
	for _, svc := range s.selecting(p) {
		keys = append(keys, svc.replica)
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	return slices.Compact(keys)
}

// IsReady reports whether a pod is a ready endpoint of the Services that select it.
func IsReady(p *syncer.Pod) bool {
	return p != nil && !p.Terminal && !p.Terminating() && p.Ready && hasAddress(p)
}

// HasAddress reports whether one of a pod's addresses is addr.
func HasAddress(p *syncer.Pod, addr netip.Addr) bool {
	return slices.ContainsFunc(p.IPs, func(ip syncer.PodIP) bool { return ip.Addr == addr })
}
