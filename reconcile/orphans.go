// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"tributary.dev/tributary/reconcile/plan"
)

// heldUnseen is why a replica that nobody wants is kept: it stands without a
// trace of whose it was, and not every member has been seen yet.
const heldUnseen = "unseen_members"

// completed adds to what the members give the shares of those that cannot speak
// for themselves: members not seen whole since the process started, and
// clusters no longer configured. What stands of them is what they give.
//
// orphan is true when nobody wants what stands, and known tells whether that is
// certain: every cluster on record has been seen whole or, with no record left,
// every member has.
func completed(g Gathered, members []MemberState, observed plan.Observed, deleteRemoved bool) (all []plan.Contribution, known bool) {
	all = g.Contributions
	shares := plan.Shares(observed)
	for _, cluster := range shares {
		i := slices.IndexFunc(members, func(m MemberState) bool { return m.Name == cluster })
		var keep bool
		switch {
		case i < 0:
			keep = !deleteRemoved
		default:
			keep = !members[i].Synced || slices.Contains(g.Unseen, cluster)
		}
		if keep {
			all = append(slices.Clip(all), plan.Recover(cluster, observed)...)
		}
	}
	if len(shares) > 0 || len(all) > 0 {
		return all, true
	}
	unseen := slices.ContainsFunc(members, func(m MemberState) bool { return !m.Synced })
	return all, !unseen && len(g.Unseen) == 0
}

// ours reports whether anything of a replica that stands is owned.
func ours(o plan.Observed) bool {
	return o.Service != nil && o.Service.Owned || o.Endpoints != nil && o.Endpoints.Owned ||
		slices.ContainsFunc(o.Slices, func(s plan.ObservedSlice) bool { return s.Owned })
}
