// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// podsHandler takes in the pods of a member.
type podsHandler struct{ *feed }

// Replaced implements kube.Handler.
func (h podsHandler) Replaced(items []store.Versioned[syncer.Pod], r kube.Replacement) {
	dirty, missing := h.m.protect.podList(items, r)
	h.listed(dirty, h.cause("Pod", "relist", r.Finished))
	for _, p := range missing {
		cause := h.missing("Pod", p.Key, p.UID, r.Finished)
		cause.IP = firstIP(p)
		h.keep(h.m.store.ReplicasOf(p.Key), cause)
	}
	h.m.protect.listed(kindPods, r)
	h.m.native.lookAtAll()
	h.fill(fillPods, r.Finished)
}

// Upserted implements kube.Handler.
func (h podsHandler) Upserted(p store.Versioned[syncer.Pod], e kube.EventMeta) {
	h.event(kube.Pods.Resource, e)
	dirty, others, kept := h.m.protect.upsertPod(p)
	if len(dirty) > 0 {
		h.live(dirty, h.podCause(&p.Object, e))
	}
	if kept != "" {
		cause := h.podCause(&p.Object, e)
		cause.Kept = string(kept)
		h.keep(h.m.store.ReplicasOf(p.Object.Key), cause)
	}
	h.live(others, h.cause("Cluster", "panic", e.Arrival))
}

// Deleted implements kube.Handler.
func (h podsHandler) Deleted(p store.Versioned[syncer.Pod], e kube.EventMeta) {
	h.event(kube.Pods.Resource, e)
	if dirty := h.m.protect.deletePod(p); len(dirty) > 0 {
		h.live(dirty, h.podCause(&p.Object, e))
	}
}

// Contact implements kube.Handler.
func (h podsHandler) Contact(at time.Time, bookmark bool) {
	h.contact(kube.Pods.Resource, at, bookmark)
}

// Changed implements kube.Handler.
func (h podsHandler) Changed(s kube.State) { h.changed(kindPods, s) }

func (h podsHandler) podCause(p *syncer.Pod, e kube.EventMeta) metrics.Cause {
	c := h.liveCause("Pod", p.Key, p.UID, e)
	switch {
	case e.Type == "deleted":
		c.State = "gone"
	case p.Terminating():
		c.State = "terminating"
	case p.Ready:
		c.State = "ready"
	default:
		c.State = "not ready"
	}
	c.IP = firstIP(p)
	return c
}

func firstIP(p *syncer.Pod) string {
	if len(p.IPs) == 0 || !p.IPs[0].Addr.IsValid() {
		return ""
	}
	return p.IPs[0].Addr.String()
}

// servicesHandler takes in the Services of a member.
type servicesHandler struct{ *feed }

// Replaced implements kube.Handler.
func (h servicesHandler) Replaced(items []store.Versioned[syncer.Service], r kube.Replacement) {
	dirty, missing := h.m.protect.serviceList(items, r)
	h.listed(dirty, h.cause("Service", "relist", r.Finished))
	for _, a := range missing {
		h.keep([]syncer.Key{a.Replica}, h.missing("Service", a.Service.Key, a.Service.UID, r.Finished))
	}
	h.servicesChanged()
	h.m.protect.listed(kindServices, r)
	h.m.native.lookAtAll()
	h.fill(fillServices, r.Finished)
}

// Upserted implements kube.Handler.
func (h servicesHandler) Upserted(s store.Versioned[syncer.Service], e kube.EventMeta) {
	h.event(kube.Services.Resource, e)
	h.change(h.m.protect.upsertService(s), &s.Object, e)
}

// Deleted implements kube.Handler.
func (h servicesHandler) Deleted(s store.Versioned[syncer.Service], e kube.EventMeta) {
	h.event(kube.Services.Resource, e)
	h.change(h.m.store.DeleteService(s), &s.Object, e)
}

func (h servicesHandler) change(dirty []store.Dirty, s *syncer.Service, e kube.EventMeta) {
	if len(dirty) == 0 {
		return
	}
	h.servicesChanged()
	h.live(dirty, h.liveCause("Service", s.Key, s.UID, e))
}

// Contact implements kube.Handler.
func (h servicesHandler) Contact(at time.Time, bookmark bool) {
	h.contact(kube.Services.Resource, at, bookmark)
}

// Changed implements kube.Handler.
func (h servicesHandler) Changed(s kube.State) { h.changed(kindServices, s) }

// changed notes the state of an essential loop.
func (f *feed) changed(kind int, s kube.State) {
	now := time.Now()
	f.m.health.note(func(fs *facts) { fs.kinds[kind].change(s, now) })
}

// servicesChanged makes sure that hand-written endpoints are watched for the
// Services that need it, and no others.
func (f *feed) servicesChanged() {
	f.m.mu.Lock()
	ls := f.m.loops
	f.m.mu.Unlock()
	if ls != nil {
		ls.written.signal()
	}
}
