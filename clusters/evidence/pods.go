// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// pods is the table of pods.
type pods struct {
	plain[syncer.Pod]
	ready   int    // listed pods that are ready and serve
	dropped bool   // a listed pod turned not ready
	ofList  bool   // it is of a list
	at      uint64 // the revision of that; 0: unknown
	past    uint64 // it, of a list from the past; 0: it is none
}

func (*pods) kind() Kind                  { return Pods }
func (*pods) id(p *syncer.Pod) object     { return object{Pods, p.Key} }
func (*pods) uid(p *syncer.Pod) string    { return p.UID }
func (*pods) finished(p *syncer.Pod) bool { return p.Terminal }

func (t *pods) begin(s *State, rv uint64, older bool) {
	if t.ofList, t.at = true, rv; older {
		t.past = rv
	}
	s.store.BeginPods(rv, older, s.leftOut.names(Pods)...)
	s.sighted(s.unfollowed())
}

func (*pods) revision(s *State, p *syncer.Pod) (uint64, bool) { return s.store.PodRevision(p.Key) }
func (*pods) outdated(s *State, v podVersion) bool            { return s.store.PodOutdated(v) }
func (*pods) listed(s *State, v podVersion) bool {
	return s.store.ListsPod(v.Object.Namespace, v.RV)
}

func (*pods) mark(s *State, p *syncer.Pod, rv uint64, older bool) { s.store.MarkPod(p.Key, rv, older) }

func (*pods) room(s *State, p *syncer.Pod) bool {
	n, _ := s.store.Shown()
	return s.store.Pod(p.Key) != nil || !s.full(Pods, n)
}

func (*pods) cause(p *syncer.Pod, rv uint64, event string) Cause {
	c := objectCause("Pod", p.Key, p.UID, rv, event)
	if len(p.IPs) > 0 && p.IPs[0].Addr.IsValid() {
		c.IP = p.IPs[0].Addr.String()
	}
	switch {
	case event == "deleted":
		c.State = "gone"
	case p.Terminating():
		c.State = "terminating"
	case p.Ready:
		c.State = "ready"
	default:
		c.State = "not ready"
	}
	return c
}

func (*pods) since(s *State, p *syncer.Pod) int64 { return sourceTime(s.store.Pod(p.Key), p) }

// hear takes in a pod, as far as panic and silent nodes let it.
func (t *pods) hear(s *State, now time.Time, v podVersion, out *Effects) []store.Dirty {
	key := v.Object.Key
	kept := s.readiness.keeps(key)
	var others []store.Dirty // because more than this pod is taken anew
	if dropped, _ := s.note(now, v); dropped &&
		s.readiness.mass(now, s.cfg.Limits, func() world { return s.world(s.readyPods() - 1) }) {
		restore := slices.DeleteFunc(s.readiness.enter(now), func(other podVersion) bool { return other.Object.Key == key })
		others = s.overrideAll(restore, out)
	}
	s.damping.noteWritten(&v)
	dirty := s.setPod(now, s.readiness.view(v))
	if is := s.readiness.keeps(key); is != "" && kept == "" {
		cause := t.cause(&v.Object, v.RV, "modified")
		cause.Kept = is
		s.announce(out, Change{Cause: cause, Dirty: keptDirty(s.store.ReplicasOf(key))})
	}
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "panic"}, Dirty: others})
	if len(others) > 0 {
		s.checkKept(out)
	}
	return dirty
}

func (*pods) put(s *State, now time.Time, v podVersion) []store.Dirty {
	s.damping.noteWritten(&v)
	s.noteGap(&v)
	return s.setPod(now, s.readiness.view(v))
}

// setPod puts a pod into the table, and remembers what it leaves by that.
func (s *State) setPod(now time.Time, v podVersion) []store.Dirty {
	s.hide(&v.Object)
	was := s.store.Pod(v.Object.Key)
	if was == nil || syncer.EqualLabels(was.Labels, v.Object.Labels) && slices.Equal(was.IPs, v.Object.IPs) {
		return s.store.SetPod(v)
	}
	from := s.store.Selecting(was)
	dirty := s.store.SetPod(v)
	s.noteLeft(now, was, from)
	return dirty
}

// met has what stands of a pod be as it says, claim its addresses be nobody else's.
func (*pods) met(s *State, _ time.Time, p *syncer.Pod, out *Effects) { s.meetBaseline(p, out) }
func (t *pods) claim(s *State, now time.Time, p *syncer.Pod, out *Effects) {
	if held := s.store.Pod(p.Key); t.ofList && held != nil { // events may have shown it since
		p = held
	}
	s.reclaim(now, p, t, out)
}

func (*pods) remove(s *State, _ time.Time, v podVersion) []store.Dirty {
	s.readiness.gone(v.Object.Key)
	s.departures.noteDeleted(v.Object.UID)
	return s.store.DeletePod(v)
}

func (*pods) missed(s *State, p *syncer.Pod, _ bool, cause Cause, out *Effects) {
	s.dropAll(slices.Clone(s.baseline.byPod[p.Key]), cause, out)
}

func (*pods) lacking(s *State, ns string, rv uint64, older bool, yield func(lost)) int {
	return s.store.LackingPods(ns, rv, older, func(p *syncer.Pod, held uint64) {
		l := (*pods)(nil).lost(s, p)
		l.held = held
		yield(l)
	})
}

func (*pods) lost(s *State, p *syncer.Pod) lost {
	return lost{id: object{Pods, p.Key}, uid: p.UID, replicas: s.store.ReplicasOf(p.Key), addrs: addressesOf(p)}
}

func (t *pods) replaced(s *State, p *syncer.Pod) (l lost, is bool) {
	if held := s.store.Pod(p.Key); held != nil && (held.UID != p.UID || !slices.Equal(held.IPs, p.IPs)) {
		return t.lost(s, held), true
	}
	return l, false
}

// compare finds out whether too many pods have turned not ready.
func (t *pods) compare(s *State, now time.Time, v podVersion) {
	dropped, serves := s.note(now, v)
	if t.dropped = t.dropped || dropped; serves && store.IsReady(&v.Object) {
		t.ready++
	}
}

func (t *pods) compared(s *State, now time.Time, shown []podVersion, out *Effects) {
	if t.dropped {
		s.panicIf(now, func() world { return t.world(s, shown) }, out)
	}
}

// inPanic reports whether pods are kept for a panic. One that a former process was in shows
// once its pods do.
func (s *State) inPanic() bool {
	return s.readiness.panics() && s.synced || !s.readiness.panicAt.IsZero() && s.readiness.kept > 0
}

// PanicAt is when the panic began that the member is in; zero: it is in none.
func (s *State) PanicAt() time.Time { return s.readiness.panicAt }

// noteFallen notes the pods that turned not ready in the panic of a former process and stand
// nowhere: other members serve what this one did.
func (s *State) noteFallen() {
	if s.readiness.panicAt.IsZero() {
		return
	}
	since := s.readiness.panicAt.Add(-window - max(0, s.damping.clock.behind)).Unix()
	for _, p := range s.store.Pods() {
		if p.ReadySince >= since && s.readiness.down[p.Key] == nil {
			s.readiness.fallen = append(s.readiness.fallen, p.Key)
		}
	}
	s.readiness.fallen = s.stillFallen()
}

// stillFallen are those of them that are down, and serve, yet.
func (s *State) stillFallen() []syncer.Key {
	return slices.DeleteFunc(s.readiness.fallen, func(key syncer.Key) bool {
		p := s.store.Pod(key)
		return !usable(p) || p.Ready || !s.store.Serves(p)
	})
}

// panicIf begins a panic where too many pods have turned not ready.
func (s *State) panicIf(now time.Time, w func() world, out *Effects) {
	if s.readiness.panics() || !s.readiness.mass(now, s.cfg.Limits, w) {
		return
	}
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "panic"}, Dirty: s.overrideAll(s.readiness.enter(now), out)})
}

// world is what a panic is judged by as the list shows it.
func (t *pods) world(s *State, shown []podVersion) world {
	var readyIn map[syncer.Key]int
	return world{ready: t.ready, serves: s.stillServes, replicasOf: s.replicasOf, readyIn: func(replica syncer.Key) int {
		if readyIn == nil {
			readyIn = map[syncer.Key]int{}
			for i := range shown {
				if p := &shown[i].Object; store.IsReady(p) {
					for _, in := range s.replicasOf(p) {
						readyIn[in]++
					}
				}
			}
		}
		return readyIn[replica]
	}}
}

func (*pods) ended(s *State, now time.Time, _ map[syncer.Key]int, out *Effects) {
	s.markListed(now, Pods, out)
	s.podsListed(now, out)
}

// note has readiness take in a pod as the member shows it.
func (s *State) note(now time.Time, v podVersion) (dropped, serves bool) {
	serves = s.serves(&v.Object)
	// As it was taken: what the table has, or, of one that it has not yet, what stands of it.
	before := cmp.Or(s.store.Pod(v.Object.Key), s.baseline.pod(&v.Object))
	if serves && before != nil && before.UID == v.Object.UID && before.Ready && !v.Object.Ready {
		s.departures.note(now, Departed{Key: before.Key, UID: before.UID})
	}
	limits := s.cfg.Limits // a node is silent since its pods were marked, whoever looked then
	limits.HoldSilent -= s.damping.clock.since(now, v.Object.ReadySince, v.Written)
	dropped = s.readiness.note(now, limits, before, v, serves)
	if d := s.readiness.down[v.Object.Key]; d != nil && d.stood == nil {
		for _, e := range s.baseline.byPod[v.Object.Key] {
			d.stood = append(d.stood, e.in)
		}
	}
	return dropped, serves
}

// stillServes is serves for a pod that turned not ready, and may not stand any more for
// that.
func (s *State) stillServes(d *downPod) bool {
	if s.isBlind(d.reported.Object.Namespace) { // nobody would see it come back
		return false
	}
	return s.serves(&d.reported.Object) || s.lacksSourceOf(d)
}

// serves reports whether a pod is behind a Service that is replicated.
func (s *State) serves(p *syncer.Pod) bool {
	return s.store.Serves(p) || s.baseline.pod(p) != nil
}

// readyPods counts the pods that are ready in truth, as far as one sees, and serve.
func (s *State) readyPods() int {
	return max(0, s.store.Serving(s.blind()...)-s.readiness.keptServing)
}

// world is what a panic is judged by, outside of a list.
func (s *State) world(ready int) world {
	return world{ready: ready, serves: s.stillServes, replicasOf: s.replicasOf, readyIn: func(replica syncer.Key) int {
		return s.store.ReadyEndpoints(replica)
	}}
}

// replicasOf returns the replicas that a pod is, or was, an endpoint of.
func (s *State) replicasOf(p *syncer.Pod) []syncer.Key {
	if replicas := s.store.ReplicasFor(p); len(replicas) > 0 {
		return replicas
	}
	return s.baseline.replicasOf(p.Key)
}

// override takes another reading of a pod that is held, and of what stands of it.
func (s *State) override(p *syncer.Pod, out *Effects) []store.Dirty {
	dirty := s.store.ReplacePod(p)
	s.meetBaseline(p, out)
	return dirty
}

func (s *State) overrideAll(pods []podVersion, out *Effects) (dirty []store.Dirty) {
	for _, v := range pods {
		dirty = append(dirty, s.override(&v.Object, out)...)
	}
	return merged(dirty)
}

// reclaim gives a live pod the addresses that it shows: what is absent and had one of
// them is dead, and so is what stands there of another pod. One that is going may have lost
// its node, and its address with that. Pods of the host network share the address of their
// node. A list from the past says nothing of what was seen later, and whoever else it shows
// keeps what stands.
func (s *State) reclaim(now time.Time, p *syncer.Pod, by *pods, out *Effects) {
	hides := s.hides()
	if !owns(p) || !hides && len(s.addresses) == 0 && len(s.baseline.byAddr) == 0 && len(s.readiness.byAddr) == 0 {
		return
	}
	for i := range p.IPs {
		addr := p.IPs[i].Addr
		if hides {
			s.missHidden(now, addr, p, by.shownAt(s, p))
		}
		for _, a := range slices.Clone(s.addresses[addr]) {
			held := s.store.Pod(a.id.Key)
			taken := held == nil && a.rv > 0 && !p.HostNetwork // whose answer counts no more
			later := by.past != 0 && a.held > by.past
			if a.id.Key != p.Key && !later && (taken || held != nil && !(held.HostNetwork && p.HostNetwork)) {
				s.settle(now, a, "reused", out)
			}
		}
		s.baselineReused(addr, p, by.ofList, out)
		s.keptReused(addr, p, out)
	}
}

// shownAt is the revision of what shows a pod; 0: unknown.
func (t *pods) shownAt(s *State, p *syncer.Pod) uint64 {
	if t.ofList {
		return t.at
	}
	rv, _ := s.store.PodRevision(p.Key)
	return rv
}

// owns reports whether the addresses that a pod shows are its own: it has not finished, and is
// not going.
func owns(p *syncer.Pod) bool { return !p.Terminal && !p.Terminating() }

// keptReused takes those pods as they are that are kept ready and had an address that
// another one has now.
func (s *State) keptReused(addr netip.Addr, p *syncer.Pod, out *Effects) {
	if s.readiness.keeps(p.Key) != "" {
		return
	}
	var dirty []store.Dirty
	for _, d := range slices.Clone(s.readiness.byAddr[addr]) {
		if is := &d.reported.Object; is.Key != p.Key && !(is.HostNetwork && p.HostNetwork) {
			v := s.readiness.let(d)
			dirty = append(dirty, s.override(&v.Object, out)...)
		}
	}
	s.announce(out, Change{Cause: (*pods)(nil).cause(p, 0, "reused"), Dirty: merged(dirty)})
}

// checkKept looks whether others have the addresses of pods that are kept ready since the
// last time: these may have been there before.
func (s *State) checkKept(out *Effects) {
	if !s.readiness.fresh {
		return
	}
	s.readiness.fresh = false
	for _, p := range s.store.Pods() {
		for i := range p.IPs {
			if owns(p) && s.readiness.byAddr[p.IPs[i].Addr] != nil {
				s.keptReused(p.IPs[i].Addr, p, out)
			}
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
