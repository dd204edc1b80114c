// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Refusal is something that the ingress cluster's API server does not accept: an
// address, or what a member gives to a replica.
type Refusal struct {
	// Address is left out where it does not stand already.
	Address netip.Addr
	// Cluster is the member whose share stays as it stands, but for what leaves it or
	// turns unready; "" stands for all members. Only where Address is not set.
	Cluster string
	// Evict are the kinds in which the address is refused where it stands, too.
	Evict syncer.Kinds
	// Untried: it is left out because the search for others was not at its end.
	Untried bool
	// Message is what the server said.
	Message string
}

// ConflictRefused: the API server of the ingress cluster does not accept what a
// member gives.
const ConflictRefused ConflictReason = "refused"

// ConflictFailing: writes of the replica fail again and again, while those of others are
// taken.
const ConflictFailing ConflictReason = "failing"

// Is reports whether two refusals are about the same thing.
func (r Refusal) Is(o Refusal) bool { return r.Address == o.Address && r.Cluster == o.Cluster }

// String says what is left out.
func (r Refusal) String() string {
	switch {
	case r.Address.IsValid():
		return "address " + r.Address.String()
	case r.Cluster == "":
		return "every change but removals"
	}
	return "every change of " + r.Cluster + " but removals"
}

// Without returns the contributions as they are without what was refused, and
// reports it; addresses also among the Rejected of their contribution. current
// supplies what stays as it stands. Neither list is changed. The result may be empty
// although the contributions were not: then nothing stands and nothing new is
// accepted, which does not mean that nobody wants the replica: see Ending.
func Without(key syncer.Key, contributions []Contribution, refusals []Refusal, current Current) ([]Contribution, []Conflict) {
	if len(refusals) == 0 {
		return contributions, nil
	}
	var conflicts []Conflict
	report := func(cluster, what, message string) {
		conflicts = append(conflicts, Conflict{Replica: key, Reason: ConflictRefused, Cluster: cluster, Message: fmt.Sprintf(
			"the API server of the ingress cluster does not accept this, so %s is left out until it does: %s", what, message)})
	}
	addresses := map[netip.Addr]Refusal{}
	for _, r := range refusals {
		if r.Address.IsValid() {
			r.Evict |= addresses[r.Address].Evict
			addresses[r.Address] = r
		}
	}
	out := make([]Contribution, 0, len(contributions))
	seen := map[string]bool{}
	for i := range contributions {
		left := contributions[i : i+1 : i+1]
		c := &left[0]
		if share := refusedShare(refusals, c.Cluster); share != nil && !c.Unseen && c.Service != nil {
			if seen[c.Cluster] {
				continue
			}
			seen[c.Cluster] = true
			report(c.Cluster, share.String(), share.Message)
			left = freeze(c.Cluster, contributions, current)
		}
		for _, c := range left {
			for _, told := range withoutAddresses(&c, addresses, current) {
				report(c.Cluster, told.what(), told.message)
			}
			out = append(out, c)
		}
	}
	return out, conflicts
}

func refusedShare(refusals []Refusal, cluster string) *Refusal {
	at := slices.IndexFunc(refusals, func(r Refusal) bool {
		return !r.Address.IsValid() && (r.Cluster == "" || r.Cluster == cluster)
	})
	if at < 0 {
		return nil
	}
	return &refusals[at]
}

// Bares reports whether a plan leaves a kind without any ready endpoint that has one, although
// somebody gives others that are ready.
func (p *Plan) Bares(contributions []Contribution) bool {
	if p.Empty() {
		return false
	}
	was, is := p.current.content(), p.outcome()
	return slices.ContainsFunc([]syncer.Kinds{syncer.KindEndpoints, syncer.KindEndpointSlices}, func(kind syncer.Kinds) bool {
		return was.ready(kind) && !is.ready(kind) && slices.ContainsFunc(contributions, func(c Contribution) bool {
			return c.Service != nil && slices.ContainsFunc(c.Endpoints, func(e syncer.Endpoint) bool { return e.Ready && e.In(kind) })
		})
	})
}

// ready reports whether there is a ready endpoint in a kind.
func (c content) ready(kind syncer.Kinds) bool {
	if kind == syncer.KindEndpoints {
		return slices.ContainsFunc(c.subsets, func(s syncer.Subset) bool { return len(s.Ready) > 0 })
	}
	for _, s := range c.slices {
		if slices.ContainsFunc(s.Endpoints, func(e syncer.Endpoint) bool { return e.Ready }) {
			return true
		}
	}
	return false
}

// leftOut are the addresses of one contribution that were refused for one reason.
type leftOut struct {
	first   netip.Addr
	n       int
	message string
}

func (l *leftOut) what() string {
	if l.n == 1 {
		return "address " + l.first.String()
	}
	return fmt.Sprintf("address %s, and %d more,", l.first, l.n-1)
}

// withoutAddresses leaves refused addresses as they stand, or out. Hand-written
// subsets no longer say the same then.
func withoutAddresses(c *Contribution, refused map[netip.Addr]Refusal, current Current) (told []leftOut) {
	hit := func(e syncer.Endpoint) bool { _, hit := refused[e.Addr]; return hit }
	if len(refused) == 0 || c.Service == nil || !slices.ContainsFunc(c.Endpoints, hit) {
		return nil
	}
	stands, kinds := current.standing(c.Cluster), everyKind
	if current.Endpoints == nil { // nothing stands in those
		kinds = syncer.KindEndpointSlices
	}
	c.Rejected = slices.Clip(c.Rejected)
	kept := make([]syncer.Endpoint, 0, len(c.Endpoints))
	for _, e := range c.Endpoints {
		r, refused := refused[e.Addr]
		if refused {
			c.Rejected = append(c.Rejected, syncer.Rejection{Object: e.Target, Address: e.Addr.String(), Reason: syncer.RejectRefused})
			at := slices.IndexFunc(told, func(l leftOut) bool { return l.message == r.Message })
			if at < 0 {
				at = len(told)
				told = append(told, leftOut{first: e.Addr, message: r.Message})
			}
			told[at].n++
			for _, e := range asItStands(stands[e.Addr], &e) {
				if narrow(&e, kinds&^r.Evict) {
					kept = append(kept, e)
				}
			}
			continue
		}
		kept = append(kept, e)
	}
	c.Endpoints, c.Subsets = kept, nil
	return told
}
