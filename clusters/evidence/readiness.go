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

// podVersion is a pod as the member shows it, with its revision.
type podVersion = store.Versioned[syncer.Pod]

// window is the time within which pods that turn not ready, and losses, add up.
const window = time.Minute

// readiness watches the pods of one member turn not ready. It keeps ready what
// turned so only because a node fell silent, for as long as the limits say, and
// all of it once too many turn at once: then the member is in panic, because a
// network, a load balancer or a controller that failed is likelier than that most
// applications did. A pod whose deletion has begun, that has finished, or that
// another one has replaced is never kept. A panic is about endpoints: pods that no
// replicated Service selects do not count.
type readiness struct {
	// down are the pods that turned not ready within window or are kept.
	down map[syncer.Key]*downPod
	// recent are those that turned within window, in that order.
	recent []*downPod
	// dropped counts the recent ones that are down still and serve, silent those of
	// them whose node is silent.
	dropped, silent int
	// kept counts those that are kept, keptServing those of them that serve.
	kept, keptServing int
	panicAt           time.Time // zero: no panic
	// paused is a panic that only namespaces out of sight may be in: it keeps theirs as they
	// are, and nothing else, until they are seen again.
	paused bool
	// byAddr are those that are kept; fresh is true since one of them came.
	byAddr map[netip.Addr][]*downPod
	fresh  bool
	worst  int // most pods kept in this panic
	// fallen are those that turned not ready in the panic of a former process, and of which
	// nothing stood: they are down as well, and not kept.
	fallen []syncer.Key
	// live are those of recent that count; passed is how many dropped were no panic when all
	// were looked at last.
	live, passed int
	passedAt     time.Time
	// unlooked is true while some dropped since that were not worth a look at all.
	unlooked bool
}

// downPod is a pod that was ready and is not.
type downPod struct {
	reported   podVersion
	readySince int64 // as it was
	at         time.Time
	// serves is true where some replicated Service selects it, as of the last recount; stood
	// are the replicas in which it stood as it turned.
	serves bool
	stood  []*baselineReplica
	addrs  []netip.Addr // that it is filed under
	recent bool         // counted in dropped
	panic  bool         // kept for a panic
	until  time.Time    // kept for a silent node until then; zero: not
}

func (d *downPod) kept() bool { return d.panic || !d.until.IsZero() }

// override is the pod as it is to be taken.
func (d *downPod) override() podVersion {
	if !d.kept() {
		return d.reported
	}
	v := d.reported
	v.Object.Ready, v.Object.NodeSilent, v.Object.ReadySince = true, false, d.readySince
	return v
}

// usable reports whether a pod is an endpoint that may be ready.
func usable(p *syncer.Pod) bool {
	return p != nil && !p.Terminal && !p.Terminating() && len(p.IPs) > 0
}

// samePod reports whether updated is old with news, not another pod of its name.
func samePod(old, updated *syncer.Pod) bool {
	return old.UID == updated.UID && len(old.IPs) > 0 && len(updated.IPs) > 0 && old.IPs[0].Addr == updated.IPs[0].Addr
}

// note takes in a pod as the member shows it: before is the pod as it was taken, or
// nil. It reports whether it has turned not ready.
func (r *readiness) note(now time.Time, l Limits, before *syncer.Pod, v podVersion, serves bool) (dropped bool) {
	p := &v.Object
	d := r.down[p.Key]
	isReady := usable(p) && p.Ready
	switch {
	case d != nil && (isReady || !usable(p) || !samePod(&d.reported.Object, p)):
		r.forget(d)
	case d != nil:
		r.update(d, v, now)
	case usable(before) && before.Ready && !isReady && usable(p) && samePod(before, p):
		r.drop(now, l, before, v, serves)
		return serves && !r.panics()
	}
	return false
}

// keeps is why a pod is kept ready that is not, if it is.
func (r *readiness) keeps(pod syncer.Key) HoldReason {
	switch d := r.down[pod]; {
	case d == nil || !d.kept():
		return ""
	case d.panic:
		return HoldPanic
	default:
		return HoldSilentNode
	}
}

// view is a pod as it is to be taken.
func (r *readiness) view(v podVersion) podVersion {
	if d := r.down[v.Object.Key]; d != nil {
		return d.override()
	}
	return v
}

// drop notes a pod that turned not ready.
func (r *readiness) drop(now time.Time, l Limits, before *syncer.Pod, v podVersion, serves bool) {
	d := &downPod{reported: v, readySince: before.ReadySince, at: now, serves: serves}
	if v.Object.NodeSilent && l.HoldSilent > 0 {
		d.until = now.Add(l.HoldSilent)
	}
	d.panic = serves && r.panics()
	if d.kept() {
		r.keep(d, 1)
	}
	if r.down == nil {
		r.down = map[syncer.Key]*downPod{}
	}
	r.down[v.Object.Key] = d
	r.recent = append(r.recent, d)
	r.count(d, 1)
	if len(r.recent) > 2*r.live+64 { // pods that flap
		r.recent = slices.DeleteFunc(r.recent, func(d *downPod) bool { return !d.recent })
	}
}

// update takes in news of a pod that is still down. A node that was silent and
// speaks again says what the containers are like: that is hard evidence.
func (r *readiness) update(d *downPod, v podVersion, now time.Time) {
	counted := d.recent
	r.count(d, -1)
	before := d.kept()
	d.reported = v
	if !v.Object.NodeSilent || !d.until.IsZero() && !now.Before(d.until) {
		d.until = time.Time{}
	}
	if before && !d.kept() {
		r.keep(d, -1)
	} else {
		r.file(d, before)
	}
	if counted {
		r.count(d, 1)
	}
}

// gone takes in that a pod was removed.
func (r *readiness) gone(pod syncer.Key) {
	if d := r.down[pod]; d != nil {
		r.forget(d)
	}
}

// forget lets go of a pod: it is ready again, or gone.
func (r *readiness) forget(d *downPod) {
	r.count(d, -1)
	if d.kept() {
		r.keep(d, -1)
	}
	d.panic, d.until = false, time.Time{}
	delete(r.down, d.reported.Object.Key)
}

func (r *readiness) keep(d *downPod, n int) {
	r.kept += n
	r.file(d, n > 0)
	if d.serves {
		r.keptServing += n
	}
	r.worst = max(r.worst, r.kept)
}

// file files a pod under its addresses, or no more.
func (r *readiness) file(d *downPod, kept bool) {
	for _, addr := range d.addrs {
		takeFrom(r.byAddr, addr, d)
	}
	if d.addrs = nil; !kept {
		return
	}
	if r.byAddr == nil {
		r.byAddr = map[netip.Addr][]*downPod{}
	}
	r.fresh, d.addrs = true, addressesOf(&d.reported.Object)
	for _, addr := range d.addrs {
		r.byAddr[addr] = append(r.byAddr[addr], d)
	}
}

// count adds a pod to the recent ones or takes it from them.
func (r *readiness) count(d *downPod, n int) {
	if (n > 0) == d.recent {
		return
	}
	d.recent = n > 0
	r.live += n
	if !d.serves {
		return
	}
	r.dropped += n
	if d.reported.Object.NodeSilent {
		r.silent += n
	}
}

// recount asks anew which pods serve: Services come, go, and select others.
func (r *readiness) recount(serves func(*downPod) bool) {
	for _, d := range r.down {
		if is := serves(d); is != d.serves {
			recent, kept := d.recent, d.kept()
			r.count(d, -1)
			if kept {
				r.keep(d, -1)
			}
			if d.serves = is; kept {
				r.keep(d, 1)
			}
			if recent {
				r.count(d, 1)
			}
		}
	}
}

// expire takes what turned not ready too long ago out of the recent ones.
func (r *readiness) expire(now time.Time) {
	n := 0
	for n < len(r.recent) && now.Sub(r.recent[n].at) >= window {
		d := r.recent[n]
		r.count(d, -1)
		if !d.kept() && r.down[d.reported.Object.Key] == d {
			delete(r.down, d.reported.Object.Key)
		}
		n++
	}
	if r.recent = r.recent[n:]; len(r.recent) == 0 {
		r.recent = nil
	}
}
