// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// audit asks the ingress cluster for its revision, now and then and whenever a
// watch is back that had failed. A watch says nothing when etcd was restored to an
// older state (kubernetes#107457): it waits for a revision that is long past. One
// below what we have seen is the sign.
func (r *Reconciler) audit(ctx context.Context) {
	if r.WaitForSync(ctx) != nil {
		return
	}
	ticker := time.NewTicker(r.opts.AuditEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.auditOnce(ctx)
		case <-r.observer.back:
			r.auditOnce(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// auditOnce looks at each kind by itself: most of the time only Endpoints and
// slices change, and kinds may be stored apart.
func (r *Reconciler) auditOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.RequestTimeout)
	defer cancel()
	for _, w := range r.observer.kinds {
		seen := r.view.highest(w.kind)
		// Without a resourceVersion the answer comes from etcd, not from a cache.
		list, err := w.list(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return // the watches and the writes tell of it
		}
		r.observer.heard(time.Now())
		m, err := meta.ListAccessor(list)
		if err != nil {
			return
		}
		if now := version(m.GetResourceVersion()); now != 0 && now < seen {
			r.logger.Error("the ingress cluster's revision went back: its store was restored; reading everything again",
				"kind", string(w.kind), "seen", seen, "now", now)
			r.observer.relist()
			return
		}
	}
}
