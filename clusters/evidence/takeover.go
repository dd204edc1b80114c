// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// takeOver ends what is kept here and does not stand: it was released where the process
// that wrote until now kept it, and must not come back.
func (s *State) takeOver(now time.Time, e Leading, out *Effects) {
	for _, replica := range slices.SortedFunc(maps.Keys(s.holds), syncer.Key.Compare) {
		var gone []*absence
		if h := s.holds[replica]; h != nil {
			for id := range h.objects() {
				if a := s.absent[id]; a != nil && !s.standsOf(a, replica, e) {
					gone = append(gone, a)
					s.dueBy(id.Kind, now) // what lives is seen
				}
			}
		}
		s.settleBut(now, sortAbsences(gone), func(other syncer.Key) bool { return other != replica }, "released", out)
	}
	cause := Cause{Kind: "Cluster", Event: "released"}
	var drop []*baselineEndpoint
	for replica, r := range s.baseline.replicas {
		for _, x := range r.open() {
			if e.tells(replica) && e.find(replica, x.endpoint.Target.UID, x.endpoint.Addr) == nil {
				drop = append(drop, x)
			}
		}
	}
	s.dropAll(drop, cause, out)
	s.takeOverKept(e, cause, out)
	s.takeOverWaits(&e, cause, out)
	s.takeOverRules(now, &e, out)
}

// tells reports whether what stands in a replica says anything of the member: one that others
// serve, and it does not, may be theirs for now.
func (e *Leading) tells(replica syncer.Key) bool {
	stands, written := e.Replicas[replica]
	return written && (len(stands.Endpoints) > 0 || !e.Served[replica])
}

// find is what stands of an address in a replica; nil if nothing does.
func (e *Leading) find(replica syncer.Key, uid string, addrs ...netip.Addr) *syncer.Endpoint {
	all := e.Replicas[replica].Endpoints
	i := slices.IndexFunc(all, func(x syncer.Endpoint) bool {
		return (uid == "" || x.Target.UID == "" || x.Target.UID == uid) && slices.Contains(addrs, x.Addr)
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// readyAddresses are those that stand ready. Pods of one host share theirs.
type readyAddresses map[podAddress]bool

// ready are those of a replica.
func (e *Leading) ready(replica syncer.Key) readyAddresses {
	all := readyAddresses{}
	for _, x := range e.Replicas[replica].Endpoints {
		if x.Ready {
			all[podAddress{x.Addr, x.Target.UID}] = true
		}
	}
	return all
}

// has reports whether a pod stands ready.
func (r readyAddresses) has(p *syncer.Pod) bool {
	return slices.ContainsFunc(addressesOf(p), func(a netip.Addr) bool { return r[podAddress{a, p.UID}] || r[podAddress{a, ""}] })
}

// takeOverWaits lets return what waits here to be stable and stands ready: the process that
// wrote until now has let it, or saw no turn of it.
func (s *State) takeOverWaits(e *Leading, cause Cause, out *Effects) {
	var dirty []store.Dirty
	for _, service := range slices.SortedFunc(maps.Keys(s.damping.waiting), syncer.Key.Compare) {
		src := s.damping.sources[service]
		replica, _ := s.store.Placed(service)
		stands, waits := e.ready(replica), src.waiting
		for name, d := range src.pods {
			if p := s.store.Pod(syncer.Key{Namespace: service.Namespace, Name: name}); d.waits() && p != nil && p.UID == d.uid && stands.has(p) {
				src.forget(name)
			}
		}
		if s.damping.sort(src); src.waiting < waits {
			dirty = append(dirty, store.Dirty{Replica: replica, Source: service, Effect: syncer.Addition})
		}
	}
	s.announce(out, Change{Cause: cause, Dirty: dirty, Bulk: true})
}

// standsOf reports whether anything stands in a replica of an object that is kept for it, as
// far as one can tell.
func (s *State) standsOf(a *absence, replica syncer.Key, e Leading) bool {
	stands, written := e.Replicas[replica]
	switch a.id.Kind {
	case Pods:
		return !e.tells(replica) || e.find(replica, a.uid, a.addrs...) != nil
	case Services: // without one the replica may be none
		given := func(x *baselineEndpoint) bool { return e.find(replica, x.endpoint.Target.UID, x.endpoint.Addr) != nil }
		return s.store.ReadyEndpoints(replica) == 0 || slices.ContainsFunc(a.baseline, given) || slices.Contains(stands.Sources, a.id.Key) || len(e.Replicas) == 0 ||
			written && !e.tells(replica)
	case Manual:
		return !e.tells(replica) || slices.ContainsFunc(a.baseline, func(x *baselineEndpoint) bool { return e.find(replica, "", x.endpoint.Addr) != nil })
	default:
		return !e.tells(replica) || slices.ContainsFunc(stands.Endpoints, s.store.ServesManual(a.service))
	}
}

// takeOverKept does so for pods that are kept ready. Those of a silent node never stood not
// ready unless they were released, those of a panic may have before it was noticed: it was
// released where none of them stands ready.
func (s *State) takeOverKept(e Leading, cause Cause, out *Effects) {
	if s.view.Stale { // then nothing stands ready
		return
	}
	silent := map[syncer.Key]bool{}
	ready, notReady := 0, 0
	for key, d := range s.readiness.down {
		if !d.kept() {
			continue
		}
		p := &d.reported.Object
		here, fallen := 0, 0
		for _, replica := range s.store.ReplicasFor(p) {
			if x := e.find(replica, p.UID, addressesOf(p)...); x != nil && x.Ready {
				here++
			} else if x != nil {
				fallen++
			}
		}
		switch {
		case d.panic:
			ready, notReady = ready+here, notReady+fallen
		case here == 0 && fallen > 0:
			silent[key] = true
		}
	}
	match := func(pod syncer.Key) bool { return silent[pod] }
	if ready == 0 && notReady > 0 {
		match = nil
	}
	s.announce(out, Change{Cause: cause, Dirty: s.overrideAll(s.readiness.release(match), out)})
}
