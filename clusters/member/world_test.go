// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// epoch is when every history begins.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a member's state between streams that a test plays and an ingress cluster to
// which every share is written at once.
type world struct {
	state     *State
	now       time.Time
	published map[syncer.Key][]syncer.Endpoint
	// services are the replicas that exist.
	services map[syncer.Key]bool
	asked    []Question
	// wants is true while the state waits for a Published.
	wants bool
}

func newWorld(c Config) *world {
	w := &world{now: epoch, published: map[syncer.Key][]syncer.Endpoint{}, services: map[syncer.Key]bool{}}
	w.begin(c)
	return w
}

// begin starts with a new state, as a new process does.
func (w *world) begin(c Config) { w.state, w.asked, w.wants = New(w.now, c), nil, false }

// seen is the event of a stream that shows an object.
func seen[T Object](scope Scope, v store.Versioned[T], arrived time.Time) Event {
	e := &Shown[T]{Scope: scope, Revision: v.Revision, Object: &v, Arrived: arrived}
	switch o := any(&v.Object).(type) {
	case *syncer.Pod:
		e.Key, e.UID = o.Key, o.UID
	case *syncer.Service:
		e.Key, e.UID = o.Key, o.UID
	case *store.HandEndpoints:
		e.Key, e.UID = o.Key, o.UID
	case *store.HandSlice:
		e.Key, e.UID = o.Key, o.UID
	}
	return e
}

// gone is the event of a stream that an object is gone; without a key, that it has reached a revision.
func gone(scope Scope, key syncer.Key, uid string, revision uint64, arrived time.Time) Event {
	switch scope.Kind {
	case Pods:
		return &Shown[syncer.Pod]{scope, key, uid, revision, nil, arrived}
	case Services:
		return &Shown[syncer.Service]{scope, key, uid, revision, nil, arrived}
	case Endpoints:
		return &Shown[store.HandEndpoints]{scope, key, uid, revision, nil, arrived}
	}
	return &Shown[store.HandSlice]{scope, key, uid, revision, nil, arrived}
}

// step plays an event and writes the dirty replicas. It returns the effects, and the replicas
// that were written.
func (w *world) step(e Event) (Effects, []syncer.Key) {
	if _, told := e.(Published); told {
		w.wants = false
	}
	effects := w.state.Step(w.now, e)
	w.asked = append(w.asked, effects.Ask...)
	w.wants = w.wants || effects.WantPublished
	var written []syncer.Key
	for _, c := range effects.Dirty {
		if w.write(c.Replica) {
			written = append(written, c.Replica)
		}
	}
	return effects, slices.Compact(written)
}

// write writes the share of a replica and reports whether anything changed.
func (w *world) write(replica syncer.Key) bool {
	want, service := w.wanted(replica)
	if service == w.services[replica] && sameEndpoints(want, w.published[replica]) {
		return false
	}
	if w.published[replica], w.services[replica] = want, service; !service {
		delete(w.published, replica)
		delete(w.services, replica)
	}
	return true
}

// wanted is what should be published of the member in a replica, by its share.
func (w *world) wanted(replica syncer.Key) (want []syncer.Endpoint, service bool) {
	share := w.state.Give(replica)
	if share.Listed {
		want = slices.Clone(share.Given.Endpoints)
	}
	for _, e := range w.published[replica] {
		contributed := slices.ContainsFunc(want, func(g syncer.Endpoint) bool { return g.Addr == e.Addr && g.Target == e.Target })
		as, ok := e, !share.Listed
		if share.Keep != nil {
			as, ok = share.Keep(e)
		}
		if ok && !contributed {
			want = append(want, as)
		}
	}
	for i := range want {
		if share.Reserve != "" {
			want[i].Grade = min(want[i].Grade, syncer.Reserve)
		}
	}
	slices.SortFunc(want, func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) })
	service = share.Given.Service != nil && share.Listed || share.SourceOpen && w.services[replica] || len(want) > 0
	return want, service
}

// forgotten returns the replicas that a write would change although they were not marked dirty.
func (w *world) forgotten() (all []syncer.Key) {
	keys := slices.Collect(w.state.tables.Replicas())
	for replica := range w.services {
		keys = append(keys, replica)
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	for _, replica := range slices.Compact(keys) {
		want, service := w.wanted(replica)
		if service != w.services[replica] || !sameEndpoints(want, w.published[replica]) {
			all = append(all, replica)
		}
	}
	return all
}

func sameEndpoints(a, b []syncer.Endpoint) bool {
	return slices.EqualFunc(a, b, func(a, b syncer.Endpoint) bool { return a.Grade == b.Grade && a.Equal(&b) })
}

// publishedEvent is what is published, as the state is told of it.
func (w *world) publishedEvent() Published {
	all := Published{}
	for replica := range w.services {
		all[replica] = slices.Clone(w.published[replica])
	}
	return all
}

// question takes one that was asked about an object off the list.
func (w *world) question(kind Kind, key syncer.Key) (Question, bool) {
	i := slices.IndexFunc(w.asked, func(q Question) bool { return q.Kind == kind && q.Key == key })
	if i < 0 {
		return Question{}, false
	}
	q := w.asked[i]
	w.asked = slices.Delete(w.asked, i, i+1)
	return q, true
}

// text renders what is published in a replica.
func (w *world) text(replica syncer.Key) string {
	if !w.services[replica] {
		return "none"
	}
	out := []string{}
	for _, e := range w.published[replica] {
		text := e.Addr.String()
		switch {
		case e.Terminating:
			text += " terminating"
		case e.Grade != syncer.Ready:
			text += " " + strings.ReplaceAll(e.Grade.String(), "_", " ")
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, ", "), "empty")
}

// short is a key without the namespace that most have.
func short(key syncer.Key) string { return strings.TrimPrefix(key.String(), "shop/") }

func (s Scope) String() string {
	text := [...]string{"pods", "services", "endpoints", "slices"}[s.Kind]
	return strings.TrimRight(text+"/"+s.Namespace+"/"+s.Name, "/")
}
