// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Standing returns, by replica, the endpoints of a cluster that stand in the ingress
// cluster; a replica that has none of it is empty. It walks over all replicas.
func (r *Reconciler) Standing(cluster string) map[syncer.Key]plan.Standing {
	standing := map[syncer.Key]plan.Standing{}
	for _, key := range r.cache.Replicas(nil) {
		current := r.cache.Current(key)
		standing[key] = current.Standing(cluster)
	}
	return standing
}

// markStale marks what comes from members that have been out of sight for too long, and from
// those in panic.
func markStale(contributions []plan.Contribution, members []MemberState) {
	for i := range contributions {
		if at := memberAt(members, contributions[i].Cluster); at >= 0 {
			contributions[i].Stale = members[at].Stale || contributions[i].Unseen && contributions[i].Stale
			contributions[i].Panicking, contributions[i].Away = members[at].Panicking, !members[at].Live
		}
	}
}

// Clusters returns the clusters of which something stands. It walks over all replicas.
func (r *Reconciler) Clusters() map[string]bool {
	clusters := map[string]bool{}
	for _, key := range r.cache.Replicas(nil) {
		for _, cluster := range r.clusters(key) {
			clusters[cluster] = true
		}
	}
	return clusters
}

// clusters are those that have a share in a replica.
func (r *Reconciler) clusters(replica syncer.Key) []string {
	current := r.cache.Current(replica)
	return current.Clusters()
}
