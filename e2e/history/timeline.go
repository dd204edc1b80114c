// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// change is the beginning or end of a fact on one side.
type change struct {
	at time.Duration
	on bool
	// event is the index of the cause.
	event int
	// blamed: tributary may have caused it. Never set on the members' side.
	blamed bool
	// serving is how many endpoints of the replica serve in this kind after the event;
	// flipped: the event changed the endpoint's state; made: the event created the object; other
	// is since when the other kind has the endpoint, at where it does not. Only on the ingress side.
	serving       int
	flipped, made bool
	other         time.Duration
}

// line is the timeline of one fact on both sides. On each side every change is the
// opposite of the one before.
type line struct {
	Fact
	// wanted0 and shown0 are the values after the first lists.
	wanted0, shown0 bool
	wanted, shown   []change
}

func valueAt(first bool, changes []change, at time.Duration) bool {
	value := first
	for _, c := range changes {
		if c.at > at {
			break
		}
		value = c.on
	}
	return value
}

// held reports whether a side had the value at some time between from and to.
func held(first bool, changes []change, value bool, from, to time.Duration) bool {
	if valueAt(first, changes, from) == value {
		return true
	}
	return slices.ContainsFunc(changes, func(c change) bool { return c.on == value && from <= c.at && c.at <= to })
}

// replay computes the lines of a history.
type replay struct {
	h *History
	// origin is the member of each pod that ever existed.
	origin map[string]string
	pods   map[string]map[Key]*corev1.Pod
	// services and wanted are by member.
	services map[string]map[Key]*corev1.Service
	wanted   map[string]map[Key]map[Fact]bool
	// objects are in the ingress cluster; shows counts the objects that show a fact,
	// serving the serving facts of a replica by kind.
	objects map[objectKey]metav1.Object
	shows   map[Fact]int
	shown   map[Fact]int           // the same by stateless fact
	since   map[Fact]time.Duration // from when that is more than 0
	serving map[share]int
	lines   map[Fact]*line
}

type objectKey struct {
	Kind Kind
	Key  Key
}

type share struct {
	Kind    Kind
	Replica Key
}

func replayed(h *History) *replay {
	r := &replay{
		h: h, origin: map[string]string{}, pods: map[string]map[Key]*corev1.Pod{},
		services: map[string]map[Key]*corev1.Service{}, wanted: map[string]map[Key]map[Fact]bool{},
		objects: map[objectKey]metav1.Object{}, shows: map[Fact]int{}, shown: map[Fact]int{}, since: map[Fact]time.Duration{}, serving: map[share]int{}, lines: map[Fact]*line{},
	}
	for _, m := range h.Members {
		r.pods[m], r.services[m], r.wanted[m] = map[Key]*corev1.Pod{}, map[Key]*corev1.Service{}, map[Key]map[Fact]bool{}
	}
	for i := range h.Events {
		if p, ok := h.Events[i].Object.(*corev1.Pod); ok && r.origin[string(p.UID)] == "" { // a copied store has the pods of another member
			r.origin[string(p.UID)] = h.Events[i].Cluster
		}
	}
	for i := range h.Events {
		e := &h.Events[i]
		if !h.covers(e.Key.Namespace) {
			continue
		}
		if e.Cluster == h.Ingress {
			r.ingress(i, e)
		} else {
			r.member(i, e)
		}
	}
	return r
}

// first reports whether an event belongs to the first lists.
func first(e *Event) bool { return e.At == 0 && e.Listed }

func (r *replay) line(f Fact) *line {
	l := r.lines[f]
	if l == nil {
		l = &line{Fact: f}
		r.lines[f] = l
	}
	return l
}

// member applies an event of a member, which may change what its Services want.
func (r *replay) member(index int, e *Event) {
	touched := map[Key]bool{}
	switch e.Kind {
	case Service:
		touched[e.Key] = true
		if s, ok := e.Object.(*corev1.Service); ok {
			r.services[e.Cluster][e.Key] = s
		} else {
			delete(r.services[e.Cluster], e.Key)
		}
	case Pod:
		before := r.pods[e.Cluster][e.Key]
		after, _ := e.Object.(*corev1.Pod)
		if after != nil {
			r.pods[e.Cluster][e.Key] = after
		} else {
			delete(r.pods[e.Cluster], e.Key)
		}
		for key, s := range r.services[e.Cluster] {
			if before != nil && selects(s, before) || after != nil && selects(s, after) {
				touched[key] = true
			}
		}
	}
	for key := range touched {
		r.want(index, e, key)
	}
}

func (r *replay) want(index int, e *Event, key Key) {
	before, after := r.wanted[e.Cluster][key], map[Fact]bool{}
	if s := r.services[e.Cluster][key]; s != nil {
		after = Wanted(e.Cluster, s, maps.Values(r.pods[e.Cluster]))
	}
	r.wanted[e.Cluster][key] = after
	note := func(f Fact, on bool) {
		l := r.line(f)
		if first(e) {
			l.wanted0 = on
		} else {
			l.wanted = append(l.wanted, change{at: e.At, on: on, event: index})
		}
	}
	differences(before, after, note)
}

// differences calls note for each fact that is in only one of two sets.
func differences(before, after map[Fact]bool, note func(Fact, bool)) {
	for f := range before {
		if !after[f] {
			note(f, false)
		}
	}
	for f := range after {
		if !before[f] {
			note(f, true)
		}
	}
}

// ingress applies an event of the ingress cluster.
func (r *replay) ingress(index int, e *Event) {
	key := objectKey{e.Kind, e.Key}
	before, after, made := r.facts(r.objects[key]), r.facts(e.Object), r.objects[key] == nil
	if e.Object == nil {
		delete(r.objects, key)
	} else {
		r.objects[key] = e.Object
	}
	var changed []*line
	had := map[Fact]int{}
	differences(before, after, func(f Fact, on bool) {
		step := 1
		if !on {
			step = -1
		}
		count := r.shows[f]
		r.shows[f] = count + step
		if _, noted := had[stateless(f)]; !noted {
			had[stateless(f)] = r.shown[stateless(f)]
		}
		r.shown[stateless(f)] += step
		if count > 0 && count+step > 0 {
			return // another slice shows it, too: endpoints move between slices
		}
		if f.serves() {
			r.serving[share{f.Kind, f.Replica}] += step
		}
		l := r.line(f)
		if first(e) {
			l.shown0 = on
			return
		}
		l.shown = append(l.shown, change{at: e.At, on: on, event: index, blamed: !e.Listed && !e.ByHand, made: made})
		changed = append(changed, l)
	})
	for f, n := range had {
		if n == 0 {
			r.since[f] = e.At
		}
	}
	sides := map[Fact]int{} // how many states of an endpoint began or ended
	for _, l := range changed {
		sides[stateless(l.Fact)]++
	}
	for _, l := range changed {
		other := stateless(l.Fact)
		l.shown[len(l.shown)-1].flipped = sides[other] == 2
		other.Kind = map[Kind]Kind{Endpoints: EndpointSlice, EndpointSlice: Endpoints}[other.Kind]
		if l.shown[len(l.shown)-1].other = e.At; r.shown[other] > 0 {
			l.shown[len(l.shown)-1].other = r.since[other]
		}
		l.shown[len(l.shown)-1].serving = r.serving[share{l.Kind, l.Replica}]
	}
}

// stateless returns the fact without its state.
func stateless(f Fact) Fact {
	f.State = ""
	return f
}

func (r *replay) facts(object metav1.Object) map[Fact]bool {
	switch o := object.(type) {
	case *corev1.Endpoints, *discoveryv1.EndpointSlice:
		return r.h.Installation.Shown(o, func(uid string) string { return r.origin[uid] })
	}
	return nil
}

// sorted returns the lines in a fixed order.
func (r *replay) sorted() []*line {
	return slices.SortedFunc(maps.Values(r.lines), func(a, b *line) int { return compareFacts(a.Fact, b.Fact) })
}
