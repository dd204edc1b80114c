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

// Departed is what was seen to leave traffic, on hard evidence: a pod, where UID is given, else
// a Service, or an address that was written by hand for it. A pod with its Key is there yet, and
// where a Service publishes it an endpoint; with From or Addr it left that Service, or address.
type Departed struct {
	syncer.Key
	UID  string
	Addr netip.Addr
	From syncer.Key
}

// departures remember what was seen to go, for a state that begins anew: others may have seen
// more of the member, but not that it is there.
type departures struct {
	// deleted are UIDs of pods, the last ones, which never come back; next is the oldest.
	deleted []string
	next    int
	// left are others, and when they went: they may be back.
	left map[Departed]time.Time
}

// mostDeparted is how many are remembered: what nobody has written yet is far less, unless
// nobody writes.
const mostDeparted = 4096

// noteDeleted remembers that a pod went for good.
func (d *departures) noteDeleted(uid string) {
	if len(d.deleted) < mostDeparted {
		d.deleted = append(d.deleted, uid)
		return
	}
	d.deleted[d.next] = uid
	d.next = (d.next + 1) % mostDeparted
}

// note remembers that something left that may come back.
func (d *departures) note(now time.Time, what Departed) {
	if len(d.left) >= mostDeparted {
		maps.DeleteFunc(d.left, func(_ Departed, at time.Time) bool { return now.Sub(at) > time.Minute })
	}
	if d.left == nil {
		d.left = map[Departed]time.Time{}
	}
	if len(d.left) < mostDeparted {
		d.left[what] = now
	}
}

// noteManual remembers which addresses a change takes from those written by hand for a Service.
func (s *State) noteManual(now time.Time, service syncer.Key, change func() []store.Dirty) []store.Dirty {
	before := s.store.ManualAddresses(service)
	dirty := change()
	after := s.store.ManualAddresses(service)
	for addr := range before {
		if !after[addr] {
			s.departures.note(now, Departed{Key: service, Addr: addr})
		}
	}
	return dirty
}

// noteLeft remembers which Services and addresses a pod leaves that is there as it is now.
func (s *State) noteLeft(now time.Time, was *syncer.Pod, from []syncer.Key) {
	is := s.store.Pod(was.Key)
	if is == nil || is.UID != was.UID {
		return
	}
	for _, service := range from {
		if !s.store.Selects(service, was.Key) {
			s.departures.note(now, Departed{Key: was.Key, UID: was.UID, From: service})
		}
	}
	for _, addr := range addressesOf(was) {
		if !store.HasAddress(is, addr) {
			s.departures.note(now, Departed{Key: was.Key, UID: was.UID, Addr: addr})
		}
	}
}

// noteWithdrawn remembers what a Service has taken back that was replicated, or published its
// pods: that itself, or what is not ready of these.
func (s *State) noteWithdrawn(now time.Time, service syncer.Key, replicated, published bool) {
	if _, is := s.store.Placed(service); replicated && !is {
		s.departures.note(now, Departed{Key: service})
	}
	pods, effective := s.store.Selected(service)
	if !published || effective == nil || s.store.Publishes(service) {
		return
	}
	for p := range pods {
		if !store.IsReady(p) {
			s.departures.note(now, Departed{Key: p.Key, UID: p.UID, From: service})
		}
	}
}

// SeenGone are the pods that were seen to go for good, or are going: whatever others have seen
// since, those do not come back. What else left since a moment, and is not back, is among them.
func (s *State) SeenGone(since time.Time) (gone []Departed) {
	for _, uid := range s.departures.deleted {
		gone = append(gone, Departed{UID: uid})
	}
	for _, p := range s.store.Pods() {
		if p.Terminal {
			gone = append(gone, Departed{UID: p.UID})
		} else if p.Terminating() {
			gone = append(gone, Departed{Key: p.Key, UID: p.UID})
		}
	}
	for what, at := range s.departures.left {
		if !at.Before(since) && s.isAway(what) {
			gone = append(gone, what)
		}
	}
	return gone
}

// Lost are the addresses that stand ready, by replica, though what they are of was seen to go and
// is not back: for a member that nobody follows from now on.
func (s *State) Lost(standing map[syncer.Key]Standing) map[syncer.Key][]netip.Addr {
	var stands baseline
	stands.set(Baseline{Replicas: standing})
	for _, e := range stands.departed(s.SeenGone(time.Time{})) {
		e.dropped = true
	}
	lost := map[syncer.Key][]netip.Addr{}
	for key, r := range stands.replicas {
		if gone := r.gone(); len(gone) > 0 {
			lost[key] = gone
		}
	}
	return lost
}

// isAway reports whether something that left has not come back.
func (s *State) isAway(what Departed) bool {
	switch p := s.store.Pod(what.Key); {
	case what.From != syncer.Key{}:
		return !s.store.Selects(what.From, what.Key) || !s.store.Publishes(what.From) && !store.IsReady(s.store.As(what.From, p))
	case what.UID != "" && what.Addr.IsValid():
		return p != nil && p.UID == what.UID && !store.HasAddress(p, what.Addr)
	case what.UID != "":
		return p != nil && p.UID == what.UID && !p.Ready && !slices.ContainsFunc(s.store.Selecting(p), func(service syncer.Key) bool {
			return s.store.Publishes(service) || s.store.As(service, p).Ready
		})
	case what.Addr.IsValid():
		return s.store.IsManual(what.Key) && !s.store.ManualAddresses(what.Key)[what.Addr]
	}
	_, replicated := s.store.Placed(what.Key)
	return !replicated
}

// departed are the endpoints that stand of what went: of a replica of several Services what all
// have lost that may give it.
func (st *baseline) departed(gone []Departed) (all []*baselineEndpoint) {
	is := map[Departed]bool{}
	for _, what := range gone {
		is[what] = true
	}
	for _, r := range st.replicas {
		for _, e := range r.endpoints {
			pod, named := e.pod()
			uid := e.endpoint.Target.UID
			lost := func(source syncer.Key) bool {
				return is[Departed{Key: source}] || !named && is[Departed{Key: source, Addr: e.endpoint.Addr}] ||
					named && is[Departed{Key: pod, UID: uid, From: source}]
			}
			left := named && (is[Departed{UID: uid}] || is[Departed{Key: pod, UID: uid, Addr: e.endpoint.Addr}] || len(r.publishing) == 0 && is[Departed{Key: pod, UID: uid}])
			sources := e.sources()
			if left || len(sources) > 0 && !slices.ContainsFunc(sources, func(source syncer.Key) bool { return !lost(source) }) {
				all = append(all, e)
			}
		}
	}
	return all
}
