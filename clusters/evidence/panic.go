// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// world answers what a panic is judged by: the pods that are ready in truth and serve,
// and for a pod that turned not ready, the Services that select it.
type world struct {
	ready int
	// replicasOf returns the replicas that a pod may be an endpoint of, readyIn counts
	// the ready endpoints of a replica.
	replicasOf func(*syncer.Pod) []syncer.Key
	readyIn    func(syncer.Key) int
	// serves reports whether a replicated Service selects a pod now.
	serves func(*downPod) bool
}

// mass reports whether the pods that turned not ready within window are too many
// to be believed. One Service that goes to none ready is a bad roll-out, however
// large its share of the member: unless the nodes are silent, the others must have
// lost their share as well. A pod counts for the smallest Service that selects it: one
// that selects everything says nothing about who fell.
func (r *readiness) mass(now time.Time, l Limits, w func() world) bool {
	r.expire(now)
	if l.PanicPercent <= 0 || r.dropped < l.MinEndpoints {
		return false
	}
	if r.unlooked = r.lookedAt(now); r.unlooked {
		return false
	}
	r.passed, r.passedAt = r.dropped, now
	is := w()
	if !exceeds(r.dropped, is.ready+r.dropped, l.PanicPercent) {
		return false
	}
	r.recount(is.serves)
	if is = w(); r.dropped < l.MinEndpoints || !exceeds(r.dropped, is.ready+r.dropped, l.PanicPercent) {
		return false
	}
	if r.silent*2 > r.dropped {
		return true
	}
	first, most := r.worstHit(is)
	others := r.dropped - most
	return others > 0 && exceeds(others, others+max(0, is.ready-is.readyIn(first)), l.PanicPercent)
}

// lookedAt reports whether all that dropped was looked at within a second, and hardly more
// has since: of thousands not every one is worth a look at all. Time that passes looks then.
func (r *readiness) lookedAt(now time.Time) bool {
	return now.Sub(r.passedAt) < time.Second && r.dropped >= r.passed && r.dropped-r.passed < r.passed/32
}

// worstHit is the replica with the most pods that turned not ready, each counted for
// the smallest replica that it is in.
func (r *readiness) worstHit(w world) (first syncer.Key, most int) {
	in := map[*downPod][]syncer.Key{}
	size := map[syncer.Key]int{}
	for _, d := range r.recent {
		if d.recent && d.serves {
			in[d] = w.replicasOf(&d.reported.Object)
			for _, replica := range in[d] {
				if _, known := size[replica]; !known {
					size[replica] = w.readyIn(replica)
				}
				size[replica]++
			}
		}
	}
	hit := map[syncer.Key]int{}
	for _, replicas := range in {
		var smallest syncer.Key
		for i, replica := range replicas {
			if i == 0 || size[replica] < size[smallest] {
				smallest = replica
			}
		}
		hit[smallest]++
	}
	for replica, n := range hit {
		if n > most || n == most && replica.Compare(first) < 0 {
			first, most = replica, n
		}
	}
	return first, most
}

// exceeds reports whether n is more than percent of total.
func exceeds(n, total, percent int) bool { return n*100 > total*percent }

// enter begins a panic and returns the pods that must be taken anew: those that
// turned not ready before it was noticed.
func (r *readiness) enter(now time.Time) (restore []podVersion) {
	r.panicAt, r.paused, r.worst = now, false, r.kept
	for _, d := range r.recent {
		if !d.recent || d.panic || !d.serves {
			continue
		}
		before := d.kept()
		d.panic = true
		if !before {
			r.keep(d, 1)
			restore = append(restore, d.override())
		}
	}
	return restore
}

// panics reports whether pods are kept ready because too many turned not ready.
func (r *readiness) panics() bool { return !r.panicAt.IsZero() && !r.paused }

// tick lets time pass: holds for silent nodes run out, and a panic ends once the
// share of pods that are down has fallen to half of what begins one, while whole is true: the
// member was read whole, and no list of pods is on its way that may say more of them. ready counts those that are ready in truth and serve. What is blind counts on neither
// side, and a panic is paused for what it keeps there, or may have kept in what is unlisted:
// nobody saw that it is over. It returns the pods to take anew.
func (r *readiness) tick(now time.Time, l Limits, ready func() int, whole bool, blind []string, unlisted bool) (release []podVersion) {
	r.expire(now)
	for _, d := range r.down {
		if !d.until.IsZero() && (!now.Before(d.until) || l.HoldSilent <= 0) {
			d.until = time.Time{}
			if !d.panic {
				release = append(release, r.let(d))
			}
		}
	}
	down := r.keptServing
	for _, key := range r.fallen {
		if !slices.Contains(blind, key.Namespace) {
			down++
		}
	}
	switch {
	case r.panicAt.IsZero():
	case l.PanicPercent <= 0:
		release = append(release, r.endPanic(nil, false)...)
	case whole && !exceeds(2*down, ready()+down, l.PanicPercent):
		release = append(release, r.endPanic(blind, unlisted)...)
	default:
		r.paused = false
	}
	return sorted(release)
}

// endPanic lets go of the pods that nothing else keeps, but for those that are blind: for
// these, or because there may be more, it is only paused. They do not count towards the next
// panic.
func (r *readiness) endPanic(blind []string, more bool) (release []podVersion) {
	was := r.paused
	r.paused = more
	for _, d := range r.down {
		switch {
		case !d.panic:
		case slices.Contains(blind, d.reported.Object.Namespace):
			r.paused = true
		default:
			if d.panic = false; !d.kept() {
				release = append(release, r.let(d))
			}
		}
	}
	if !r.paused {
		r.panicAt, r.fallen = time.Time{}, nil
	}
	if was {
		return release
	}
	for _, d := range r.recent {
		r.count(d, -1)
		if !d.kept() && r.down[d.reported.Object.Key] == d {
			delete(r.down, d.reported.Object.Key)
		}
	}
	r.recent = nil
	return release
}

// release lets go of the pods that match and returns them as they are in truth.
// nil matches all and ends the panic.
func (r *readiness) release(match func(pod syncer.Key) bool) (free []podVersion) {
	for key, d := range r.down {
		if d.kept() && (match == nil || match(key)) {
			free = append(free, r.let(d))
		}
	}
	if match == nil {
		r.endPanic(nil, false)
	}
	return sorted(free)
}

// let ends the keeping of a pod.
func (r *readiness) let(d *downPod) podVersion {
	d.panic, d.until = false, time.Time{}
	r.keep(d, -1)
	if !d.recent {
		delete(r.down, d.reported.Object.Key)
	}
	return d.reported
}

func sorted(pods []podVersion) []podVersion {
	slices.SortFunc(pods, func(a, b podVersion) int { return a.Object.Key.Compare(b.Object.Key) })
	return pods
}

// silentKept counts the pods that are kept for a silent node alone, and since when.
func (r *readiness) silentKept() (n int, first time.Time) {
	if r.kept == 0 {
		return 0, time.Time{}
	}
	for _, d := range r.down {
		if d.kept() && !d.panic {
			if n++; first.IsZero() || d.at.Before(first) {
				first = d.at
			}
		}
	}
	return n, first
}
