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

// absence is an object that the lists of its kind lack and that is kept. Its replicas are
// those that it matters to; once it was judged those that it is kept for, and no others have
// it. held is zero of one that no list brought up.
type absence struct {
	lost
	// since is when the first list lacked it, of those in a row, zero: only lists in doubt
	// did; reported once a record says so.
	since    time.Time
	reported bool
	// state is how far it was asked for.
	state askState
	// past is true where the store went back in time: what it says of this object is
	// about another past.
	past     bool
	asked    time.Time // when, or when it is to be asked again
	rv       uint64    // of one that a list took, when it did
	failures int
	// baseline are endpoints that stand of it from before this process, of an object
	// that this process has not seen.
	baseline []*baselineEndpoint
}

// askState is how far an absent object was asked for.
type askState uint8

const (
	notAsked askState = iota
	asking
	askFailed
	isThere
	mayNotAsk
)

// lacks notes that a list lacks an object. Of a list in doubt that matters only to who
// has the object's addresses by now.
func (s *State) lacks(now time.Time, l lost, doubted bool) {
	a := s.absent[l.id]
	if a == nil {
		a = &absence{lost: lost{id: l.id, uid: l.uid}, past: s.lost(l.id.Kind, l.id.Key.Namespace)}
		s.absent[l.id] = a
	}
	if s.refile(a, l); l.held != 0 { // else a list from the past has effaced it
		a.held = l.held
	}
	if doubted {
		return
	}
	if a.since.IsZero() {
		a.since = now
	}
	if a.state == isThere || a.state == askFailed {
		a.state = notAsked // this list says again what was denied
	}
}

// refile files an absence by what its object is by now: its addresses, and the replicas
// that it matters to.
func (s *State) refile(a *absence, l lost) {
	s.address(a, l.addrs)
	replicas := slices.Clone(l.replicas)
	for _, e := range a.baseline {
		if !slices.Contains(replicas, e.in.key) {
			replicas = append(replicas, e.in.key)
		}
	}
	for _, former := range a.replicas {
		if !slices.Contains(replicas, former) {
			s.unhold(former, a.id)
		}
	}
	a.service, a.replicas = l.service, replicas
}

// address files an absence under the addresses that its object has.
func (s *State) address(a *absence, addrs []netip.Addr) {
	for _, addr := range a.addrs {
		takeFrom(s.addresses, addr, a)
	}
	a.addrs = addrs
	for _, addr := range addrs {
		s.addresses[addr] = append(s.addresses[addr], a)
	}
}

// takeFrom takes one of those that are filed under a key.
func takeFrom[K, V comparable](file map[K][]V, key K, one V) {
	if file[key] = without(file[key], one); len(file[key]) == 0 {
		delete(file, key)
	}
}

func without[V comparable](all []V, one V) []V {
	return slices.DeleteFunc(all, func(other V) bool { return other == one })
}

// reappeared ends an absence: the object is shown, or was seen to go.
func (s *State) reappeared(id object) {
	if a := s.absent[id]; a != nil {
		s.forget(a)
	}
}

// forget takes an absence off the books.
func (s *State) forget(a *absence) {
	delete(s.absent, a.id)
	s.address(a, nil)
	for _, replica := range a.replicas {
		s.unhold(replica, a.id)
	}
	for _, e := range a.baseline {
		e.waits = without(e.waits, a)
	}
	if q := s.inquiries[a.id.Kind]; q != nil && q.waiting[a.id] {
		delete(q.waiting, a.id)
		q.spoiled = true
	}
}

// unhold ends the keeping of an object for a replica.
func (s *State) unhold(replica syncer.Key, id object) {
	h := s.holds[replica]
	if h == nil {
		return
	}
	if p := h.part(id.Kind); p.objects[id] {
		if delete(p.objects, id); len(p.objects) == 0 {
			*p = heldPart{}
		}
	}
	if !slices.ContainsFunc(h.parts[:], func(p heldPart) bool { return len(p.objects) > 0 }) {
		delete(s.holds, replica)
	}
}

// lacking are the absent objects of a kind that its lists speak of, sorted.
func (s *State) lacking(kind Kind) []*absence {
	var all []*absence
	for id, a := range s.absent {
		if id.Kind == kind && !a.since.IsZero() && !s.isLeftOut(kind, id.Key.Namespace) {
			all = append(all, a)
		}
	}
	return sortAbsences(all)
}

func sortAbsences(all []*absence) []*absence {
	slices.SortFunc(all, func(a, b *absence) int { return a.id.compare(b.id) })
	return all
}

// markHeld has the table count an object as one that lists lack.
func (s *State) markHeld(a *absence) {
	if a.state == isThere {
		return
	}
	switch a.id.Kind {
	case Manual:
	case Pods:
		s.store.HoldPod(a.id.Key)
	case Services:
		s.store.HoldService(a.id.Key)
	default:
		s.store.HoldManual(a.manual())
	}
}

func (a *absence) manual() store.ManualObject {
	if a.id.Kind == Endpoints {
		return store.ManualObject{Service: a.id.Key}
	}
	return store.ManualObject{Service: a.service, Slice: a.id.Key.Name}
}

// hold keeps what a replica would lose.
func (s *State) hold(now time.Time, l loss, lacking []*absence) {
	h := s.holds[l.replica]
	if h == nil {
		h = &hold{since: now}
		s.holds[l.replica] = h
	}
	for _, a := range lacking {
		p := h.part(a.id.Kind)
		if p.objects == nil {
			p.objects = map[object]bool{}
		}
		p.before, p.objects[a.id] = max(p.before, l.before), true
	}
}

// moved takes in that Services of a replica, or with nil of all, may be placed elsewhere: what
// is kept moves with them.
func (s *State) moved(from *syncer.Key) {
	for _, l := range s.lists {
		if l != nil {
			l.recount(s)
		}
	}
	for id, a := range s.absent {
		if from != nil && len(a.replicas) > 0 && !slices.Contains(a.replicas, *from) {
			continue
		}
		l := a.lost
		switch a.id.Kind {
		case Pods:
			l.replicas = s.store.ReplicasOf(a.id.Key)
		case Services:
			l.replicas = s.replicaOf(a.id.Key)
		default:
			l.replicas = s.replicaOf(a.service)
		}
		var since time.Time
		former := slices.Clone(a.replicas)
		for _, replica := range former {
			if h := s.holds[replica]; h != nil && h.part(id.Kind).objects[id] && (since.IsZero() || h.since.Before(since)) {
				since = h.since
			}
		}
		s.refile(a, l)
		for _, replica := range a.replicas {
			if !since.IsZero() && !slices.Contains(former, replica) {
				s.hold(since, loss{replica: replica, before: s.store.ReadyEndpoints(replica)}, []*absence{a})
			}
		}
	}
}

// byReplica sorts absences by the replicas that they matter to.
func byReplica(lacking []*absence) map[syncer.Key][]*absence {
	by := map[syncer.Key][]*absence{}
	for _, a := range lacking {
		for _, replica := range a.replicas {
			by[replica] = append(by[replica], a)
		}
	}
	return by
}

// keepFor keeps an absent object for some of its replicas. The others go on without it.
func (s *State) keepFor(a *absence, replicas []syncer.Key) (dirty []store.Dirty) {
	for _, replica := range a.replicas {
		if !slices.Contains(replicas, replica) {
			s.unhold(replica, a.id)
		}
	}
	a.replicas = replicas
	if a.id.Kind == Pods {
		rv, _ := s.has(a)
		if dirty = s.store.KeepPod(a.id.Key, replicas); s.store.Pod(a.id.Key) == nil {
			s.noteRemoved(a.id, rv+1)
		}
	}
	for _, e := range slices.Clone(a.baseline) {
		if !slices.Contains(replicas, e.in.key) {
			dirty = append(dirty, s.dropBaseline(e)...)
		}
	}
	return dirty
}

// havers are the replicas that have anything of an absent object: of a pod those whose Services
// select it by now.
func (s *State) havers(a *absence) []syncer.Key {
	if a.id.Kind != Pods {
		return slices.Clone(a.replicas)
	}
	replicas := s.store.ReplicasOf(a.id.Key)
	for _, e := range a.baseline {
		if !slices.Contains(replicas, e.in.key) {
			replicas = append(replicas, e.in.key)
		}
	}
	return replicas
}

// settle removes an absent object: it is gone.
func (s *State) settle(now time.Time, a *absence, event string, out *Effects) {
	s.settleAll(now, []*absence{a}, event, out)
}

// settleAll removes absent objects.
func (s *State) settleAll(now time.Time, gone []*absence, event string, out *Effects) {
	s.settleBut(now, gone, func(syncer.Key) bool { return false }, event, out)
}

// settleBut removes absent objects but from the replicas that need them. Its removals wait
// for nothing.
func (s *State) settleBut(now time.Time, lacking []*absence, needs func(replica syncer.Key) bool, event string, out *Effects) {
	var gone []*absence
	var dirty []store.Dirty
	for _, a := range lacking {
		if s.absent[a.id] != a {
			continue
		}
		if left := slices.DeleteFunc(s.havers(a), func(r syncer.Key) bool { return !needs(r) }); len(left) > 0 {
			if parted := s.keepFor(a, left); len(parted) > 0 {
				gone, dirty = append(gone, a), append(dirty, parted...)
			}
			continue
		}
		gone = append(gone, a)
		var open *absence
		if (event == "replaced" || event == "released") && s.asked(a) {
			open = s.withoutObject(a)
		}
		s.forget(a)
		rv, _ := s.has(a)
		s.noteRemoved(a.id, rv+1)
		dirty = append(dirty, s.takeOut(now, a, event, out)...)
		dirty = append(dirty, s.settleBaseline(a)...)
		if open != nil {
			s.await(now, open)
		}
	}
	if s.synced && slices.ContainsFunc(gone, func(a *absence) bool { return a.id.Kind == Services }) {
		defer s.judgeBaseline(now, out) // what stood of them waits for nothing any more
	}
	if len(dirty) == 0 {
		return
	}
	cause := Cause{Kind: kindName(gone[0].id.Kind), Event: event}
	if event == "released" {
		cause.Kind = "Cluster"
	} else if len(gone) == 1 {
		cause.Key, cause.UID = gone[0].id.Key, gone[0].uid
	}
	out.Changes = append(out.Changes, Change{Cause: cause, Dirty: merged(dirty)})
}

// takeOut removes the object of an absence from its table, with what stands of it.
func (s *State) takeOut(now time.Time, a *absence, event string, out *Effects) (dirty []store.Dirty) {
	known := event == "asked" || event == "released"
	switch a.id.Kind {
	case Pods:
		if event == "asked" && s.removed[a.id].uid != a.uid { // a sample said so
			s.departures.noteDeleted(a.uid)
		}
		dirty = s.store.RemovePod(a.id.Key)
		if known || !s.baseline.stands(a.id.Key, a.uid) {
			s.readiness.gone(a.id.Key)
		}
		for _, e := range slices.Clone(s.baseline.byPod[a.id.Key]) {
			if known && e.endpoint.Target.UID == a.uid {
				dirty = append(dirty, s.dropBaseline(e)...)
			}
		}
	case Services:
		dirty = s.store.RemoveService(a.id.Key)
		if event == "asked" {
			s.departures.note(now, Departed{Key: a.id.Key})
		}
		if known {
			s.baselineSourceGone(a.id.Key, Cause{Kind: "Service", Event: event, Key: a.id.Key}, out)
		} else {
			s.baseline.doubtSource(a.id.Key)
		}
	case Endpoints, Slices:
		dirty = s.store.RemoveManual(a.manual())
	}
	return dirty
}

func kindName(k Kind) string {
	return [...]string{"Service", "Pod", "Node", "Endpoints", "EndpointSlice", "Endpoints"}[k]
}

// reportKept puts on record, once, what is kept.
func (s *State) reportKept(kind Kind, out *Effects) {
	for _, a := range s.lacking(kind) {
		if a.reported {
			continue
		}
		a.reported = true
		cause := Cause{Kind: kindName(kind), Event: "missing", Key: a.id.Key, UID: a.uid, Kept: HoldList}
		if len(a.addrs) > 0 {
			cause.IP = a.addrs[0].String()
		}
		if len(a.baseline) > 0 {
			cause.Kept = HoldStart
		}
		s.announce(out, Change{Cause: cause, Dirty: keptDirty(a.replicas), Bulk: true})
	}
}
