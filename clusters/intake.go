// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// intake is what the watches of one member bring their news to.
type intake struct {
	*shell
	*traffic
	decoder *decode.Decoder
	remarks *remarks
	clock   kube.Clock // of the member
	// maxObjects is how many objects of a kind are taken; 0: any number.
	maxObjects func() int
	// listing is called before a list is taken into the evidence, listed when it was.
	listing, listed func()
	spare           sync.Pool // of events; see BenchmarkPodEvent
}

// watch returns a loop whose settings are those of all watches of a member, beside what
// is given.
func watch[T any](in *intake, source kube.ListWatcher, c kube.Config[T]) *kube.Loop[T] {
	c.MaxObjects, c.Observer, c.Logger = in.maxObjects, in, in.log
	return kube.New(c, source)
}

// handler translates what a watch brings into events of the member's evidence.
type handler[T evidence.Object] struct {
	*intake
	kind evidence.Kind
	// services are those that a list speaks of; nil for kinds that are not about
	// Services.
	services func() []syncer.Key
	// shown and changed are told of lists, and of the watch; nil is not.
	shown   func()
	changed func(kube.State)
}

// Replaced implements kube.Handler.
func (h handler[T]) Replaced(items []store.Versioned[T], r kube.Replacement) {
	h.remarks.remark(h.kind.String(), "")
	if h.shown != nil {
		h.shown()
	}
	list := evidence.Listed[T]{Items: items, Revision: store.Revision(r.ResourceVersion), Begun: r.Begun, Older: r.Older}
	if behind, known := h.clock.Behind(); known {
		list.Clock = time.Now().Add(-behind)
	}
	if h.services != nil {
		list.Services = h.services()
	}
	list.LeftOut = evidence.LeftOut{Namespaces: r.LeftOut, Unlisted: r.Unlisted}
	h.listing()
	h.step(list, r.Finished)
	h.listed()
}

// Upserted implements kube.Handler.
func (h handler[T]) Upserted(v store.Versioned[T], e kube.EventMeta) {
	h.event(h.kind.String(), e.Type)
	seen, ok := h.spare.Get().(*evidence.Seen[T])
	if !ok {
		seen = new(evidence.Seen[T])
	}
	*seen = evidence.Seen[T]{Versioned: v, Created: e.Type == "added"}
	h.step(seen, e.Arrival)
	*seen = evidence.Seen[T]{}
	h.spare.Put(seen)
}

// Deleted implements kube.Handler.
func (h handler[T]) Deleted(v store.Versioned[T], e kube.EventMeta) {
	h.event(h.kind.String(), e.Type)
	h.step(&evidence.Gone[T]{Versioned: v}, e.Arrival)
}

// Contact implements kube.Handler.
func (h handler[T]) Contact(at time.Time, bookmark bool) { h.contact(h.kind.String(), at, bookmark) }

// Changed implements kube.Handler.
func (h handler[T]) Changed(s kube.State) {
	watched := evidence.Watched{Kind: h.kind, Phase: phases[s.Phase], Fault: fault(s.Err), LeftOut: s.LeftOut}
	h.step(watched, time.Now())
	if s.Phase == kube.Following {
		h.remarks.leftOut(h.kind.String(), s.LeftOut, s.Failing)
	}
	if h.changed != nil {
		h.changed(s)
	}
}

var phases = map[kube.Phase]evidence.Phase{
	kube.Listing: evidence.Listing, kube.Following: evidence.Following,
	kube.Waiting: evidence.Waiting, kube.Forbidden: evidence.Denied,
}

// contact notes that the member was heard of.
func (in *intake) contact(resource string, at time.Time, bookmark bool) {
	in.step(evidence.Contact{}, at)
	if bookmark {
		in.event(resource, "bookmark")
	}
}

// Listed implements kube.Observer.
func (in *intake) Listed(resource string, reason kube.Reason, objects int, took time.Duration) {
	in.step(evidence.Contact{}, time.Now())
	in.traffic.Listed(resource, reason, objects, took)
}

// traffic counts what the watches of one member do. It implements kube.Observer.
type traffic struct {
	cluster  string
	observer Observer // may be nil
	log      *slog.Logger
	// undecodable counts what the member sent and could not be used.
	undecodable atomic.Uint64
}

// event counts an event.
func (t *traffic) event(resource, event string) {
	if t.observer != nil {
		t.observer.WatchEvent(t.cluster, resource, event)
	}
}

// Listed implements kube.Observer.
func (t *traffic) Listed(resource string, reason kube.Reason, objects int, took time.Duration) {
	t.log.Debug("list read", "resource", resource, "reason", reason, "objects", objects, "took", took)
	if t.observer != nil {
		t.observer.Listed(t.cluster, resource, string(reason), took)
	}
}

// StreamEnded implements kube.Observer.
func (t *traffic) StreamEnded(resource string, end kube.End) {
	if t.observer != nil && end != kube.EndStopped {
		t.observer.WatchEnded(t.cluster, resource, string(end))
	}
}

// Undecodable implements kube.Observer.
func (t *traffic) Undecodable(resource string) {
	t.undecodable.Add(1)
	if t.observer != nil {
		t.observer.Unreadable(t.cluster, resource)
	}
}

// convertWith adapts a decoder: anything but a non-nil object of the type is
// refused.
func convertWith[P interface {
	*O
	runtime.Object
}, O, T any](decode func(P) store.Versioned[T]) func(runtime.Object) (store.Versioned[T], bool) {
	return func(obj runtime.Object) (store.Versioned[T], bool) {
		object, ok := obj.(P)
		if !ok || object == nil {
			return store.Versioned[T]{}, false
		}
		return decode(object), true
	}
}

func versionOf[T any](v *store.Versioned[T]) uint64 { return v.RV }

func revisionText(rv uint64) string {
	if rv == 0 {
		return ""
	}
	return strconv.FormatUint(rv, 10)
}
