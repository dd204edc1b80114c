// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/reconcile/plan"
)

// audit asks the ingress cluster now and then for its revision. A watch says
// nothing when etcd was restored to an older state (kubernetes#107457): it waits
// for a revision that is long past. One below what we have seen is the sign.
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
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reconciler) auditOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.RequestTimeout)
	defer cancel()
	seen := r.view.highest(plan.KindService)
	// Without a resourceVersion the answer comes from etcd, not from a cache.
	list, err := r.opts.Client.CoreV1().Services(corev1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return // the watches and the writes tell of it
	}
	r.contact.Store(time.Now().UnixNano())
	if now := version(list.ResourceVersion); now != 0 && now < seen {
		r.logger.Error("the ingress cluster's revision went back: its store was restored; reading everything again",
			"seen", seen, "now", now)
		r.observer.relist()
	}
}
