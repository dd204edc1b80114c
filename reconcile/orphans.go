// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// heldUnseen is why a replica that nobody wants is kept: it stands without a
// trace of whose it was, and not every member has been seen yet.
const heldUnseen = "unseen_members"

// completed adds to what the members give the shares of those that cannot speak
// for themselves: members not seen whole since the process started, and
// clusters no longer configured. What stands of them is what they give.
//
// known tells whether it is certain that nobody else wants what stands: every
// cluster on record has been seen whole or, with no record left, every member has.
func completed(g Snapshot, current plan.Current) (all []plan.Contribution, known bool) {
	all = g.Contributions
	unseen := len(g.Unseen) > 0 || !allSynced(g.Members)
	for _, cluster := range current.Clusters() {
		speaks := slices.ContainsFunc(g.Contributions, func(c plan.Contribution) bool { return c.Cluster == cluster })
		i := memberAt(g.Members, cluster)
		switch {
		case i < 0 && !speaks && current.Vouched(cluster) && !renamed(g, current.Share(cluster)):
			share := plan.WithoutGone(current.Share(cluster), g.Gone[cluster])
			all = append(slices.Clip(all), orphanShares(share, g.Settings.DeleteRemoved, unseen)...)
		case i >= 0 && (!g.Members[i].Synced && !speaks || slices.Contains(g.Unseen, cluster)):
			share := plan.WithoutGone(current.Share(cluster), g.Gone[cluster])
			for i := range share {
				share[i].Expected = true
			}
			all = append(slices.Clip(all), share...)
		}
	}
	markStale(all, g.Members)
	return all, !unseen || len(current.Clusters()) > 0 || len(all) > 0
}

// renamed reports whether a member that has been seen whole names pods of a cluster that is
// not configured: then it is that cluster under a new name, and speaks for it.
func renamed(g Snapshot, orphan []plan.Contribution) bool {
	pods := map[string]bool{}
	for i := range orphan {
		for j := range orphan[i].Endpoints {
			pods[orphan[i].Endpoints[j].Target.UID] = true
		}
	}
	delete(pods, "")
	return slices.ContainsFunc(g.Contributions, func(c plan.Contribution) bool {
		i := memberAt(g.Members, c.Cluster)
		return i >= 0 && g.Members[i].Synced && !slices.Contains(g.Unseen, c.Cluster) &&
			slices.ContainsFunc(c.Endpoints, func(e syncer.Endpoint) bool { return pods[e.Target.UID] })
	})
}

// allSynced reports whether every member has been seen whole.
func allSynced(members []MemberState) bool {
	return !slices.ContainsFunc(members, func(m MemberState) bool { return !m.Synced })
}

func memberAt(members []MemberState, cluster string) int {
	return slices.IndexFunc(members, func(m MemberState) bool { return m.Name == cluster })
}

// orphanShares is what stands of a cluster that is not configured any more. Without
// endpoints there is nothing to keep: so a cluster that was drained before it was
// taken out leaves no trace. With orders to delete it goes, but while a member is
// unseen that may be about to take its place, it only makes way for others.
func orphanShares(share []plan.Contribution, remove, unseen bool) []plan.Contribution {
	stands := slices.ContainsFunc(share, func(c plan.Contribution) bool { return len(c.Endpoints) > 0 })
	if !stands || remove && !unseen {
		return nil
	}
	for i := range share {
		share[i].Orphan, share[i].Drain = true, remove
	}
	return share
}

// Kept counts, for each cluster that is not configured any more, the replicas in
// which endpoints of it stand: those in which they stay when the replica is next
// looked at, and those that they then leave.
func (r *Reconciler) Kept() (stay, leave map[string]int) {
	stay, leave = map[string]int{}, map[string]int{}
	members := r.opts.Source.Members()
	for _, key := range r.cache.Replicas(nil) {
		current := r.cache.Current(key)
		gone := slices.DeleteFunc(slices.Clone(current.Clusters()), func(cluster string) bool {
			return memberAt(members, cluster) >= 0 || !current.Vouched(cluster) || len(orphanShares(current.Share(cluster), false, false)) == 0
		})
		if len(gone) == 0 {
			continue // as for nearly all replicas
		}
		kept := r.peek(key).Kept
		for _, cluster := range gone {
			if slices.ContainsFunc(kept, func(k plan.Kept) bool { return k.Cluster == cluster }) {
				stay[cluster]++
			} else {
				leave[cluster]++
			}
		}
	}
	return stay, leave
}
