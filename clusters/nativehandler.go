// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"time"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/native"
	"tributary.dev/tributary/syncer"
)

// nativeHandler takes in the member's own Endpoints.
type nativeHandler struct{ n *nativeObserver }

// Replaced implements kube.Handler.
func (h nativeHandler) Replaced(items []theirs, r kube.Replacement) {
	list := make(map[syncer.Key]native.Addresses, len(items))
	for _, item := range items {
		list[item.key] = item.addresses
	}
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.n.tracker.Replace(list, r.Finished, r.LeftOut...)
}

// Upserted implements kube.Handler.
func (h nativeHandler) Upserted(item theirs, e kube.EventMeta) {
	h.tell(item.key, item.addresses, true, e)
}

// Deleted implements kube.Handler.
func (h nativeHandler) Deleted(item theirs, e kube.EventMeta) { h.tell(item.key, nil, false, e) }

func (h nativeHandler) tell(key syncer.Key, addresses native.Addresses, present bool, e kube.EventMeta) {
	h.n.event(kube.Endpoints.Resource, e.Type)
	h.n.step(evidence.Contact{}, e.Arrival)
	h.n.mu.Lock()
	late, measured := h.n.tracker.Theirs(key, addresses, present, e.Arrival)
	measured = measured && h.n.sees
	h.n.mu.Unlock()
	h.n.report(late, measured)
}

// Contact implements kube.Handler.
func (h nativeHandler) Contact(at time.Time, bookmark bool) {
	h.n.contact(kube.Endpoints.Resource, at, bookmark)
}

// Changed implements kube.Handler.
func (h nativeHandler) Changed(s kube.State) {
	h.n.sight(func() { h.n.following = s.Phase == kube.Following })
	switch s.Phase {
	case kube.Forbidden:
		h.n.remarks.remark(observeNativeRemark, "may not list Endpoints: the member's own controllers are not observed")
	case kube.Following:
		h.n.remarks.remark(observeNativeRemark, "")
	case kube.Listing, kube.Waiting:
	}
}
