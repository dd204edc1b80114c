// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// podSeen takes in a pod that a watch shows.
func (s *State) podSeen(now time.Time, e Seen[syncer.Pod], out *Effects) {
	s.reach.contact = now
	p := &e.Object
	if s.store.PodOutdated(e.Versioned) {
		s.store.UpsertPod(e.Versioned) // which counts it
		return
	}
	if pods, _ := s.store.Size(); s.store.Pod(p.Key) == nil && s.full(Pods, pods) {
		s.meetStanding(now, p, out)
		s.reclaim(now, p, out)
		return
	}
	before := s.readiness.keeps(p.Key)
	dirty, others := s.takePod(now, e.Versioned)
	if len(dirty) > 0 {
		s.announce(out, Change{Cause: podCause(p, e.RV, e.name()), Dirty: dirty})
	}
	if kept := s.readiness.keeps(p.Key); kept != "" && before == "" {
		cause := podCause(p, e.RV, e.name())
		cause.Kept = kept
		s.announce(out, Change{Cause: cause, Dirty: keptDirty(s.store.ReplicasOf(p.Key))})
	}
	if len(others) > 0 {
		s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "panic"}, Dirty: merged(others)})
	}
	s.reappeared(object{Pods, p.Key})
	s.meetStanding(now, p, out)
	s.reclaim(now, p, out)
	s.rejudge(now, dirty, out)
}

func (e Seen[T]) name() string {
	if e.Created {
		return "added"
	}
	return "modified"
}

// takePod makes what a member shows of a pod the truth, as far as panic and silent
// nodes let it. others are dirty because more than this pod is taken anew.
func (s *State) takePod(now time.Time, v podVersion) (dirty, others []store.Dirty) {
	key := v.Object.Key
	before := s.takenBefore(&v.Object)
	serves := s.serves(&v.Object)
	if s.readiness.note(now, s.cfg.Limits, before, v, serves) {
		if s.readiness.mass(now, s.cfg.Limits, func() world { return s.world(s.readyPods() - 1) }) {
			for _, restore := range s.readiness.enter(now) {
				if restore.Object.Key != key {
					others = append(others, s.retake(now, &restore.Object)...)
				}
			}
		}
	}
	return s.store.SetPod(s.readiness.view(v)), others
}

// takenBefore is a pod as it was taken: what the table has, or, of one that it has not
// yet, what stands of it.
func (s *State) takenBefore(p *syncer.Pod) *syncer.Pod {
	if held := s.store.Pod(p.Key); held != nil {
		return held
	}
	return s.standing.pod(p)
}

// serves reports whether a pod is behind a Service that is replicated.
func (s *State) serves(p *syncer.Pod) bool {
	return s.store.Serves(p) || s.standing.pod(p) != nil
}

// readyPods counts the pods that are ready in truth, and serve.
func (s *State) readyPods() int { return max(0, s.store.Serving()-s.readiness.keptServing) }

// world is what a panic is judged by, outside of a list.
func (s *State) world(ready int) world {
	return world{ready: ready, replicasOf: s.replicasOf, readyIn: func(replica syncer.Key) int {
		n, _, _ := s.store.ReadyEndpoints(replica)
		return n
	}}
}

// replicasOf returns the replicas that a pod is, or was, an endpoint of.
func (s *State) replicasOf(p *syncer.Pod) []syncer.Key {
	if replicas := s.store.ReplicasFor(p); len(replicas) > 0 {
		return replicas
	}
	return s.standing.replicasOf(p.Key)
}

// retake takes another reading of a pod that is held.
func (s *State) retake(_ time.Time, p *syncer.Pod) []store.Dirty { return s.store.ReplacePod(p) }

// podGone takes in the deletion of a pod, which nothing holds back.
func (s *State) podGone(now time.Time, e Gone[syncer.Pod], out *Effects) {
	s.reach.contact = now
	if s.store.PodOutdated(e.Versioned) {
		s.store.DeletePod(e.Versioned)
		return
	}
	cause := podCause(&e.Object, e.RV, "deleted")
	cause.State = "gone"
	dirty := s.store.DeletePod(e.Versioned)
	s.readiness.gone(e.Object.Key)
	s.announce(out, Change{Cause: cause, Dirty: dirty})
	s.reappeared(object{Pods, e.Object.Key})
	s.standingGone(e.Object.Key, cause, out)
}

func podCause(p *syncer.Pod, rv uint64, event string) Cause {
	c := Cause{Kind: "Pod", Event: event, Key: p.Key, UID: p.UID, Revision: rv, IP: firstIP(p), Live: true}
	switch {
	case p.Terminating():
		c.State = "terminating"
	case p.Ready:
		c.State = "ready"
	default:
		c.State = "not ready"
	}
	return c
}

func firstIP(p *syncer.Pod) string {
	if len(p.IPs) == 0 || !p.IPs[0].Addr.IsValid() {
		return ""
	}
	return p.IPs[0].Addr.String()
}

// reclaim gives a live pod the addresses that it shows: what is absent and had one of
// them is dead, and so is what stands there of another pod. Pods of the host network
// share the address of their node.
func (s *State) reclaim(now time.Time, p *syncer.Pod, out *Effects) {
	if p.Terminal || len(s.addresses) == 0 && len(s.standing.byAddr) == 0 {
		return
	}
	for i := range p.IPs {
		addr := p.IPs[i].Addr
		for _, a := range slices.Clone(s.addresses[addr]) {
			if held := s.store.Pod(a.id.Key); a.id.Key != p.Key && held != nil && !(held.HostNetwork && p.HostNetwork) {
				s.settle(now, a, "reused", out)
			}
		}
		s.standingReused(addr, p, out)
	}
}

// serviceSeen takes in a Service that a watch shows.
func (s *State) serviceSeen(now time.Time, e Seen[syncer.Service], out *Effects) {
	s.reach.contact = now
	key := e.Object.Key
	if _, services := s.store.Size(); s.store.Service(key) == nil && s.full(Services, services) {
		return
	}
	dirty := s.store.UpsertService(e.Versioned)
	s.announce(out, Change{Cause: objectCause("Service", key, e.Object.UID, e.RV, e.name()), Dirty: dirty})
	s.reappeared(object{Services, key})
	s.serviceShown(now, key, out)
	s.rejudge(now, dirty, out)
}

// serviceGone takes in the deletion of a Service.
func (s *State) serviceGone(now time.Time, e Gone[syncer.Service], out *Effects) {
	s.reach.contact = now
	key := e.Object.Key
	cause := objectCause("Service", key, e.Object.UID, e.RV, "deleted")
	known := s.store.Service(key) != nil
	s.announce(out, Change{Cause: cause, Dirty: s.store.DeleteService(e.Versioned)})
	if s.store.Service(key) == nil {
		s.reappeared(object{Services, key})
		if !known || s.standing.waits(key) {
			s.standingSourceGone(key, cause, out)
		}
	}
}

func objectCause(kind string, key syncer.Key, uid string, rv uint64, event string) Cause {
	return Cause{Kind: kind, Event: event, Key: key, UID: uid, Revision: rv, Live: true}
}

// manualEvent takes in an event of hand-written endpoints.
func (s *State) manualEvent(now time.Time, e Event, out *Effects) {
	s.reach.contact = now
	var dirty []store.Dirty
	var cause Cause
	switch e := e.(type) {
	case Seen[store.Endpoints]:
		cause = objectCause("Endpoints", e.Object.Key, "", e.RV, e.name())
		dirty = s.whereManual(e.Object.Key, func() []store.Dirty { return s.store.UpsertEndpoints(e.Versioned) })
		s.reappeared(object{Endpoints, e.Object.Key})
	case Gone[store.Endpoints]:
		cause = objectCause("Endpoints", e.Object.Key, "", e.RV, "deleted")
		dirty = s.whereManual(e.Object.Key, func() []store.Dirty { return s.store.DeleteEndpoints(e.Versioned) })
		s.reappeared(object{Endpoints, e.Object.Key})
	case Seen[store.Slice]:
		cause = objectCause("EndpointSlice", e.Object.Key, "", e.RV, e.name())
		dirty = s.store.UpsertSlice(e.Versioned)
		s.reappeared(object{Slices, e.Object.Key})
	case Gone[store.Slice]:
		cause = objectCause("EndpointSlice", e.Object.Key, "", e.RV, "deleted")
		dirty = s.store.DeleteSlice(e.Versioned)
		s.reappeared(object{Slices, e.Object.Key})
	}
	s.announce(out, Change{Cause: cause, Dirty: dirty})
	s.standingManual(now, dirty, out)
	s.rejudge(now, dirty, out)
}

// whereManual leaves out Endpoints that a controller derived from a selector.
func (s *State) whereManual(service syncer.Key, change func() []store.Dirty) []store.Dirty {
	if !s.store.IsManual(service) {
		return nil
	}
	return change()
}

// unfollowed forgets the hand-written endpoints of a Service.
func (s *State) unfollowed(now time.Time, service syncer.Key, out *Effects) {
	for id, a := range s.absent {
		if (id.Kind == Endpoints || id.Kind == Slices) && a.service == service {
			s.forget(a)
		}
	}
	s.announce(out, Change{Cause: Cause{Kind: "Endpoints", Event: "relist"}, Dirty: s.store.ForgetManual(service), Bulk: true})
	s.standingManual(now, nil, out)
}

// nodeSeen takes in the zone of a node, for which nobody waits.
func (s *State) nodeSeen(now time.Time, e Seen[store.Node], out *Effects) {
	s.reach.contact = now
	cause := objectCause("Node", syncer.Key{Name: e.Object.Name}, "", e.RV, e.name())
	cause.Live = false
	s.announce(out, Change{Cause: cause, Dirty: s.store.SetNode(e.Object), Bulk: true})
}

// nodesListed takes in a list of nodes.
func (s *State) nodesListed(now time.Time, e Listed[store.Node], out *Effects) {
	s.reach.contact = now
	s.announce(out, Change{Cause: Cause{Kind: "Node", Event: "relist"}, Dirty: s.store.ReplaceNodes(e.Items), Bulk: true})
	s.fill(now, Nodes, out)
}

// full reports whether there is no room for one more. What the member adds from
// then on is not seen; what it removes and changes is.
func (s *State) full(kind Kind, objects int) bool {
	if s.cfg.MaxObjects == 0 || objects < s.cfg.MaxObjects {
		return false
	}
	s.crowded[kind] = true
	return true
}

// crowdedRetry is the time between two lists of a kind that has room again, but little.
const crowdedRetry = time.Minute

// makeRoom asks for a list of a kind of which objects were left out, once there is
// room.
func (s *State) makeRoom(now time.Time) {
	pods, services := s.store.Size()
	most := s.cfg.MaxObjects
	for kind, objects := range map[Kind]int{Pods: pods, Services: services} {
		if !s.crowded[kind] || most > 0 && objects >= most {
			continue
		}
		if most == 0 || objects <= most-most/10 || now.Sub(s.crowdedAt[kind]) >= crowdedRetry {
			s.crowded[kind], s.crowdedAt[kind] = false, now
			s.dueBy(kind, now)
		}
	}
}

// keptDirty are replicas that are looked at for the record alone.
func keptDirty(replicas []syncer.Key) []store.Dirty {
	dirty := make([]store.Dirty, len(replicas))
	for i, replica := range replicas {
		dirty[i] = store.Dirty{Replica: replica, Effect: syncer.Addition}
	}
	return dirty
}

// addressesOf are the valid addresses of a pod.
func addressesOf(p *syncer.Pod) (addrs []netip.Addr) {
	for i := range p.IPs {
		if p.IPs[i].Addr.IsValid() {
			addrs = append(addrs, p.IPs[i].Addr)
		}
	}
	return addrs
}
