// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// takeEndpoints takes in a complete list of the Endpoints of some Services.
func (w *written) takeEndpoints(looks *guard.Looks, services []syncer.Key, items []store.Versioned[store.Endpoints], r kube.Replacement) {
	w.take("Endpoints", looks, r, func() *store.WrittenReplacement {
		return w.m.store.PlanReplaceEndpoints(services, items, store.Revision(r.ResourceVersion))
	})
}

// takeSlices takes in a complete list of the hand-written slices of some Services.
func (w *written) takeSlices(services []syncer.Key, items []store.Versioned[store.Slice], r kube.Replacement) {
	w.take("EndpointSlice", &w.slicesLooks, r, func() *store.WrittenReplacement {
		return w.m.store.PlanReplaceSlices(services, items, store.Revision(r.ResourceVersion))
	})
}

// take takes in what plan compares with what is held, as far as the guard lets it.
func (w *written) take(kind string, looks *guard.Looks, r kube.Replacement, plan func() *store.WrittenReplacement) {
	f := w.m.feed
	dirty, missing := w.m.protect.writtenList(looks, r.Older, plan)
	f.listed(dirty, f.cause(kind, "relist", r.Finished))
	for _, a := range missing {
		object := a.Service
		if a.Slice != "" {
			object.Name = a.Slice
		}
		f.keep([]syncer.Key{a.Replica}, f.missing(kind, object, "", r.Finished))
	}
}
