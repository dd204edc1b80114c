// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Comparison is the result of comparing one replica.
type Comparison struct {
	Replica syncer.Key
	Now     plan.Current
	// Want is the desired state; nil: nobody wants the replica.
	Want *plan.Desired
	// Actions are to be sent; Waiting says what else there is.
	Actions []plan.Action
	Waiting plan.Waiting
	// Excluded is true in a namespace that may not be written to: all is left as it is, and
	// there are no actions.
	Excluded bool

	shares []syncer.Share
	// What follows is as Core.Compare finds it: whether this process leads, what is wrong with the
	// replica, and the records that end with the comparison.
	leads   bool
	trouble metrics.Trouble
	ended   []record.Change
}

// compare compares a replica's current and desired state.
func compare(source Source, current plan.Current) *Comparison {
	s, key := *source.Settings(), current.Key
	s.DropOrphans = s.DropOrphans && source.AllListed()
	c := &Comparison{Replica: key, Now: current, Excluded: !s.MayWrite(key.Namespace), shares: source.Shares(key)}
	c.Want = plan.Merge(key, current, c.shares, s.Settings)
	if !c.Excluded {
		c.Actions, c.Waiting = plan.Actions(current, c.Want)
	}
	return c
}

// Plan compares every replica that a member has or that exists, sorted, as if nothing were under
// way, and returns all that would be written. It writes nothing.
func (r *Reconciler) Plan() (all []Comparison) {
	for _, key := range replicas(r.opts.Source, r.Cache) {
		current := r.Cache.Current(key)
		current.AtOnce = true
		all = append(all, *compare(r.opts.Source, current))
	}
	return all
}

// The reasons for a conflict that are not plan's.
const (
	// ConflictExcluded: the namespace may not be written to.
	ConflictExcluded = "excluded_namespace"
	// ConflictRefused: the ingress cluster does not accept a write.
	ConflictRefused = "write_refused"
)

// Troubles are what is wrong with the replica.
func (c *Comparison) Troubles() (out metrics.Trouble) {
	if c.Excluded && c.Want != nil {
		message := "namespace " + c.Replica.Namespace + " may not be written to (ingress.namespaces)"
		out.Conflicts = append(out.Conflicts, metrics.Conflict{Reason: ConflictExcluded, Message: message})
	}
	for _, one := range c.Waiting.Conflicts {
		out.Conflicts = append(out.Conflicts, metrics.Conflict{Reason: string(one.Reason), Cluster: one.Member, Message: one.Message})
	}
	for _, share := range c.shares {
		for _, one := range share.Given.Rejected {
			out.Rejected = append(out.Rejected, metrics.Rejection{Cluster: share.Member, Address: one.Address, Reason: string(one.Reason)})
		}
	}
	if c.Want != nil {
		for _, one := range c.Want.Orphans {
			out.Orphans = append(out.Orphans, metrics.OrphanStatus{Cluster: one.Member, Endpoints: one.Endpoints})
		}
	}
	return out
}
