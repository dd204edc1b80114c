// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// answered takes from an answer, or from its absence, what it tells of the ingress cluster.
func (r *Reconciler) answered(replica syncer.Key, one *write.Receipt) {
	if !one.Asked {
		return
	}
	if one.Err == nil || write.Answered(one.Err) {
		r.contact.Store(one.Acked.UnixNano())
	}
	if kube.Denied(one.Err) {
		r.denial.Store(&denial{replica.Namespace, one.Err})
	}
	r.breaker.answer(one.Err)
}

// noteReceipts enters what was written into the record.
func (r *Reconciler) noteReceipts(a *attempt, receipts []write.Receipt) {
	d := &a.plan.Delta
	rec := &a.rec
	if nothingTaken(receipts) {
		d = &plan.Delta{} // what was refused has not changed anything
	}
	rec.Added, rec.Removed = united(rec.Added, d.Added), united(rec.Removed, d.Removed)
	rec.Readied, rec.Unreadied = united(rec.Readied, d.Readied), united(rec.Unreadied, d.Unreadied)
	spans := map[plan.Kind][2]time.Time{}
	for i := range receipts {
		one := &receipts[i]
		r.answered(a.item.Key, one)
		a.asked = a.asked || one.Asked
		if one.Err != nil {
			continue
		}
		rec.Writes++
		if one.Made != (record.Ref{}) {
			a.refs = append(a.refs, one.Made)
		}
		span, ok := spans[one.Kind]
		if !ok || one.Sent.Before(span[0]) {
			span[0] = one.Sent
		}
		if one.Acked.After(span[1]) {
			span[1] = one.Acked
		}
		spans[one.Kind] = span
	}
	for kind, span := range spans {
		took := span[1].Sub(span[0])
		switch kind {
		case plan.KindService:
			rec.Stages.WriteService += took
		case plan.KindEndpoints:
			rec.Stages.WriteEndpoints += took
		case plan.KindEndpointSlice:
			rec.Stages.WriteSlices += took
		}
	}
}

// united returns both sorted lists as one; nearly always one is empty.
func united(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// repaired notes a finished repair.
func (r *Reconciler) repaired(a *attempt, now time.Time) {
	if a.repair && r.throttle.Repaired(a.item.Key, now) {
		r.logger.Warn(errFight.Error(), "replica", a.item.Key.String(), "cause", a.rec.Cause.String())
	}
}

// report tells what is wrong with the replica after the attempt.
func (r *Reconciler) report(a *attempt) {
	t := metrics.Trouble{Held: a.held}
	for _, c := range a.plan.Conflicts {
		t.Conflicts = append(t.Conflicts, metrics.Conflict{Reason: string(c.Reason), Cluster: c.Cluster, Message: c.Message})
	}
	for _, h := range a.plan.Held {
		t.Held = append(t.Held, metrics.HeldChange{Cluster: h.Cluster, Reason: string(h.Reason), Message: h.Message()})
	}
	if w := a.plan.Waiting; w != "" {
		t.Held = append(t.Held, metrics.HeldChange{Reason: string(w), Message: "the replica waits for the ingress cluster"})
	}
	for _, rejected := range a.rejected {
		t.Rejected = append(t.Rejected, metrics.Rejection{
			Cluster: rejected.Cluster, Address: rejected.Address, Reason: string(rejected.Reason),
		})
	}
	for _, k := range a.plan.Kept {
		t.Orphans = append(t.Orphans, metrics.OrphanStatus{Cluster: k.Cluster, Endpoints: k.Endpoints})
	}
	r.recorder.Report(a.item.Key.Namespace, a.item.Key.Name, t)
	r.events.report(a.item.Key, a.plan.Conflicts)
}
