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

// standing is what stands of the member in the ingress cluster from before this
// process, as far as nothing else is known of it. A start is judged by it like a list
// by what the list before showed.
type standing struct {
	replicas map[syncer.Key]*standingReplica
	byPod    map[syncer.Key][]*standingEndpoint
	byAddr   map[netip.Addr][]*standingEndpoint
}

// standingReplica is what stands in one replica.
type standingReplica struct {
	key       syncer.Key
	sources   []syncer.Key
	endpoints []*standingEndpoint // those that stand ready
	left      int                 // those of them that are not dropped
	// judged is true once its endpoints were compared with what the member shows. What
	// is left of them then is unsettled.
	judged bool
}

// standingEndpoint is an endpoint that stands ready.
type standingEndpoint struct {
	in       *standingReplica
	endpoint syncer.Endpoint
	dropped  bool // it is known to be gone, or the member's own share has it
}

// pod is the key of the pod that an endpoint names; ok is false where it names none.
func (e *standingEndpoint) pod() (syncer.Key, bool) {
	return e.endpoint.Target.Key, e.endpoint.Target.Kind == "Pod" && e.endpoint.Target.Name != ""
}

// open are the endpoints that are not dropped.
func (r *standingReplica) open() (left []*standingEndpoint) {
	for _, e := range r.endpoints {
		if !e.dropped {
			left = append(left, e)
		}
	}
	return left
}

func (st *standing) set(b Baseline) {
	*st = standing{
		replicas: map[syncer.Key]*standingReplica{},
		byPod:    map[syncer.Key][]*standingEndpoint{}, byAddr: map[netip.Addr][]*standingEndpoint{},
	}
	for key, s := range b.Replicas {
		r := &standingReplica{key: key, sources: s.Sources}
		for _, e := range s.Endpoints {
			if !e.Ready {
				continue
			}
			one := &standingEndpoint{in: r, endpoint: e}
			r.endpoints = append(r.endpoints, one)
			if pod, named := one.pod(); named {
				st.byPod[pod] = append(st.byPod[pod], one)
				st.byAddr[e.Addr] = append(st.byAddr[e.Addr], one)
			}
		}
		if r.left = len(r.endpoints); r.left > 0 {
			st.replicas[key] = r
		}
	}
}

// pod returns a pod as it was when it stood ready; nil if it did not.
func (st *standing) pod(p *syncer.Pod) *syncer.Pod {
	for _, e := range st.byPod[p.Key] {
		if !e.dropped && !e.in.judged && e.endpoint.Target.UID == p.UID && store.HasAddress(p, e.endpoint.Addr) {
			was := *p
			was.Ready, was.Deleted, was.Terminal = true, 0, false
			return &was
		}
	}
	return nil
}

// replicasOf are the replicas in which a pod stands.
func (st *standing) replicasOf(pod syncer.Key) (replicas []syncer.Key) {
	for _, e := range st.byPod[pod] {
		replicas = append(replicas, e.in.key)
	}
	return replicas
}

// left counts the endpoints of a replica that are kept because they stand.
func (st *standing) left(replica syncer.Key) int {
	r := st.replicas[replica]
	if r == nil || !r.judged {
		return 0
	}
	return r.left
}

// waits reports whether a Service is one that fed a replica that stands.
func (st *standing) waits(source syncer.Key) bool {
	for _, r := range st.replicas {
		if slices.Contains(r.sources, source) {
			return true
		}
	}
	return false
}

// dropStanding takes an endpoint from what stands.
func (s *State) dropStanding(e *standingEndpoint) []store.Dirty {
	if e.dropped {
		return nil
	}
	e.dropped = true
	e.in.left--
	st := &s.standing
	if pod, named := e.pod(); named {
		remove := func(list []*standingEndpoint) []*standingEndpoint {
			return slices.DeleteFunc(list, func(x *standingEndpoint) bool { return x == e })
		}
		if st.byPod[pod] = remove(st.byPod[pod]); len(st.byPod[pod]) == 0 {
			delete(st.byPod, pod)
		}
		if st.byAddr[e.endpoint.Addr] = remove(st.byAddr[e.endpoint.Addr]); len(st.byAddr[e.endpoint.Addr]) == 0 {
			delete(st.byAddr, e.endpoint.Addr)
		}
	}
	if e.in.judged && e.in.left == 0 {
		delete(st.replicas, e.in.key)
	}
	source := e.in.key
	if len(e.in.sources) > 0 {
		source = e.in.sources[0]
	}
	return []store.Dirty{{Replica: e.in.key, Source: source, Effect: syncer.Removal}}
}

// dropAll drops endpoints, and says so even before the member was read whole.
func (s *State) dropAll(drop []*standingEndpoint, cause Cause, out *Effects) {
	var dirty []store.Dirty
	for _, e := range drop {
		dirty = append(dirty, s.dropStanding(e)...)
	}
	if len(dirty) > 0 {
		out.Changes = append(out.Changes, Change{Cause: cause, Dirty: merged(dirty)})
	}
}

// meetStanding compares what a pod says of itself with what stands of it: a pod with
// another UID or address, or one that is going or not ready, is no longer what stands.
func (s *State) meetStanding(_ time.Time, p *syncer.Pod, out *Effects) {
	endpoints := s.standing.byPod[p.Key]
	if len(endpoints) == 0 {
		return
	}
	taken := *p
	if held := s.store.Pod(p.Key); held != nil && held.UID == p.UID {
		taken = *held // ready for a panic, or a silent node
	}
	var drop []*standingEndpoint
	for _, e := range endpoints {
		same := e.endpoint.Target.UID == taken.UID && store.HasAddress(&taken, e.endpoint.Addr) && !taken.Terminal
		ready := !taken.Terminating() && taken.Ready || s.published(e.in)
		switch {
		case !same || !ready, e.in.judged && !s.lacksSource(e.in):
			drop = append(drop, e)
		}
	}
	s.dropAll(drop, podCause(p, 0, "relist"), out)
}

// published reports whether a replica that stands takes every pod for ready, as far as
// its Services are known.
func (s *State) published(r *standingReplica) bool {
	return slices.ContainsFunc(r.sources, s.store.Publishes)
}

// lacksSource reports whether a Service that fed a replica is absent.
func (s *State) lacksSource(r *standingReplica) bool {
	return slices.ContainsFunc(r.sources, func(source syncer.Key) bool {
		_, found := s.store.Source(source)
		return !found && s.follows(source.Namespace)
	})
}

func (s *State) follows(namespace string) bool {
	return s.cfg.Follows == nil || s.cfg.Follows(namespace)
}

// standingGone takes in that a pod was deleted.
func (s *State) standingGone(pod syncer.Key, cause Cause, out *Effects) {
	s.dropAll(slices.Clone(s.standing.byPod[pod]), cause, out)
}

// standingReused takes an address from what stands of another pod than the one that
// has it now.
func (s *State) standingReused(addr netip.Addr, p *syncer.Pod, out *Effects) {
	var drop []*standingEndpoint
	for _, e := range s.standing.byAddr[addr] {
		same := e.endpoint.Target.Key == p.Key && e.endpoint.Target.UID == p.UID
		if same || p.HostNetwork {
			continue
		}
		drop = append(drop, e)
	}
	s.dropAll(drop, podCause(p, 0, "reused"), out)
}

// standingSourceGone takes in that a Service was deleted.
func (s *State) standingSourceGone(source syncer.Key, cause Cause, out *Effects) {
	var drop []*standingEndpoint
	for _, r := range s.standing.replicas {
		if slices.Contains(r.sources, source) && !slices.ContainsFunc(r.sources, func(other syncer.Key) bool {
			return other != source && s.store.Service(other) != nil
		}) {
			drop = append(drop, r.open()...)
		}
	}
	s.dropAll(drop, cause, out)
}

// serviceShown drops what stands of replicas whose Services are all shown: their own
// share has it, or has not.
func (s *State) serviceShown(_ time.Time, service syncer.Key, out *Effects) {
	if len(s.standing.replicas) == 0 {
		return
	}
	var drop []*standingEndpoint
	for _, r := range s.standing.replicas {
		if !slices.Contains(r.sources, service) || s.lacksSource(r) {
			continue
		}
		manual := slices.ContainsFunc(r.sources, s.store.IsManual)
		for _, e := range r.open() {
			pod, named := e.pod()
			if named && r.judged && s.store.Pod(pod) != nil || !named && !manual {
				drop = append(drop, e)
			}
		}
	}
	s.dropAll(drop, Cause{Kind: "Service", Event: "relist", Key: service}, out)
}

// standingManual drops endpoints that stand and that hand-written objects of their
// Services give by now.
func (s *State) standingManual(_ time.Time, _ []store.Dirty, out *Effects) {
	var drop []*standingEndpoint
	for _, r := range s.standing.replicas {
		if !r.judged {
			continue
		}
		for _, source := range r.sources {
			if src, found := s.store.Source(source); !found || !src.Manual || !src.Known {
				continue
			}
			serves := s.store.ServesManual(source)
			for _, e := range r.open() {
				if serves(e.endpoint) {
					drop = append(drop, e)
				}
			}
		}
	}
	s.dropAll(drop, Cause{Kind: "Endpoints", Event: "relist"}, out)
}

// fill notes that a kind has been read whole, or cannot be. With the last one the
// member is announced, all at once; what events announce from then on may be in it as
// well.
func (s *State) fill(now time.Time, kind Kind, out *Effects) {
	s.listed[kind] = s.listed[kind] || !s.quarantine.doubted(kind)
	if s.synced || !s.listed[Services] || !s.listed[Pods] || !s.listed[Nodes] {
		return
	}
	s.synced = true
	s.forgetPublished(now)
	s.startDamping(now)
	s.judgeStanding(now, out)
	var all []store.Dirty
	for _, replica := range s.store.Replicas() {
		for _, source := range s.store.Sources(replica) {
			all = append(all, store.Dirty{Replica: replica, Source: source, Effect: syncer.Addition})
		}
	}
	out.Facts = append(out.Facts, Fact{Message: "cluster has been read whole", Args: []any{"replicas", len(all)}})
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "relist"}, Dirty: all, Bulk: true})
}

// forgetPublished lets go of pods that were taken for turned not ready by what stands of
// them, and whose Services, by now known, take every pod for ready.
func (s *State) forgetPublished(now time.Time) {
	for _, d := range maps.Clone(s.readiness.down) {
		if !s.store.Serves(&d.reported.Object) {
			s.readiness.forget(d)
			s.retake(now, &d.reported.Object)
		}
	}
}

// NodesPatience is how long the first fill waits for nodes that cannot be read.
const NodesPatience = 10 * time.Second

// fillNodes goes on without zones where nodes cannot be read: at once where they are
// refused and the others are not, for a server that has just started refuses everything
// for a moment.
func (s *State) fillNodes(now time.Time, out *Effects) {
	if s.listed[Nodes] || s.since.IsZero() {
		return
	}
	refused := s.reach.watches[Nodes].phase == Denied && s.listed[Services] && s.listed[Pods]
	if refused || now.Sub(s.since) >= NodesPatience {
		s.fill(now, Nodes, out)
	}
}

// judgeStanding compares what stands with what the member shows, for replicas that can
// be compared: not before hand-written endpoints of theirs were read.
func (s *State) judgeStanding(now time.Time, out *Effects) {
	doubts := map[*standingReplica][]doubt{}
	var losses []loss
	var drop []*standingEndpoint
	before, owned := map[syncer.Key]int{}, s.owned()
	for _, key := range slices.SortedFunc(maps.Keys(s.standing.replicas), syncer.Key.Compare) {
		r := s.standing.replicas[key]
		if r.judged {
			continue
		}
		is := s.presence(r)
		if !is.wanted {
			r.judged = true
			drop = append(drop, r.open()...)
			continue
		}
		if is.pending {
			continue
		}
		r.judged = true
		open, done := s.doubts(r, is, owned)
		for _, e := range done {
			if s.gives(e) {
				s.dropStanding(e) // nothing leaves
			} else {
				drop = append(drop, e)
			}
		}
		before[key] = len(r.endpoints)
		if len(open) > 0 {
			doubts[r] = open
			losses = append(losses, loss{replica: key, before: len(r.endpoints), after: is.ready, gone: len(open)})
		}
	}
	unsettled, passed := judge(s.cfg.Limits, losses, s.recent(now), false)
	s.took(now, passed)
	asked, held := map[Kind]bool{}, map[syncer.Key][]*absence{}
	for r, open := range doubts {
		for _, d := range open {
			if !unsettled[r.key] {
				drop = append(drop, d.endpoint)
				continue
			}
			for _, id := range d.objects {
				held[r.key] = append(held[r.key], s.lacksStanding(now, id, d.endpoint))
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
	for key, r := range s.standing.replicas {
		if r.judged && r.left == 0 {
			delete(s.standing.replicas, key)
		}
	}
	for kind := Services; kind <= manualStanding; kind++ {
		if asked[kind] {
			s.reportKept(kind, out)
			s.inquire(now, kind, out)
		}
	}
}

// presence is what the Services behind a replica that stands have in the member now,
// wherever they are placed: an edit of the configuration while nobody was running is
// no loss, and what is lost at its source is one wherever it would have gone.
type presence struct {
	ready int
	// pending is true while hand-written endpoints have not been read.
	pending bool
	// wanted is false if the configuration, or the Services themselves, say that none
	// of them is replicated.
	wanted bool
	absent []syncer.Key // Services that are not there
	manual []syncer.Key // those without selector
}

func (s *State) presence(r *standingReplica) (is presence) {
	sources := slices.Clone(r.sources)
	for _, source := range s.store.Sources(r.key) {
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	for _, source := range sources {
		src, found := s.store.Source(source)
		switch {
		case !found:
			if s.follows(source.Namespace) {
				is.wanted, is.absent = true, append(is.absent, source)
			}
		case src.Placed:
			is.wanted = true
			is.ready += src.Ready
			is.pending = is.pending || !src.Known
			if src.Manual {
				is.manual = append(is.manual, source)
			}
		}
	}
	return is
}

// gives reports whether the member's own share has an endpoint that stands, ready.
func (s *State) gives(e *standingEndpoint) bool {
	key, named := e.pod()
	if !named {
		return slices.ContainsFunc(e.in.sources, func(source syncer.Key) bool {
			src, found := s.store.Source(source)
			return found && src.Manual && src.Known && s.store.ServesManual(source)(e.endpoint)
		})
	}
	p := s.store.Pod(key)
	return p != nil && p.UID == e.endpoint.Target.UID && p.Ready && !p.Terminating() && !p.Terminal && store.HasAddress(p, e.endpoint.Addr) &&
		slices.Contains(s.store.ReplicasFor(p), e.in.key)
}

// doubt is an endpoint that stands and of which the member shows nothing, and the
// objects that would settle it.
type doubt struct {
	endpoint *standingEndpoint
	objects  []object
}

// owned are the live pods that have an address of what stands by now.
func (s *State) owned() map[netip.Addr]syncer.Key {
	owned := map[netip.Addr]syncer.Key{}
	if len(s.standing.byAddr) == 0 {
		return owned
	}
	for _, p := range s.store.Pods() {
		for _, addr := range addressesOf(p) {
			if s.standing.byAddr[addr] != nil && !p.HostNetwork && !p.Terminal {
				owned[addr] = p.Key
			}
		}
	}
	return owned
}

// doubts tells the endpoints that the member says nothing of from those that are done.
func (s *State) doubts(r *standingReplica, is presence, owned map[netip.Addr]syncer.Key) (open []doubt, done []*standingEndpoint) {
	var services []object
	for _, source := range is.absent {
		services = append(services, object{Services, source})
	}
	for _, e := range r.open() {
		d := doubt{endpoint: e, objects: services}
		pod, named := e.pod()
		owner, isOwned := owned[e.endpoint.Addr]
		switch {
		case named && isOwned && owner != pod:
			done = append(done, e)
			continue
		case named && s.store.Pod(pod) == nil:
			d.objects = append([]object{{Pods, pod}}, services...)
		case named && len(services) == 0:
			done = append(done, e)
			continue
		case !named && len(is.manual) > 0:
			if slices.ContainsFunc(is.manual, func(source syncer.Key) bool { return s.store.ServesManual(source)(e.endpoint) }) {
				done = append(done, e)
				continue
			}
			d.objects = append([]object{{manualStanding, is.manual[0]}}, services...)
		case !named && len(services) == 0:
			done = append(done, e)
			continue
		}
		open = append(open, d)
	}
	return open, done
}

// lacksStanding notes that lists lack an object that an endpoint stands for.
func (s *State) lacksStanding(now time.Time, id object, e *standingEndpoint) *absence {
	a := s.absent[id]
	if a == nil {
		a = &absence{id: id, since: now}
		if id.Kind == Pods {
			a.uid = e.endpoint.Target.UID
			a.addrs = []netip.Addr{e.endpoint.Addr}
			s.addresses[e.endpoint.Addr] = append(s.addresses[e.endpoint.Addr], a)
		}
		if id.Kind == manualStanding {
			a.service = id.Key
		}
		s.absent[id] = a
	}
	if !slices.Contains(a.replicas, e.in.key) {
		a.replicas = append(a.replicas, e.in.key)
	}
	a.standing = append(a.standing, e)
	return a
}

// Share is what the member gives to a replica: what is computed from Inputs, and beside
// that endpoints that are kept as they stand.
type Share struct {
	Inputs []store.Input
	Kept   []syncer.Endpoint
	// Unseen is true where what stands of the member is to be kept, without the
	// addresses in Gone, because nothing better is known.
	Unseen bool
	Gone   []netip.Addr
}

// Share returns what the member gives to a replica now.
func (s *State) Share(replica syncer.Key) Share {
	var out Share
	if s.synced {
		out.Inputs = s.store.Inputs(replica)
		for i := range out.Inputs {
			s.damped(&out.Inputs[i])
		}
	}
	r := s.standing.replicas[replica]
	if r == nil {
		return out
	}
	left := r.open()
	out.Unseen = !s.synced || !r.judged || len(out.Inputs) == 0
	stays := map[netip.Addr]bool{}
	for _, e := range left {
		stays[e.endpoint.Addr] = true
		if !out.Unseen {
			out.Kept = append(out.Kept, e.endpoint)
		}
	}
	for _, e := range r.endpoints {
		if e.dropped && !stays[e.endpoint.Addr] {
			out.Gone = append(out.Gone, e.endpoint.Addr)
		}
	}
	return out
}

// StandingReplicas returns the replicas of which something is kept because it stands.
func (s *State) StandingReplicas() []syncer.Key {
	return slices.SortedFunc(maps.Keys(s.standing.replicas), syncer.Key.Compare)
}
