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

// markListed notes that a kind has been read whole, or cannot be. With the last one the
// member is announced, all at once; what events announce from then on may be in it as
// well.
func (s *State) markListed(now time.Time, kind Kind, out *Effects) {
	if !s.synced && s.short[kind] {
		s.dueBy(kind, now)
		return
	}
	s.listed[kind] = s.listed[kind] || !s.quarantine.doubted(kind)
	s.syncWhenListed(now, out)
}

// syncWhenListed announces the member when all that counts was read, and the rules are in
// force.
func (s *State) syncWhenListed(now time.Time, out *Effects) {
	if s.synced || !s.listed[Services] || !s.listed[Pods] || !s.listed[Nodes] {
		return
	}
	if s.startRules(now, out) {
		s.sync(now, out)
	}
}

// sync announces the member, all at once.
func (s *State) sync(now time.Time, out *Effects) {
	s.synced = true
	s.forgetPublished(out)
	s.startDamping(now)
	s.noteFallen()
	all := keptDirty(s.BaselineReplicas())
	s.compareBaseline(now, out)
	for _, replica := range s.store.Replicas() {
		for _, source := range s.store.Sources(replica) {
			all = append(all, store.Dirty{Replica: replica, Source: source, Effect: syncer.Addition})
		}
	}
	out.say(Info, "cluster has been read whole", "replicas", len(s.store.Replicas()))
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "relist"}, Dirty: all, Bulk: true})
}

// forgetPublished lets go of pods that were taken for turned not ready by what stands of
// them, and whose Services, by now known, take every pod for ready, or have rules that do.
// What a Service that lists lack says of them nobody knows.
func (s *State) forgetPublished(out *Effects) {
	for _, d := range maps.Clone(s.readiness.down) {
		if !s.store.Serves(&d.reported.Object) && !s.lacksSourceOf(d) {
			s.readiness.forget(d)
			s.override(&d.reported.Object, out)
		}
	}
}

// judgeBaseline does so later than at the sync, and tells: what was kept as it stood is
// not any more.
func (s *State) judgeBaseline(now time.Time, out *Effects) {
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "relist"}, Dirty: keptDirty(s.compareBaseline(now, out))})
}

// compareBaseline compares what stands with what the member shows, and returns the replicas of
// which all could be compared. Where hand-written endpoints, or a namespace, have not been read,
// those are pods that lists lack, and pods of other namespaces: a Service selects in its own.
func (s *State) compareBaseline(now time.Time, out *Effects) (judged []syncer.Key) {
	doubts := map[*baselineReplica][]doubt{}
	var losses, early []loss
	var drop []*baselineEndpoint
	for _, key := range s.BaselineReplicas() {
		r := s.baseline.replicas[key]
		if r.judged {
			continue
		}
		views := s.views(r)
		is := views("")
		if !is.pending {
			r.judged, judged = true, append(judged, key)
		}
		if !is.wanted {
			drop = append(drop, r.open()...)
			continue
		}
		open, done := s.doubts(r, views)
		for _, e := range done {
			if s.gives(e) && !s.isRuledOut(e) {
				s.dropBaseline(e) // nothing leaves
			} else {
				drop = append(drop, e)
			}
		}
		if len(open) == 0 {
			continue
		}
		doubts[r] = open
		gone := map[counted]bool{}
		for _, d := range open {
			gone[d.endpoint.counted()] = true
		}
		l := loss{replica: key, before: r.stood, after: is.ready, gone: len(gone)}
		s.weigh(&l, is.sources, true)
		if is.pending { // how much it loses is not known
			early = append(early, l)
		} else {
			losses = append(losses, l)
		}
	}
	unsettled, passed := judge(s.cfg.Limits, losses, s.recent(now), false)
	s.took(now, passed)
	for _, l := range early {
		unsettled[l.replica] = s.cfg.Lists
	}
	s.settleDoubts(now, doubts, append(losses, early...), unsettled, drop, out)
	return judged
}

// settleDoubts drops what stands of replicas whose losses are settled, has the objects asked
// for that would settle the others, and keeps what stands of these.
func (s *State) settleDoubts(now time.Time, doubts map[*baselineReplica][]doubt, losses []loss, unsettled map[syncer.Key]bool, drop []*baselineEndpoint, out *Effects) {
	asked, held := map[Kind]bool{}, map[syncer.Key][]*absence{}
	for r, open := range doubts {
		for _, d := range open {
			if !unsettled[r.key] {
				drop = append(drop, d.endpoint)
				s.believe(d)
				continue
			}
			for _, id := range d.objects {
				held[r.key] = append(held[r.key], s.lacksBaseline(now, id, d.endpoint))
				asked[id.Kind] = true
			}
		}
	}
	s.dropAll(drop, Cause{Kind: "Cluster", Event: "relist"}, out)
	for _, l := range losses {
		if unsettled[l.replica] {
			s.hold(now, l, held[l.replica])
		}
	}
	maps.DeleteFunc(s.baseline.replicas, func(_ syncer.Key, r *baselineReplica) bool { return r.judged && len(r.left) == 0 })
	for kind := Services; kind <= Manual; kind++ {
		if asked[kind] {
			s.reportKept(kind, out)
			s.inquire(now, kind, out)
		}
	}
}

// othersPatience is how long a start waits for other kinds before it asks for pods that stand
// and that their list lacks.
const othersPatience = 2 * time.Second

// judgeIdle judges replicas anew of which something stands and waits for nothing: what it
// waited for has come back, or is not needed any more. Before the member was read whole it has
// pods asked for that lists lack.
func (s *State) judgeIdle(now time.Time, out *Effects) {
	idle := false
	if !s.synced {
		if !s.listed[Pods] || now.Sub(s.listedAt[Pods]) < othersPatience {
			return
		}
		for _, r := range s.baseline.replicas {
			idle = idle || slices.ContainsFunc(r.open(), s.isMissed)
		}
		if idle {
			s.compareBaseline(now, out)
		}
		return
	}
	for _, r := range s.baseline.replicas {
		if !r.judged {
			views := s.views(r)
			idle = idle || !views("").pending || slices.ContainsFunc(r.open(), func(e *baselineEndpoint) bool {
				is := views(e.namespace())
				return len(e.waits) == 0 && !is.pending || is.computed && s.isMissed(e)
			})
		} else if slices.ContainsFunc(r.open(), func(e *baselineEndpoint) bool { return len(e.waits) == 0 }) {
			r.judged, idle = false, true
		}
	}
	if idle {
		s.judgeBaseline(now, out)
	}
}

// isMissed reports whether lists lack the pod of an endpoint that stands, and nobody has
// asked for it. A list in doubt may have shown it.
func (s *State) isMissed(e *baselineEndpoint) bool {
	pod, named := e.pod()
	return named && len(e.waits) == 0 && s.store.Pod(pod) == nil && !s.quarantine.doubted(Pods) && !s.isLeftOut(Pods, pod.Namespace) && !s.leftOut.unlisted[Pods][pod.Namespace]
}

// presence is what the Services behind a replica that stands, or those of one namespace, have in
// the member now, wherever they are placed: an edit of the configuration while nobody was running
// is no loss, and what is lost at its source is one wherever it would have gone.
type presence struct {
	ready int
	// pending is true while hand-written endpoints have not been read, the pods of a Service
	// that came into sight, or a namespace that is refused.
	pending bool
	// wanted is false if the configuration, or the Services themselves, say that none
	// of them is replicated.
	wanted  bool
	sources []syncer.Key // all of them
	absent  []syncer.Key // those that are not there
	manual  []syncer.Key // those without selector
	// computed is true where a Service is there that has one, or may be.
	computed bool
}

// views returns what is behind the endpoints of a namespace in a replica now, with "" behind all.
func (s *State) views(r *baselineReplica) func(namespace string) presence {
	sources := slices.Clone(r.sources)
	for _, source := range s.store.Sources(r.key) {
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	parts := map[string]presence{}
	return func(namespace string) presence {
		is, known := parts[namespace]
		if !known {
			is = s.presence(sourcesIn(namespace, sources))
			parts[namespace] = is
		}
		return is
	}
}

func (s *State) presence(sources []syncer.Key) presence {
	if !s.synced {
		return presence{pending: true, wanted: true, computed: true} // for all that is known
	}
	is := presence{sources: sources}
	for _, source := range sources {
		src, found := s.store.Source(source)
		switch {
		case !found && s.follows(source.Namespace):
			if is.wanted = true; s.leftOut.unlisted[Services][source.Namespace] {
				is.pending, is.computed = true, true // for all that is known
			} else {
				is.absent = append(is.absent, source)
			}
		case src.Placed:
			is.wanted = true
			waits, lacking := s.waitingOf(source)
			is.ready += max(0, src.Ready-waits+lacking)
			is.pending = is.pending || !src.Known || s.isUnread(source)
			if is.computed = is.computed || !src.Manual; src.Manual {
				is.manual = append(is.manual, source)
			}
		}
	}
	return is
}

// gives reports whether the member's own share has an endpoint that stands, ready.
func (s *State) gives(e *baselineEndpoint) bool {
	key, named := e.pod()
	if !named {
		return slices.ContainsFunc(e.in.sources, func(source syncer.Key) bool {
			src, found := s.store.Source(source)
			return found && src.Manual && src.Known && s.store.ServesManual(source)(e.endpoint)
		})
	}
	if slices.ContainsFunc(s.store.Sources(e.in.key), func(source syncer.Key) bool { return source.Namespace == key.Namespace && s.isUnread(source) }) {
		return false // it gives nothing yet
	}
	p := s.store.Pod(key)
	return p != nil && p.UID == e.endpoint.Target.UID && p.Ready && !p.Terminating() && !p.Terminal && store.HasAddress(p, e.endpoint.Addr) &&
		slices.Contains(s.store.ReplicasFor(p), e.in.key)
}

// isRuledOut reports whether rules take away an endpoint that the member would give.
func (s *State) isRuledOut(e *baselineEndpoint) bool {
	pod, named := e.pod()
	return named && !slices.ContainsFunc(s.store.Sources(e.in.key), func(source syncer.Key) bool {
		return s.store.Selects(source, pod) && s.store.As(source, s.store.Pod(pod)).Ready
	})
}

// doubt is an endpoint that stands and of which the member shows nothing, and the
// objects that would settle it.
type doubt struct {
	endpoint *baselineEndpoint
	objects  []object
}

// doubts tells the endpoints that the member says nothing of from those that are done.
// A pod that is not shown may be one of a Service that is; if none is, it goes with the
// last of them that is absent.
func (s *State) doubts(r *baselineReplica, views func(namespace string) presence) (open []doubt, done []*baselineEndpoint) {
	var byHand []object
	for _, source := range views("").manual {
		if r.written == nil || slices.Contains(r.sources, source) { // of others nothing stands
			byHand = append(byHand, object{Manual, source})
		}
	}
	for _, e := range r.open() {
		pod, named := e.pod()
		is := views(e.namespace())
		var objects, services []object
		for _, source := range is.absent {
			services = append(services, object{Services, source})
		}
		switch {
		case !is.wanted:
		case s.synced && s.gives(e):
		case is.pending && !(is.computed && s.isMissed(e)):
			continue
		case is.pending:
			objects = []object{{Pods, pod}}
		case named && s.store.Pod(pod) != nil:
			objects = services
		case named && is.computed:
			objects = []object{{Pods, pod}}
		case named && len(services) > 0:
			objects = append([]object{{Pods, pod}}, services...)
		case !named:
			objects = append(byHand, services...)
		}
		if len(objects) == 0 {
			done = append(done, e)
		} else {
			open = append(open, doubt{e, objects})
		}
	}
	return open, done
}

// lacksBaseline notes that lists lack an object that an endpoint stands for.
func (s *State) lacksBaseline(now time.Time, id object, e *baselineEndpoint) *absence {
	a := s.absent[id]
	if a == nil {
		a = &absence{lost: lost{id: id}, since: now, past: s.lost(id.Kind, id.Key.Namespace)}
		if id.Kind == Pods {
			a.uid = e.endpoint.Target.UID
			s.address(a, []netip.Addr{e.endpoint.Addr})
		}
		if id.Kind == Manual {
			a.service = id.Key
		}
		s.absent[id] = a
	}
	if a.since.IsZero() {
		a.since = now
	}
	if !slices.Contains(a.replicas, e.in.key) {
		a.replicas = append(a.replicas, e.in.key)
	}
	if !slices.Contains(e.waits, a) {
		a.baseline, e.waits = append(a.baseline, e), append(e.waits, a)
	}
	return a
}
