// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

type service = syncer.Service

// handler translates what a watch brings into events of the member's evidence.
type handler[T evidence.Object] struct {
	m    *Member
	kind evidence.Kind
	// services are those that a list speaks of; nil for kinds that are not about
	// Services.
	services func() []syncer.Key
	// changed and listed are told of the watch, where somebody else needs to know; nil
	// is not.
	changed func(kube.State)
	listed  func()
}

// Replaced implements kube.Handler.
func (h handler[T]) Replaced(items []store.Versioned[T], r kube.Replacement) {
	h.m.remarks.remark(h.kind.String(), "")
	if h.listed != nil {
		h.listed()
	}
	list := evidence.Listed[T]{Items: items, Revision: store.Revision(r.ResourceVersion), Older: r.Older}
	if h.services != nil {
		list.Services = h.services()
	}
	h.m.recall()
	h.m.step(list, r.Finished)
	h.m.native.lookAtAll()
}

// Upserted implements kube.Handler.
func (h handler[T]) Upserted(v store.Versioned[T], e kube.EventMeta) {
	h.m.watched(h.kind, e.Type)
	h.m.step(evidence.Seen[T]{Versioned: v, Created: e.Type == "added"}, e.Arrival)
}

// Deleted implements kube.Handler.
func (h handler[T]) Deleted(v store.Versioned[T], e kube.EventMeta) {
	h.m.watched(h.kind, e.Type)
	h.m.step(evidence.Gone[T]{Versioned: v}, e.Arrival)
}

// Contact implements kube.Handler.
func (h handler[T]) Contact(at time.Time, bookmark bool) { h.m.contact(h.kind.String(), at, bookmark) }

// Changed implements kube.Handler.
func (h handler[T]) Changed(s kube.State) {
	h.m.step(evidence.Watched{Kind: h.kind, Phase: phases[s.Phase], Fault: fault(s.Err)}, time.Now())
	if h.changed != nil {
		h.changed(s)
	}
}

var phases = map[kube.Phase]evidence.Phase{
	kube.Listing: evidence.Listing, kube.Following: evidence.Following,
	kube.Waiting: evidence.Waiting, kube.Forbidden: evidence.Denied,
}

// watched counts an event.
func (m *Member) watched(kind evidence.Kind, event string) {
	if o := m.opts.Observer; o != nil {
		o.WatchEvent(m.name, kind.String(), event)
	}
}

// contact notes that the member was heard of.
func (m *Member) contact(resource string, at time.Time, bookmark bool) {
	m.step(evidence.Contact{}, at)
	if o := m.opts.Observer; o != nil && bookmark {
		o.WatchEvent(m.name, resource, "bookmark")
	}
}

// Listed implements kube.Observer.
func (m *Member) Listed(resource string, reason kube.Reason, objects int, took time.Duration) {
	m.step(evidence.Contact{}, time.Now())
	m.log.Debug("list read", "resource", resource, "reason", reason, "objects", objects, "took", took)
	if o := m.opts.Observer; o != nil {
		o.Listed(m.name, resource, string(reason), took)
	}
}

// StreamEnded implements kube.Observer.
func (m *Member) StreamEnded(resource string, end kube.End) {
	if o := m.opts.Observer; o != nil && end != kube.EndStopped {
		o.WatchEnded(m.name, resource, string(end))
	}
}

// Undecodable implements kube.Observer.
func (m *Member) Undecodable(resource string) {
	m.undecodable.Add(1)
	if o := m.opts.Observer; o != nil {
		o.Unreadable(m.name, resource)
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
