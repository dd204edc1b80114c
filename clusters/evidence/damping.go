// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Damping says when an endpoint of a Service that turned not ready returns.
type Damping struct {
	// StableFor is how long it must have been ready; 0 waits for nothing.
	StableFor time.Duration
	// KeepOne lets one return earlier where the replica would have no ready endpoint
	// otherwise: see Effects.Alone.
	KeepOne bool
}

// damping keeps endpoints not ready whose pods are ready again, and not yet for long
// enough. It delays nothing that takes away, and nothing that is new: an endpoint that
// has never been ready does not wait. Of a Service that is damped it remembers those pods
// alone that are not ready, or wait.
//
// The time is that of the events on our clock. After a restart it is what stands in the
// ingress cluster that tells what has been an endpoint before, and the transition time
// of the pod's condition Ready tells since when it is ready: see recall.
type damping struct {
	on      bool // the member was read whole: changes are seen
	sources map[syncer.Key]*dampedSource
	waiting map[syncer.Key]*dampedSource // those with an endpoint that waits
	total   int                          // of endpoints that wait
	clock   memberClock                  // as of the last list of pods
	// stood is what stood in the ingress cluster at the start, ready or not, and written when
	// the member last took a change of each pod of that, by UID; nil once it was read whole: see forgetStood.
	stood   map[syncer.Key]Standing
	written map[string]int64
	// fallen are endpoints that stood ready, and whose pods were first heard of after that,
	// as not ready: their Services may come later still.
	fallen map[fallen]bool
	// gaps are pods that wait and of which a list shows another revision than was known: what
	// became of them in between nobody saw.
	gaps []syncer.Key
}

type fallen struct {
	replica syncer.Key
	uid     string
}

// dampedSource is a Service that is damped.
type dampedSource struct {
	key syncer.Key
	Damping
	pods    map[string]*dampedPod // by name
	waiting int
	counted int // of waiting, in the total
}

// dampedPod is a pod that is not ready, or that waits.
type dampedPod struct {
	uid string
	// isNew is true for one that has never been a ready endpoint of the Service.
	isNew bool
	// since is when it became ready again; zero: it is not ready.
	since time.Time
	// ready is the transition time of Ready as it waits, down as it was before: see
	// syncer.Pod.
	ready, down int64
}

func (d *dampedPod) waits() bool { return d != nil && !d.since.IsZero() }

// takesPart reports whether a pod is a ready endpoint of a Service but for damping.
func takesPart(p *syncer.Pod) bool { return store.IsReady(p) }

// see takes in a pod as it is. known says whether the Service selected that very pod
// before.
func (src *dampedSource) see(now time.Time, p *syncer.Pod, known bool) {
	d := src.pods[p.Name]
	if d != nil && d.uid != p.UID {
		src.forget(p.Name)
		d, known = nil, false
	}
	switch {
	case !takesPart(p):
		if d == nil {
			d = &dampedPod{uid: p.UID, isNew: !known}
			src.pods[p.Name] = d
		} else if d.waits() {
			d.since = time.Time{}
			src.waiting--
		}
		d.down = p.ReadySince
	case d == nil:
	case d.isNew:
		src.forget(p.Name)
	case !d.waits():
		src.wait(d, now, p)
	case p.ReadySince > d.ready: // it was not ready in between
		d.since, d.ready = now, p.ReadySince
	}
}

func (src *dampedSource) wait(d *dampedPod, since time.Time, p *syncer.Pod) {
	d.since, d.ready = since, p.ReadySince
	src.waiting++
}

func (src *dampedSource) forget(pod string) {
	if src.pods[pod].waits() {
		src.waiting--
	}
	delete(src.pods, pod)
}

// settings are those of a Service; the zero value where nothing of it is damped.
func (s *State) settings(service syncer.Key) Damping {
	svc := s.store.Service(service)
	if s.cfg.Damping == nil || svc == nil || s.store.Publishes(service) {
		return Damping{}
	}
	return s.cfg.Damping(svc)
}

// sourceOf is a Service as it is damped, with its settings as they are; nil for one that
// is not.
func (s *State) sourceOf(service syncer.Key) *dampedSource {
	d := &s.damping
	is := s.settings(service)
	src := d.sources[service]
	if _, effective := s.store.Selected(service); is.StableFor <= 0 || effective == nil {
		if src != nil {
			src.waiting = 0
			d.sort(src)
			delete(d.sources, service)
		}
		return nil
	}
	if src == nil {
		src = &dampedSource{key: service, pods: map[string]*dampedPod{}}
		if d.sources == nil {
			d.sources, d.waiting = map[syncer.Key]*dampedSource{}, map[syncer.Key]*dampedSource{}
		}
		d.sources[service] = src
	}
	src.Damping = is
	return src
}

// sort notes whether endpoints of a Service wait.
func (d *damping) sort(src *dampedSource) {
	d.total += src.waiting - src.counted
	src.counted = src.waiting
	if src.waiting > 0 {
		d.waiting[src.key] = src
	} else {
		delete(d.waiting, src.key)
	}
}

// damp takes in what a step has touched.
func (s *State) damp(now time.Time, out *Effects) {
	j := s.store.Touched()
	d := &s.damping
	if !d.on || len(d.sources) == 0 && len(j.Services) == 0 {
		return
	}
	touched := map[syncer.Key]bool{} // replicas
	for key, was := range j.Pods {
		s.podTouched(now, was, s.store.Pod(key), touched)
	}
	s.fillGaps(now)
	for service, known := range j.Services {
		s.reselect(now, service, known, touched)
	}
	if len(s.baseline.replicas) == 0 {
		d.fallen = nil
	}
	s.store.NotePods(len(d.sources) > 0)
	s.reportAlone(touched, out)
}

// fell notes that an endpoint that stood turned not ready.
func (d *damping) fell(e *baselineEndpoint) {
	if !d.on {
		return
	}
	if d.fallen == nil {
		d.fallen = map[fallen]bool{}
	}
	d.fallen[fallen{e.in.key, e.endpoint.Target.UID}] = true
}

// hadStood reports whether a pod stood as a ready endpoint where a Service is placed.
func (s *State) hadStood(service syncer.Key, p *syncer.Pod) bool {
	replica, placed := s.store.Placed(service)
	return placed && s.damping.fallen[fallen{replica, p.UID}]
}

// reselect looks at all pods of a Service, of which anything may be another than before.
// known says whether its pods made endpoints before.
func (s *State) reselect(now time.Time, service syncer.Key, known bool, touched map[syncer.Key]bool) {
	former := s.damping.sources[service]
	src := s.sourceOf(service)
	if src == nil {
		return
	}
	pods, _ := s.store.Selected(service)
	is := map[string]bool{}
	for p := range pods {
		is[p.Name] = true
		src.see(now, p, known && former == nil || s.hadStood(service, p))
	}
	for name := range src.pods {
		if !is[name] {
			src.forget(name)
		}
	}
	s.touch(src, touched)
}

// podTouched takes in a pod as it was and as it is, of which either may be missing.
func (s *State) podTouched(now time.Time, was, is *syncer.Pod, touched map[syncer.Key]bool) {
	var before, after []syncer.Key
	if was != nil {
		before = s.store.Selecting(was)
	}
	if is != nil {
		after = s.store.Selecting(is)
	}
	for _, service := range before {
		if src := s.damping.sources[service]; src != nil {
			if !slices.Contains(after, service) {
				src.forget(was.Name)
			}
			s.touch(src, touched)
		}
	}
	for _, service := range after {
		if src := s.damping.sources[service]; src != nil {
			if as := s.store.As(service, is); takesPart(as) && s.readiness.keeps(is.Key) != "" {
				if d := src.pods[is.Name]; d != nil && !d.waits() {
					src.forget(is.Name) // its turn is not believed
				}
			} else {
				src.see(now, as, slices.Contains(before, service) && was.UID == is.UID || s.hadStood(service, is))
			}
			s.touch(src, touched)
		}
	}
}

func (s *State) touch(src *dampedSource, touched map[syncer.Key]bool) {
	s.damping.sort(src)
	if replica, placed := s.store.Placed(src.key); placed {
		touched[replica] = true
	}
}

// keptReady reports whether a pod is taken for ready and says that it is not: one that
// waited when it turned goes on waiting.
func (s *State) keptReady(src *dampedSource, pod string) bool {
	return s.readiness.keeps(syncer.Key{Namespace: src.key.Namespace, Name: pod}) != ""
}

// noteGap takes in a pod that a list shows.
func (s *State) noteGap(v *podVersion) {
	if s.damping.total == 0 {
		return
	}
	if rv, held := s.store.PodRevision(v.Object.Key); held && rv != v.RV {
		s.damping.gaps = append(s.damping.gaps, v.Object.Key)
	}
}

// fillGaps lets those wait anew that may have turned while nobody looked.
func (s *State) fillGaps(now time.Time) {
	for _, key := range s.damping.gaps {
		p := s.store.Pod(key)
		if p == nil {
			continue
		}
		for _, service := range s.store.Selecting(p) {
			if src := s.damping.waiting[service]; src != nil && src.pods[key.Name].waits() {
				src.pods[key.Name].since = now
			}
		}
	}
	s.damping.gaps = nil
}

// letReturn ends the waiting of an endpoint. It may replace what is held.
func (s *State) letReturn(src *dampedSource, pod, event string, out *Effects) []store.Dirty {
	src.forget(pod)
	s.damping.sort(src)
	p := s.store.Pod(syncer.Key{Namespace: src.key.Namespace, Name: pod})
	replica, placed := s.store.Placed(src.key)
	if p == nil || !placed {
		return nil
	}
	cause := (*pods)(nil).cause(p, 0, event)
	cause.Live = false
	dirty := []store.Dirty{{Replica: replica, Source: src.key, Effect: syncer.Addition}}
	s.announce(out, Change{Cause: cause, Dirty: slices.Clone(dirty)})
	return dirty
}

// expireDamping lets return what has been ready for long enough.
func (s *State) expireDamping(now time.Time, out *Effects) {
	replicas := map[syncer.Key]bool{}
	var dirty []store.Dirty
	for _, service := range slices.SortedFunc(maps.Keys(s.damping.waiting), syncer.Key.Compare) {
		src := s.damping.waiting[service]
		for _, name := range slices.Sorted(maps.Keys(src.pods)) {
			if d := src.pods[name]; d.waits() && now.Sub(d.since) >= src.StableFor && !s.keptReady(src, name) {
				dirty = append(dirty, s.letReturn(src, name, "stable", out)...)
			}
		}
		s.touch(src, replicas)
	}
	s.rejudge(now, dirty, out)
	s.reportAlone(replicas, out)
}

// redamp takes in another configuration, after what that has changed of pods.
func (s *State) redamp(now time.Time, out *Effects) {
	if !s.damping.on {
		return
	}
	was := maps.Clone(s.damping.waiting)
	s.damp(now, out)
	var dirty []store.Dirty
	for _, replica := range s.store.Replicas() {
		for _, service := range s.store.Sources(replica) {
			s.reselect(now, service, true, map[syncer.Key]bool{})
			if was[service] != nil && s.damping.waiting[service] == nil {
				dirty = append(dirty, store.Dirty{Replica: replica, Source: service, Effect: syncer.Addition})
			}
		}
	}
	s.announce(out, Change{Cause: Cause{Kind: "Config", Event: "config"}, Dirty: dirty, Bulk: true})
}
