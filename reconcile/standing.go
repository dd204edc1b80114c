// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Standing returns, by replica, the endpoints of a cluster that stand in the ingress
// cluster. It walks over all replicas.
func (r *Reconciler) Standing(cluster string) map[syncer.Key]plan.Standing {
	standing := map[syncer.Key]plan.Standing{}
	for _, key := range r.view.owned(nil) {
		if s := plan.StandingOf(cluster, r.view.observed(key)); len(s.Endpoints) > 0 {
			standing[key] = s
		}
	}
	return standing
}

// Identities returns by which identity each cluster was known when its replicas
// were written. Where replicas differ, what most of them say counts. It walks over
// all replicas.
func (r *Reconciler) Identities() map[string]string {
	votes := map[string]map[string]int{}
	for _, key := range r.view.owned(nil) {
		for cluster, identity := range plan.Identities(r.view.observed(key)) {
			if votes[cluster] == nil {
				votes[cluster] = map[string]int{}
			}
			votes[cluster][identity]++
		}
	}
	known := map[string]string{}
	for cluster, of := range votes {
		for identity, n := range of {
			if best := known[cluster]; n > of[best] || n == of[best] && identity < best {
				known[cluster] = identity
			}
		}
	}
	return known
}

// aged marks what comes from members that have been out of sight for too long, and from
// those in panic.
func aged(contributions []plan.Contribution, members []MemberState) {
	for i := range contributions {
		if at := memberAt(members, contributions[i].Cluster); at >= 0 {
			contributions[i].Stale = members[at].Stale || contributions[i].Unseen && contributions[i].Stale
			contributions[i].Panicking = members[at].Panicking
		}
	}
}
