// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
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

// auditAgain is when a missing object is asked for again: the news of its deletion may
// be on the way.
const auditAgain = 2 * time.Second

// auditOnce looks at each kind by itself: most of the time only Endpoints and
// slices change, and kinds may be stored apart.
func (r *Reconciler) auditOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.RequestTimeout)
	defer cancel()
	for _, w := range r.observer.kinds {
		seen := r.cache.Highest(w.kind)
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
		now := cache.Revision(m.GetResourceVersion())
		if now != 0 && now < seen {
			r.wentBack(w.kind, "", seen, now)
			return
		}
		r.cache.Saw(w.kind, now)
		if r.lost(ctx, w.kind) {
			return
		}
	}
}

// wentBack starts anew with a store that was restored.
func (r *Reconciler) wentBack(kind plan.Kind, object string, seen, now uint64) {
	r.logger.Error("the ingress cluster's revision went back: its store was restored; reading everything again",
		"kind", string(kind), "object", object, "seen", seen, "now", now)
	r.observer.relist()
}

// lost asks for the objects of a kind that were heard of last. One that is older now,
// or missing without its deletion being told, is the sign where the store was restored
// from a backup that is only seconds old: its revisions have caught up before the
// watches are back.
func (r *Reconciler) lost(ctx context.Context, kind plan.Kind) bool {
	heard := r.cache.Watermarks(kind)
	remembered, _ := heard.All()
	for _, one := range remembered {
		now, missing, err := r.shown(ctx, kind, one)
		if err == nil && missing {
			timer := time.NewTimer(auditAgain)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			if still, _ := heard.All(); !slices.Contains(still, one) || r.observer.trouble() != nil {
				continue // its end was told meanwhile, or would be if it could
			}
			now, missing, err = r.shown(ctx, kind, one)
		}
		switch {
		case err != nil:
			return false
		case missing, now != 0 && now < one.Revision:
			r.wentBack(kind, one.Key.String(), one.Revision, now)
			return true
		}
		heard.Confirmed(one)
	}
	return false
}

// shown reads the version of an object, and whether it is missing that should be there.
func (r *Reconciler) shown(ctx context.Context, kind plan.Kind, one kube.Watermark) (rv uint64, missing bool, err error) {
	f, err := r.writer.read(ctx, cache.ID{Kind: kind, Key: one.Key})
	switch {
	case apierrors.IsNotFound(err):
		return 0, !one.Gone, nil
	case err != nil:
		return 0, false, err
	}
	return f.Revision, false, nil
}
