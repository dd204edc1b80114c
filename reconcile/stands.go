// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Stands is what stands of a replica in the ingress cluster, for people.
type Stands struct {
	// Service says whether there is one: "none", "ours", "foreign", or whose it is.
	Service string `json:"service"`
	// InEndpoints counts the ready addresses of the Endpoints object.
	InEndpoints int `json:"readyInEndpoints"`
	// Endpoints are the addresses of its slices, sorted.
	Endpoints []StandingEndpoint `json:"endpoints,omitempty"`
}

// StandingEndpoint is one endpoint of a slice.
type StandingEndpoint struct {
	Cluster     string `json:"cluster"`
	Address     string `json:"address"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
	// Foreign is true of a slice that is not ours.
	Foreign bool `json:"foreign,omitempty"`
}

// Stands says what stands of a replica.
func (r *Reconciler) Stands(replica syncer.Key) Stands {
	o := r.cache.Current(replica)
	out := Stands{Service: "none"}
	switch {
	case o.Service == nil:
	case o.Service.Owned:
		out.Service = "ours"
	default:
		out.Service = "foreign"
	}
	if o.Endpoints != nil {
		for i := range o.Endpoints.Subsets {
			out.InEndpoints += len(o.Endpoints.Subsets[i].Ready)
		}
	}
	for i := range o.Slices {
		s := &o.Slices[i]
		for j := range s.Endpoints {
			e := &s.Endpoints[j]
			out.Endpoints = append(out.Endpoints, StandingEndpoint{
				Cluster: s.Cluster, Address: fmt.Sprint(e.Addr), Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Foreign: !s.Owned,
			})
		}
	}
	slices.SortFunc(out.Endpoints, func(a, b StandingEndpoint) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Address, b.Address))
	})
	return out
}

// Wanted is what is to stand of a replica, by what is known at this moment.
type Wanted struct {
	// Ready are the addresses that are to take traffic, by member.
	Ready map[string]map[string]bool
	// InTurn is true where members serve one at a time.
	InTurn bool
	// Kept are the shares of clusters that are not configured any more.
	Kept []plan.Kept
}

// Wanted says what is to stand of a replica. Nothing is written.
func (r *Reconciler) Wanted(replica syncer.Key) Wanted {
	a := &attempt{item: lanes.Item{Key: replica}}
	r.decide(a, r.opts.Source.Peek)
	out := Wanted{Ready: map[string]map[string]bool{}, Kept: a.plan.Kept}
	plan.Steer(replica, a.contributions, r.opts.Source.Settings().Policy)
	out.InTurn = slices.ContainsFunc(a.contributions, func(c plan.Contribution) bool { return c.Failover > 0 })
	if a.desired == nil {
		return out
	}
	for i := range a.desired.Slices {
		s := &a.desired.Slices[i]
		if out.Ready[s.Cluster] == nil {
			out.Ready[s.Cluster] = map[string]bool{}
		}
		for j := range s.Endpoints {
			if e := &s.Endpoints[j]; e.Ready {
				out.Ready[s.Cluster][fmt.Sprint(e.Addr)] = true
			}
		}
	}
	return out
}
