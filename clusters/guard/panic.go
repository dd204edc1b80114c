// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// mass reports whether the pods that turned not ready within Window are too many
// to be believed. One Service that goes to none ready is a bad roll-out, however
// large its share of the member: unless the nodes are silent, the others must have
// lost their share as well.
func (r *Readiness) mass(now time.Time, l Limits, w World) bool {
	r.expire(now)
	if l.PanicPercent <= 0 || r.dropped < l.MinEndpoints || !exceeds(r.dropped, r.ready+r.dropped, l.PanicPercent) {
		return false
	}
	if r.silent*2 > r.dropped {
		return true
	}
	var first syncer.Key
	most := 0
	for replica, n := range r.replicas {
		if n > most || n == most && replica.Compare(first) < 0 {
			first, most = replica, n
		}
	}
	ready, _ := w.ReadyEndpoints(first)
	others := r.dropped - most
	return others > 0 && exceeds(others, others+max(0, r.ready-ready), l.PanicPercent)
}

// enter begins a panic and returns the pods that must be taken anew: those that
// turned not ready before it was noticed.
func (r *Readiness) enter(now time.Time) (restore []PodVersion) {
	r.panicAt, r.worst = now, r.kept
	for _, d := range r.recent {
		if !d.recent || d.panic {
			continue
		}
		before := d.kept()
		d.panic = true
		if !before {
			r.keep(1)
			restore = append(restore, d.shown())
		}
	}
	return restore
}

// Tick lets time pass: holds for silent nodes run out, and a panic ends once the
// share of pods that are down has fallen to half of what begins one. It returns
// the pods to take anew.
func (r *Readiness) Tick(now time.Time, l Limits) (release []PodVersion) {
	r.expire(now)
	for _, d := range r.down {
		if !d.until.IsZero() && (!now.Before(d.until) || l.HoldSilent <= 0) {
			d.until = time.Time{}
			if !d.panic {
				release = append(release, r.let(d))
			}
		}
	}
	if !r.panicAt.IsZero() && (l.PanicPercent <= 0 || !exceeds(2*r.kept, r.ready+r.kept, l.PanicPercent)) {
		release = append(release, r.endPanic()...)
	}
	return sorted(release)
}

// endPanic lets go of the pods that nothing else keeps. They do not count towards
// the next panic.
func (r *Readiness) endPanic() (release []PodVersion) {
	r.panicAt = time.Time{}
	for _, d := range r.down {
		if d.panic {
			if d.panic = false; !d.kept() {
				release = append(release, r.let(d))
			}
		}
	}
	for _, d := range r.recent {
		r.count(d, -1)
		if !d.kept() && r.down[d.truth.Object.Key] == d {
			delete(r.down, d.truth.Object.Key)
		}
	}
	r.recent = nil
	return release
}

// Release lets go of the pods that match and returns them as they are in truth.
// nil matches all and ends the panic.
func (r *Readiness) Release(match func(pod syncer.Key) bool) (release []PodVersion) {
	for key, d := range r.down {
		if d.kept() && (match == nil || match(key)) {
			d.panic, d.until = false, time.Time{}
			release = append(release, r.let(d))
		}
	}
	if match == nil {
		r.endPanic()
	}
	return sorted(release)
}

// let ends the keeping of a pod.
func (r *Readiness) let(d *downPod) PodVersion {
	r.keep(-1)
	if !d.recent {
		delete(r.down, d.truth.Object.Key)
	}
	return d.truth
}

func sorted(pods []PodVersion) []PodVersion {
	slices.SortFunc(pods, func(a, b PodVersion) int { return a.Object.Key.Compare(b.Object.Key) })
	return pods
}

// Kept says what is kept ready.
type Kept struct {
	// Panic is when the panic began; zero when there is none. Worst is the most pods
	// that were kept in it.
	Panic time.Time
	Worst int
	// Pods counts what is kept, Ready the pods that are ready in truth; Silent those
	// of Pods that are kept for a silent node alone, First since when.
	Pods, Ready, Silent int
	First               time.Time
}

// Kept says what is kept ready.
func (r *Readiness) Kept() Kept {
	k := Kept{Panic: r.panicAt, Worst: r.worst, Pods: r.kept, Ready: r.ready}
	if r.kept == 0 {
		return k
	}
	for _, d := range r.down {
		if d.kept() && !d.panic {
			k.Silent++
			if k.First.IsZero() || d.at.Before(k.First) {
				k.First = d.at
			}
		}
	}
	return k
}
