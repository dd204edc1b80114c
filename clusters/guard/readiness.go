// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// PodVersion is a pod as the member shows it, with its revision.
type PodVersion = store.Versioned[syncer.Pod]

// Readiness watches the pods of one member turn not ready. It keeps ready what
// turned so only because a node fell silent, for as long as the limits say, and
// all of it once too many turn at once: then the member is in panic, because a
// network, a load balancer or a controller that failed is likelier than that most
// applications did. A pod whose deletion has begun, that has finished, or that
// another one has replaced is never kept.
//
// The zero value is ready. It is not safe for concurrent use.
type Readiness struct {
	// ready counts the pods that are ready in truth.
	ready int
	// down are the pods that turned not ready within Window or are kept.
	down map[syncer.Key]*downPod
	// recent are those that turned within Window, in that order.
	recent []*downPod
	// dropped counts the recent ones that are down still, silent those of them whose
	// node is silent, replicas those of a replica.
	dropped, silent int
	replicas        map[syncer.Key]int
	// kept counts those that are kept.
	kept    int
	panicAt time.Time // zero: no panic
	worst   int       // most pods kept in this panic
}

// downPod is a pod that was ready and is not.
type downPod struct {
	truth      PodVersion
	readySince int64 // as it was
	at         time.Time
	replicas   []syncer.Key
	recent     bool      // counted in dropped
	panic      bool      // kept for a panic
	until      time.Time // kept for a silent node until then; zero: not
}

func (d *downPod) kept() bool { return d.panic || !d.until.IsZero() }

// shown is the pod as it is to be taken.
func (d *downPod) shown() PodVersion {
	if !d.kept() {
		return d.truth
	}
	v := d.truth
	v.Object.Ready, v.Object.NodeSilent, v.Object.ReadySince = true, false, d.readySince
	return v
}

// World answers what Readiness must know of the member.
type World interface {
	// ReplicasOf returns the replicas that a pod may be an endpoint of.
	ReplicasOf(pod syncer.Key) []syncer.Key
	// ReadyEndpoints counts the ready endpoints given to a replica.
	ReadyEndpoints(replica syncer.Key) (ready int, known bool)
}

// usable reports whether a pod is an endpoint that may be ready.
func usable(p *syncer.Pod) bool {
	return p != nil && !p.Terminal && !p.Terminating() && len(p.IPs) > 0
}

// samePod reports whether updated is old with news, not another pod of its name.
func samePod(old, updated *syncer.Pod) bool {
	return old.UID == updated.UID && len(old.IPs) > 0 && len(updated.IPs) > 0 && old.IPs[0].Addr == updated.IPs[0].Addr
}

// Saw takes in a pod as a watch shows it; held is the pod as the store has it, or
// nil. It returns the pod as it is to be taken, and others that are to be taken
// anew because a panic has begun.
func (r *Readiness) Saw(now time.Time, l Limits, w World, held *syncer.Pod, v PodVersion) (take PodVersion, restore []PodVersion) {
	if r.note(now, l, w, held, v) && r.mass(now, l, w) {
		key := v.Object.Key
		restore = slices.DeleteFunc(r.enter(now), func(v PodVersion) bool { return v.Object.Key == key })
	}
	return r.view(v), restore
}

// List takes in a complete list; held returns a pod as the store has it, or nil.
// The items become what is to be taken of them. Recount must follow once they
// are.
func (r *Readiness) List(now time.Time, l Limits, w World, held func(syncer.Key) *syncer.Pod, items []PodVersion) {
	dropped := false
	for i := range items {
		dropped = r.note(now, l, w, held(items[i].Object.Key), items[i]) || dropped
	}
	if dropped && r.mass(now, l, listed{w, items}) {
		r.enter(now)
	}
	for i := range items {
		items[i] = r.view(items[i])
	}
}

// Remember takes in pods that are not ready and were when the process before this one
// was seen last: they were kept ready by it, or turned not ready while nobody was
// looking. They count as if they turned now. It returns those that are to be taken
// anew.
func (r *Readiness) Remember(now time.Time, l Limits, w World, pods []PodVersion) (restore []PodVersion) {
	dropped := false
	for _, v := range pods {
		if p := &v.Object; usable(p) && !p.Ready && r.down[p.Key] == nil {
			r.drop(now, l, w, p, v)
			dropped = true
		}
	}
	if dropped && r.panicAt.IsZero() && r.mass(now, l, w) {
		r.enter(now)
	}
	for _, d := range r.down {
		if d.kept() {
			restore = append(restore, d.shown())
		}
	}
	return sorted(restore)
}

// listed is the world as a list shows it that has not been applied yet.
type listed struct {
	World
	items []PodVersion
}

// ReadyEndpoints implements World.
func (w listed) ReadyEndpoints(replica syncer.Key) (ready int, known bool) {
	for i := range w.items {
		p := &w.items[i].Object
		if usable(p) && p.Ready && slices.Contains(w.ReplicasOf(p.Key), replica) {
			ready++
		}
	}
	return ready, true
}

// note takes in a pod and reports whether it has turned not ready.
func (r *Readiness) note(now time.Time, l Limits, w World, held *syncer.Pod, v PodVersion) (dropped bool) {
	p := &v.Object
	d := r.down[p.Key]
	wasReady := usable(held) && held.Ready && (d == nil || !d.kept())
	isReady := usable(p) && p.Ready
	if wasReady {
		r.ready--
	}
	if isReady {
		r.ready++
	}
	switch {
	case d != nil && (isReady || !usable(p) || !samePod(&d.truth.Object, p)):
		r.forget(d)
	case d != nil:
		r.update(d, v, now)
	case wasReady && !isReady && usable(p) && samePod(held, p):
		r.drop(now, l, w, held, v)
		return r.panicAt.IsZero()
	}
	return false
}

// Keeps says for what a pod is kept ready that is not: a panic or a silent node.
func (r *Readiness) Keeps(pod syncer.Key) (panic, silentNode bool) {
	d := r.down[pod]
	return d != nil && d.panic, d != nil && !d.panic && d.kept()
}

// Truth returns a pod that is kept ready as the member shows it; kept is false for
// any other.
func (r *Readiness) Truth(pod syncer.Key) (truth syncer.Pod, kept bool) {
	if d := r.down[pod]; d != nil && d.kept() {
		return d.truth.Object, true
	}
	return syncer.Pod{}, false
}

// view is a pod as it is to be taken.
func (r *Readiness) view(v PodVersion) PodVersion {
	if d := r.down[v.Object.Key]; d != nil {
		return d.shown()
	}
	return v
}

// drop notes a pod that turned not ready.
func (r *Readiness) drop(now time.Time, l Limits, w World, held *syncer.Pod, v PodVersion) {
	d := &downPod{truth: v, readySince: held.ReadySince, at: now, replicas: w.ReplicasOf(v.Object.Key)}
	if v.Object.NodeSilent && l.HoldSilent > 0 {
		d.until = now.Add(l.HoldSilent)
	}
	d.panic = !r.panicAt.IsZero()
	if d.kept() {
		r.keep(1)
	}
	if r.down == nil {
		r.down, r.replicas = map[syncer.Key]*downPod{}, map[syncer.Key]int{}
	}
	r.down[v.Object.Key] = d
	r.recent = append(r.recent, d)
	r.count(d, 1)
}

// update takes in news of a pod that is still down. A node that was silent and
// speaks again says what the containers are like: that is hard evidence.
func (r *Readiness) update(d *downPod, v PodVersion, now time.Time) {
	counted := d.recent
	r.count(d, -1)
	before := d.kept()
	d.truth = v
	if !v.Object.NodeSilent || !d.until.IsZero() && !now.Before(d.until) {
		d.until = time.Time{}
	}
	if before && !d.kept() {
		r.keep(-1)
	}
	if counted {
		r.count(d, 1)
	}
}

// Gone takes in that a pod was removed; held is the pod as the store had it.
func (r *Readiness) Gone(held *syncer.Pod) {
	if held == nil {
		return
	}
	d := r.down[held.Key]
	if usable(held) && held.Ready && (d == nil || !d.kept()) {
		r.ready--
	}
	if d != nil {
		r.forget(d)
	}
}

// Recount takes in the pods as the store has them, after a list was applied.
func (r *Readiness) Recount(pods []*syncer.Pod) {
	r.ready = 0
	there := make(map[syncer.Key]bool, len(r.down))
	for _, p := range pods {
		d := r.down[p.Key]
		if d != nil {
			there[p.Key] = true
		}
		if usable(p) && p.Ready && (d == nil || !d.kept()) {
			r.ready++
		}
	}
	for key, d := range r.down {
		if !there[key] {
			r.forget(d)
		}
	}
}

// forget lets go of a pod: it is ready again, or gone.
func (r *Readiness) forget(d *downPod) {
	r.count(d, -1)
	if d.kept() {
		r.keep(-1)
	}
	d.panic, d.until = false, time.Time{}
	delete(r.down, d.truth.Object.Key)
}

func (r *Readiness) keep(n int) {
	r.kept += n
	r.worst = max(r.worst, r.kept)
}

// count adds a pod to the recent ones or takes it from them.
func (r *Readiness) count(d *downPod, n int) {
	if (n > 0) == d.recent {
		return
	}
	d.recent = n > 0
	r.dropped += n
	if d.truth.Object.NodeSilent {
		r.silent += n
	}
	for _, replica := range d.replicas {
		if r.replicas[replica] += n; r.replicas[replica] == 0 {
			delete(r.replicas, replica)
		}
	}
}

// expire takes what turned not ready too long ago out of the recent ones.
func (r *Readiness) expire(now time.Time) {
	n := 0
	for n < len(r.recent) && now.Sub(r.recent[n].at) >= Window {
		d := r.recent[n]
		r.count(d, -1)
		if !d.kept() && r.down[d.truth.Object.Key] == d {
			delete(r.down, d.truth.Object.Key)
		}
		n++
	}
	if r.recent = r.recent[n:]; len(r.recent) == 0 {
		r.recent = nil
	}
}
