// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"time"

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
}

// Plan compares a replica as if nothing were under way and foresees, up to the end, what would
// be written. Nothing is.
func (r *Reconciler) Plan(replica syncer.Key) Comparison {
	c := r.decide(replica, func(plan.Object) bool { return false })
	if !c.Excluded {
		p := plan.Foresee(replica, c.Now, func(plan.Current) []plan.Share { return r.opts.Source.Shares(replica) }, r.settings().Settings)
		c.Actions, c.Waiting = p.Actions, p.Waiting
	}
	return c
}

// PlanAll is Plan for every replica that a member has or that stands, sorted.
func (r *Reconciler) PlanAll() []Comparison {
	var all []Comparison
	for _, key := range slices.SortedFunc(maps.Keys(r.keys()), syncer.Key.Compare) {
		all = append(all, r.Plan(key))
	}
	return all
}

// settings are those that count now.
func (r *Reconciler) settings() *Settings {
	s := *r.opts.Source.Settings()
	s.DropOrphans = s.DropOrphans && r.opts.Source.AllListed()
	return &s
}

func (r *Reconciler) decide(key syncer.Key, busy func(plan.Object) bool) Comparison {
	s := r.settings()
	c := Comparison{Replica: key, Now: r.cache.Current(key), Excluded: !s.MayWrite(key.Namespace)}
	c.Want = plan.Merge(key, c.Now, r.opts.Source.Shares(key), s.Settings)
	if !c.Excluded {
		c.Actions, c.Waiting = plan.Actions(c.Now, c.Want, busy)
	}
	return c
}

// compareAll compares what the queue hands out until it is shut down.
func (r *Reconciler) compareAll() {
	for {
		w, ok := r.queue.Get()
		if !ok {
			return
		}
		r.compare(w)
	}
}

// compare brings what is planned for one replica up to date.
func (r *Reconciler) compare(w *lanes.Work) {
	taken := time.Now()
	edited := r.repairs.take(w.Key)
	leads := r.leading.Load() // first: its members begin anew before it leads
	c := r.decide(w.Key, r.dispatch.UnderWay())
	may, held := []plan.Action(nil), len(c.Actions) > 0 // who stands by plans nothing
	if leads {
		may, held = r.repairs.pace(w.Key, edited, c.Actions, taken)
	}
	c.Actions, c.Waiting.More = may, c.Waiting.More || held
	r.tell(&c)
	r.opts.Metrics.Report(w.Key.Namespace, w.Key.Name, r.troubles.of(&c, leads))
	for _, ended := range r.records.compared(r.dispatch, w, &c, taken) {
		if leads { // who stands by compares for nothing but the next moment
			r.opts.Metrics.Change(ended)
		}
	}
	r.queue.Done(w)
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
