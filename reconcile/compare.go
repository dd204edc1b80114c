// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"slices"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/syncer"
)

// Comparison is what one look at a replica comes to.
type Comparison struct {
	Replica syncer.Key
	Now     plan.Current
	// Want is what is to stand; nil: nothing.
	Want *plan.Desired
	// Actions are to be sent; Waiting says what else there is.
	Actions []plan.Action
	Waiting plan.Waiting
	// Excluded is true in a namespace that may not be written to: all stands as it is, and
	// there are no actions.
	Excluded bool

	// What follows is as Core.Begin finds it: for what the comparison is, since when, whether
	// this process leads, which objects are under way, and which were refused.
	work    *lanes.Work
	taken   time.Time
	leads   bool
	refused []plan.Object
	busy    func(plan.Object) bool
	// outdated is true once a request of the replica has begun since.
	outdated bool
}

// settings are those that count now.
func settings(source Source) *Settings {
	s := *source.Settings()
	s.DropOrphans = s.DropOrphans && source.AllListed()
	return &s
}

func (c *Comparison) decide(source Source, stands *cache.Cache) {
	s := settings(source)
	c.Now, c.Excluded = stands.Current(c.Replica), !s.MayWrite(c.Replica.Namespace)
	c.Now.Busy, c.Now.Refused = c.busy, func(o plan.Object) bool { return slices.Contains(c.refused, o) }
	c.Want = plan.Merge(c.Replica, c.Now, source.Shares(c.Replica), s.Settings)
	if !c.Excluded {
		c.Actions, c.Waiting = plan.Actions(c.Now, c.Want)
	}
}

// Plan compares every replica that a member has or that stands, sorted, as if nothing were under
// way, and foresees all that would be written. Nothing is.
func (r *Reconciler) Plan() (all []Comparison) {
	source := r.opts.Source
	for _, key := range replicas(source, r.Cache) {
		c := Comparison{Replica: key}
		if c.decide(source, r.Cache); !c.Excluded {
			c.Actions, c.Waiting = plan.Foresee(c.Now, c.Want)
		}
		all = append(all, c)
	}
	return all
}

// The reasons for a conflict that are not plan's.
const (
	// ConflictExcluded: the namespace may not be written to.
	ConflictExcluded = "excluded_namespace"
	// ConflictRefused: the ingress cluster does not take a write.
	ConflictRefused = "write_refused"
)

// trouble is what is wrong with the replica.
func (c *Comparison) trouble() (out metrics.Trouble) {
	conflict := func(reason, member, message string) {
		out.Conflicts = append(out.Conflicts, metrics.Conflict{Reason: reason, Cluster: member, Message: message})
	}
	if c.Excluded && c.Want != nil {
		conflict(ConflictExcluded, "", "namespace "+c.Replica.Namespace+" may not be written to (ingress.namespaces)")
	}
	for _, one := range c.Waiting.Conflicts {
		conflict(string(one.Reason), one.Member, one.Message)
	}
	if c.Want != nil {
		for _, one := range c.Want.Rejected {
			out.Rejected = append(out.Rejected, metrics.Rejection{Cluster: one.Member, Address: one.Address, Reason: string(one.Reason)})
		}
		for _, one := range c.Want.Orphans {
			out.Orphans = append(out.Orphans, metrics.OrphanStatus{Cluster: one.Member, Endpoints: one.Endpoints})
		}
	}
	return out
}

// tell passes on to the sinks what a replica is to be, whatever the ingress cluster makes of
// it.
func (r *Reconciler) tell(c *Comparison) {
	if !r.opts.Sinks.Any() {
		return
	}
	if c.Want == nil {
		r.opts.Sinks.Tell(c.Replica, nil)
		return
	}
	backends := c.Want.Backends()
	endpoints := make([]sinks.Endpoint, len(backends))
	for i := range backends {
		b := &backends[i]
		ports := make([]sinks.Port, len(b.Ports))
		for j, p := range b.Ports {
			ports[j] = sinks.Port{Name: p.Name, Port: p.Number, Protocol: p.Protocol, AppProtocol: p.AppProtocol.Value}
		}
		endpoints[i] = sinks.Endpoint{Address: b.Addr.String(), Ports: ports, Cluster: b.Member, Zone: b.Zone,
			Ready: b.Ready, Serving: b.Serving, Terminating: b.Terminating}
	}
	r.opts.Sinks.Tell(c.Replica, sinks.NewService(c.Want.Labels, endpoints))
}

// lane is the most urgent of the actions'.
func lane(actions []plan.Action) plan.Lane {
	return slices.MinFunc(actions, func(a, b plan.Action) int { return cmp.Compare(a.Lane(), b.Lane()) }).Lane()
}
