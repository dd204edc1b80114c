// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// endpointsHandler takes in the Endpoints of one scope.
type endpointsHandler struct {
	*feed
	written *written
	scope   scope
	looks   *guard.Looks
}

// Replaced implements kube.Handler.
func (h endpointsHandler) Replaced(items []store.Versioned[store.Endpoints], r kube.Replacement) {
	h.m.health.remark(kube.Endpoints.Resource, "")
	var services []syncer.Key
	for service := range h.written.wants() {
		if h.scope.covers(service) {
			services = append(services, service)
		}
	}
	h.written.takeEndpoints(h.looks, services, items, r)
}

// Upserted implements kube.Handler.
func (h endpointsHandler) Upserted(v store.Versioned[store.Endpoints], e kube.EventMeta) {
	h.event(kube.Endpoints.Resource, e)
	h.m.protect.sawWritten(store.WrittenObject{Service: v.Object.Key})
	if h.written.wants()[v.Object.Key] {
		h.live(h.m.store.UpsertEndpoints(v), h.liveCause("Endpoints", v.Object.Key, "", e))
	}
}

// Deleted implements kube.Handler.
func (h endpointsHandler) Deleted(v store.Versioned[store.Endpoints], e kube.EventMeta) {
	h.event(kube.Endpoints.Resource, e)
	h.m.protect.sawWritten(store.WrittenObject{Service: v.Object.Key})
	if h.written.wants()[v.Object.Key] {
		h.live(h.m.store.DeleteEndpoints(v), h.liveCause("Endpoints", v.Object.Key, "", e))
	}
}

// Contact implements kube.Handler.
func (h endpointsHandler) Contact(at time.Time, bookmark bool) {
	h.contact(kube.Endpoints.Resource, at, bookmark)
}

// Changed implements kube.Handler.
func (h endpointsHandler) Changed(s kube.State) {
	if s.Phase == kube.Forbidden {
		h.m.health.remark(kube.Endpoints.Resource, "may not be read: Services without selector stay as they are")
	}
}

// slicesHandler takes in hand-written EndpointSlices.
type slicesHandler struct {
	*feed
	written *written
	// owner is the Service that each slice was last seen to belong to: the label
	// that says so can be changed.
	owner map[syncer.Key]syncer.Key
}

func serviceOf(s *store.Slice) syncer.Key { return syncer.Key{Namespace: s.Namespace, Name: s.Service} }

// Replaced implements kube.Handler.
func (h *slicesHandler) Replaced(items []store.Versioned[store.Slice], r kube.Replacement) {
	h.m.health.remark(kube.EndpointSlices.Resource, "")
	h.written.hasSlices()
	h.written.takeSlices(slices.Collect(maps.Keys(h.written.wants())), items, r)
	maps.DeleteFunc(h.owner, func(slice, service syncer.Key) bool { return !h.m.store.HasSlice(service, slice.Name) })
	for i := range items {
		h.owner[items[i].Object.Key] = serviceOf(&items[i].Object)
	}
}

// Upserted implements kube.Handler.
func (h *slicesHandler) Upserted(v store.Versioned[store.Slice], e kube.EventMeta) {
	h.event(kube.EndpointSlices.Resource, e)
	service := serviceOf(&v.Object)
	if former, moved := h.owner[v.Object.Key]; moved && former != service {
		h.leave(v, former, e)
	}
	h.owner[v.Object.Key] = service
	h.m.protect.sawWritten(store.WrittenObject{Service: service, Slice: v.Object.Name})
	if h.written.wants()[service] {
		h.live(h.m.store.UpsertSlice(v), h.liveCause("EndpointSlice", v.Object.Key, "", e))
	}
}

// Deleted implements kube.Handler.
func (h *slicesHandler) Deleted(v store.Versioned[store.Slice], e kube.EventMeta) {
	h.event(kube.EndpointSlices.Resource, e)
	former, ok := h.owner[v.Object.Key]
	if !ok {
		former = serviceOf(&v.Object)
	}
	delete(h.owner, v.Object.Key)
	h.leave(v, former, e)
}

// leave takes a slice from the Service it belonged to.
func (h *slicesHandler) leave(v store.Versioned[store.Slice], service syncer.Key, e kube.EventMeta) {
	h.m.protect.sawWritten(store.WrittenObject{Service: service, Slice: v.Object.Name})
	if h.written.wants()[service] {
		v.Object.Service = service.Name
		h.live(h.m.store.DeleteSlice(v), h.liveCause("EndpointSlice", v.Object.Key, "", e))
	}
}

// Contact implements kube.Handler.
func (h *slicesHandler) Contact(at time.Time, bookmark bool) {
	h.contact(kube.EndpointSlices.Resource, at, bookmark)
}

// Changed implements kube.Handler.
func (h *slicesHandler) Changed(s kube.State) {
	switch {
	case s.Phase == kube.Forbidden:
		h.m.health.remark(kube.EndpointSlices.Resource, "may not be read: Services without selector stay as they are")
	case s.Phase == kube.Waiting && apierrors.IsNotFound(s.Err):
		h.written.lacksSlices()
	}
}
