// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// replacement is a complete list that is being taken in, in pieces: comparing, looking
// for what it lacks, taking what it shows, judging. Comparing comes first, because a
// panic is to be noticed before a single pod is let go.
type replacement interface {
	kind() Kind
	progress() *listProgress
	// turns are called in order, each until it reports that it is done.
	turns() []func(s *State, now time.Time, out *Effects) (done bool)
}

// listProgress is what replacements have in common.
type listProgress struct {
	turn       int
	at         int      // how far the turn is
	namespaces []string // where to look for what the list lacks
	// before are the ready endpoints by replica when the list came.
	before map[syncer.Key]int
	// doubted is true where the list is not believed: its member went back in time.
	doubted bool
}

// piece is the number of objects that are looked at in one step, so that a list of
// 50,000 delays an event or a computation by about a millisecond.
const piece = 500

// next returns the bounds of the next piece of n objects, and whether it is the last.
func (p *listProgress) next(n int) (from, to int, last bool) {
	from, to = p.at, min(p.at+piece, n)
	p.at = to
	return from, to, to == n
}

// beginList takes in a list, or its first piece.
func (s *State) beginList(now time.Time, r replacement, out *Effects) {
	s.reach.contact = now
	s.lists[r.kind()] = r
	s.continueList(now, r.kind(), out)
}

// continueList takes in another piece.
func (s *State) continueList(now time.Time, kind Kind, out *Effects) {
	r := s.lists[kind]
	if r == nil {
		return
	}
	p := r.progress()
	turns := r.turns()
	if !turns[p.turn](s, now, out) {
		out.More = true
		return
	}
	p.turn++
	p.at = 0
	if out.More = p.turn < len(turns); !out.More {
		s.lists[kind] = nil
	}
}

// takeCounts remembers the ready endpoints of all replicas.
func (s *State) takeCounts() map[syncer.Key]int {
	before := map[syncer.Key]int{}
	for _, replica := range s.store.Replicas() {
		before[replica], _, _ = s.store.ReadyEndpoints(replica)
	}
	return before
}

// announceList tells what a list changed: removals at once, for they may be
// addresses that nobody answers at any more; the rest when there is time.
func (s *State) announceList(out *Effects, c Cause, dirty []store.Dirty) {
	isRemoval := func(d store.Dirty) bool { return d.Effect == syncer.Removal }
	removals := slices.DeleteFunc(slices.Clone(dirty), func(d store.Dirty) bool { return !isRemoval(d) })
	s.announce(out, Change{Cause: c, Dirty: removals})
	s.announce(out, Change{Cause: c, Dirty: slices.DeleteFunc(dirty, isRemoval), Bulk: true})
}

// podList is a list of pods.
type podList struct {
	Listed[syncer.Pod]
	listProgress
	ready   int // listed pods that are ready and serve
	dropped bool
}

func newPodList(s *State, l Listed[syncer.Pod]) *podList {
	s.store.BeginPods(l.Revision, l.Older)
	r := &podList{Listed: l}
	r.before = s.takeCounts()
	r.namespaces = s.store.Namespaces()
	return r
}

func (r *podList) kind() Kind              { return Pods }
func (r *podList) progress() *listProgress { return &r.listProgress }

func (r *podList) turns() []func(*State, time.Time, *Effects) bool {
	return []func(*State, time.Time, *Effects) bool{r.compare, r.lack, r.take, r.end}
}

// compare marks what the list shows, and finds out whether too many pods have turned
// not ready.
func (r *podList) compare(s *State, now time.Time, out *Effects) bool {
	if r.at == 0 {
		r.doubted = s.quarantine.doubts(now, s.cfg.Limits, Pods, r.Older)
	}
	from, to, last := r.next(len(r.Items))
	for i := from; i < to; i++ {
		v := &r.Items[i]
		s.store.MarkPod(v.Object.Key, v.RV, r.Older)
		if r.Older || s.store.PodNewer(v.Object.Key, r.Revision) {
			continue
		}
		before, serves := s.takenBefore(&v.Object), s.serves(&v.Object)
		r.dropped = s.readiness.note(now, s.cfg.Limits, before, *v, serves) || r.dropped
		if serves && store.IsReady(&v.Object) {
			r.ready++
		}
	}
	if last && r.dropped && s.readiness.panicAt.IsZero() && s.readiness.mass(now, s.cfg.Limits, func() world { return r.world(s) }) {
		var others []store.Dirty
		for _, restore := range s.readiness.enter(now) {
			others = append(others, s.retake(now, &restore.Object)...)
		}
		s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "panic"}, Dirty: merged(others)})
	}
	return last
}

// world is what a panic is judged by as the list shows it.
func (r *podList) world(s *State) world {
	var readyIn map[syncer.Key]int
	return world{ready: r.ready, replicasOf: s.replicasOf, readyIn: func(replica syncer.Key) int {
		if readyIn == nil {
			readyIn = map[syncer.Key]int{}
			for i := range r.Items {
				if p := &r.Items[i].Object; store.IsReady(p) {
					for _, in := range s.replicasOf(p) {
						readyIn[in]++
					}
				}
			}
		}
		return readyIn[replica]
	}}
}

// lack notes what the list lacks.
func (r *podList) lack(s *State, now time.Time, _ *Effects) bool {
	if r.doubted {
		s.rewind(Pods, r.namespaces, r.Revision, r.Older)
		return true
	}
	for looked := 0; looked < piece && r.at < len(r.namespaces); r.at++ {
		looked += s.store.LackingPods(r.namespaces[r.at], r.Revision, r.Older, func(p *syncer.Pod, _ uint64) {
			s.lacks(now, object{Pods, p.Key}, p.UID, s.store.ReplicasOf(p.Key), addressesOf(p))
		})
	}
	return r.at == len(r.namespaces)
}

// take takes in what the list shows.
func (r *podList) take(s *State, now time.Time, out *Effects) bool {
	from, to, last := r.next(len(r.Items))
	var dirty []store.Dirty
	for i := from; i < to; i++ {
		v := r.Items[i]
		if !r.Older && s.store.PodNewer(v.Object.Key, r.Revision) {
			continue
		}
		if r.doubted && r.Older {
			continue
		}
		if r.doubted && syncer.PodEffect(s.store.Pod(v.Object.Key), &v.Object) != syncer.Removal {
			shown := s.readiness.view(v) // what it says against itself, or of another's address, counts
			s.meetStanding(now, &shown.Object, out)
			s.reclaim(now, &v.Object, out)
			continue
		}
		dirty = append(dirty, s.store.SetPod(s.readiness.view(v))...)
		s.reappeared(object{Pods, v.Object.Key})
		s.meetStanding(now, &v.Object, out)
		s.reclaim(now, &v.Object, out)
	}
	s.announceList(out, Cause{Kind: "Pod", Event: "relist"}, merged(dirty))
	return last
}

// end judges what the list lacks.
func (r *podList) end(s *State, now time.Time, out *Effects) bool {
	s.listEnded(now, Pods, r.before, r.Older, r.doubted, len(r.Items) == 0, out)
	return true
}

// serviceList is a list of Services.
type serviceList struct {
	Listed[syncer.Service]
	listProgress
}

func newServiceList(s *State, l Listed[syncer.Service]) *serviceList {
	s.store.BeginServices(l.Revision, l.Older)
	r := &serviceList{Listed: l}
	r.before = s.takeCounts()
	r.namespaces = s.store.Namespaces()
	return r
}

func (r *serviceList) kind() Kind              { return Services }
func (r *serviceList) progress() *listProgress { return &r.listProgress }

func (r *serviceList) turns() []func(*State, time.Time, *Effects) bool {
	return []func(*State, time.Time, *Effects) bool{r.compare, r.lack, r.take, r.end}
}

func (r *serviceList) compare(s *State, now time.Time, _ *Effects) bool {
	if r.at == 0 {
		r.doubted = s.quarantine.doubts(now, s.cfg.Limits, Services, r.Older)
	}
	from, to, last := r.next(len(r.Items))
	for i := from; i < to; i++ {
		s.store.MarkService(r.Items[i].Object.Key, r.Items[i].RV, r.Older)
	}
	return last
}

func (r *serviceList) lack(s *State, now time.Time, _ *Effects) bool {
	if r.doubted {
		s.rewind(Services, r.namespaces, r.Revision, r.Older)
		return true
	}
	for looked := 0; looked < piece && r.at < len(r.namespaces); r.at++ {
		looked += s.store.LackingServices(r.namespaces[r.at], r.Revision, r.Older, func(svc *syncer.Service) {
			var replicas []syncer.Key
			if replica, placed := s.store.Placed(svc.Key); placed {
				replicas = []syncer.Key{replica}
			}
			s.lacks(now, object{Services, svc.Key}, svc.UID, replicas, nil)
		})
	}
	return r.at == len(r.namespaces)
}

func (r *serviceList) take(s *State, now time.Time, out *Effects) bool {
	if r.doubted {
		return true
	}
	from, to, last := r.next(len(r.Items))
	var dirty []store.Dirty
	for i := from; i < to; i++ {
		key := r.Items[i].Object.Key
		if s.store.ServiceNewer(key, r.Revision) {
			continue
		}
		dirty = append(dirty, s.store.SetService(r.Items[i])...)
		s.reappeared(object{Services, key})
		s.serviceShown(now, key, out)
	}
	s.announceList(out, Cause{Kind: "Service", Event: "relist"}, merged(dirty))
	return last
}

func (r *serviceList) end(s *State, now time.Time, out *Effects) bool {
	s.listEnded(now, Services, r.before, r.Older, r.doubted, len(r.Items) == 0, out)
	return true
}

// listEnded judges a list that has been taken in.
func (s *State) listEnded(now time.Time, kind Kind, before map[syncer.Key]int, older, doubted, empty bool, out *Effects) {
	s.due[kind] = time.Time{}
	if doubted {
		s.dueBy(kind, s.quarantine.again(kind, s.cfg.Limits))
	} else {
		s.judgeLacking(now, kind, before, empty, out)
	}
	s.listedAt[kind] = now
	if kind == Endpoints || kind == Slices {
		s.judgeLacking(now, manualStanding, before, false, out)
	}
	s.quarantine.listed(kind, doubted)
	if kind == Pods || kind == Services {
		s.fill(now, kind, out)
	}
}

// merged joins what several changes touched: each pair once, with its strongest effect.
func merged(dirty []store.Dirty) []store.Dirty {
	type pair struct{ replica, source syncer.Key }
	at := make(map[pair]int, len(dirty))
	out := dirty[:0]
	for _, d := range dirty {
		p := pair{d.Replica, d.Source}
		if i, known := at[p]; known {
			out[i].Effect = max(out[i].Effect, d.Effect)
			continue
		}
		at[p] = len(out)
		out = append(out, d)
	}
	return out
}

// endpointsListed takes in a list of hand-written Endpoints.
func (s *State) endpointsListed(now time.Time, l Listed[store.Endpoints], out *Effects) {
	m := manualList{kind: Endpoints, services: s.manualOnly(l.Services), rv: l.Revision, older: l.Older}
	for _, v := range l.Items {
		if slices.Contains(m.services, v.Object.Key) {
			m.shown = append(m.shown, store.ManualObject{Service: v.Object.Key})
			m.set = append(m.set, func() []store.Dirty { return s.store.SetEndpoints(v) })
		}
	}
	s.manualListed(now, m, out)
}

// slicesListed takes in a list of slices. One that is listed as another Service's is
// not absent: it has gone over.
func (s *State) slicesListed(now time.Time, l Listed[store.Slice], out *Effects) {
	m := manualList{kind: Slices, services: s.manualOnly(l.Services), rv: l.Revision, older: l.Older}
	for _, v := range l.Items {
		m.shown = append(m.shown, store.ManualObject{Service: v.Object.ServiceKey(), Slice: v.Object.Name})
		m.set = append(m.set, func() []store.Dirty { return s.store.SetSlice(v) })
	}
	s.manualListed(now, m, out)
}

func (s *State) manualOnly(services []syncer.Key) (manual []syncer.Key) {
	for _, key := range services {
		if s.store.IsManual(key) {
			manual = append(manual, key)
		}
	}
	return manual
}

// manualList is a list of hand-written endpoints.
type manualList struct {
	kind     Kind
	services []syncer.Key
	rv       uint64
	older    bool
	shown    []store.ManualObject
	set      []func() []store.Dirty // for each shown
}

// manualListed takes in such a list. There are few of them, so it is one piece.
func (s *State) manualListed(now time.Time, m manualList, out *Effects) {
	s.reach.contact = now
	ofSlices := m.kind == Slices
	before := s.takeCounts()
	doubted := s.quarantine.doubts(now, s.cfg.Limits, m.kind, m.older)
	s.store.BeginManual(ofSlices, m.services, m.rv, m.older)
	var dirty []store.Dirty
	for i, o := range m.shown {
		s.store.MarkManual(o, m.rv, m.older)
		if !doubted {
			dirty = append(dirty, m.set[i]()...)
			s.reappeared(manualObject(o))
		}
	}
	lacking := s.store.LackingManual(ofSlices, m.services, m.rv, m.older)
	var first []syncer.Key
	if !doubted {
		for _, o := range lacking {
			replica, _ := s.store.Placed(o.Service)
			s.lacks(now, manualObject(o), "", []syncer.Key{replica}, nil)
			s.absent[manualObject(o)].service = o.Service
		}
		for _, key := range m.services {
			d, known := s.store.KnowManual(ofSlices, key)
			if dirty = append(dirty, d...); known {
				first = append(first, key)
			}
		}
	}
	s.announceList(out, Cause{Kind: manualKind(m.kind), Event: "relist"}, merged(dirty))
	s.listEnded(now, m.kind, before, m.older, doubted, false, out)
	if s.synced && len(first) > 0 {
		s.judgeStanding(now, out)
	}
	s.standingManual(now, nil, out)
}

func manualKind(k Kind) string {
	if k == Slices {
		return "EndpointSlice"
	}
	return "Endpoints"
}

func manualObject(o store.ManualObject) object {
	if o.Slice == "" {
		return object{Endpoints, o.Service}
	}
	return object{Slices, syncer.Key{Namespace: o.Service.Namespace, Name: o.Slice}}
}

// rewind lowers the revisions of what an older list lacks, or their next events would
// look old.
func (s *State) rewind(kind Kind, namespaces []string, rv uint64, older bool) {
	if !older {
		return
	}
	for _, ns := range namespaces {
		if kind == Pods {
			s.store.LackingPods(ns, rv, true, func(*syncer.Pod, uint64) {})
		} else {
			s.store.LackingServices(ns, rv, true, func(*syncer.Service) {})
		}
	}
}
