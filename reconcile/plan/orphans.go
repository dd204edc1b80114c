// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "slices"

// withoutSpentOrphans returns the contributions without those of clusters that are not configured
// any more and of which the merge left nothing: others serve in their place, and once
// their endpoints are gone nobody could tell what they were. So the plan in which they
// go takes their slices and their record along. The last share stays in any case. The
// list that comes in is not changed.
func withoutSpentOrphans(contributions []Contribution, shares []*share) []Contribution {
	spent := map[*Contribution]bool{}
	for _, s := range shares {
		if s.Orphan && len(s.endpoints) == 0 {
			spent[s.Contribution] = true
		}
	}
	if len(spent) == 0 || len(spent) == len(shares) {
		return contributions
	}
	rest := make([]Contribution, 0, len(contributions)-len(spent))
	for i := range contributions {
		if c := &contributions[i]; !spent[c] {
			rest = append(rest, *c)
		}
	}
	return rest
}

// keptOrphans counts what stays of clusters that are not configured any more.
func keptOrphans(shares []*share) []Kept {
	var kept []Kept
	for _, s := range shares {
		if !s.Orphan || len(s.endpoints) == 0 {
			continue
		}
		at := slices.IndexFunc(kept, func(k Kept) bool { return k.Cluster == s.Cluster })
		if at < 0 {
			at = len(kept)
			kept = append(kept, Kept{Cluster: s.Cluster})
		}
		kept[at].Endpoints += len(s.endpoints)
	}
	return kept
}
