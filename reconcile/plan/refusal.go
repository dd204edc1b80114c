// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Refusal is something that the ingress cluster's API server does not accept, as
// narrow as its answer tells (see Blame).
type Refusal struct {
	Scope RefusalScope
	// Address is what RefusedAddress and RefusedDetails are about.
	Address netip.Addr
	// Name is the port of RefusedPort, or the key of RefusedLabel and
	// RefusedAnnotation; there "" stands for all keys.
	Name string
	// Cluster is the member of RefusedShare; "" stands for all members.
	Cluster string
	// Message is what the server said; not part of the identity.
	Message string
}

// RefusalScope says how much a Refusal leaves out.
type RefusalScope uint8

// The scopes, narrowest first.
const (
	// RefusedDetails: an address is written without hostname, node, zone and target.
	RefusedDetails RefusalScope = iota
	// RefusedAddress: an address is left out.
	RefusedAddress
	// RefusedPort: a port is left out, of the Service and of the endpoints.
	RefusedPort
	// RefusedLabel, RefusedAnnotation: a label or annotation of the source is not
	// taken over.
	RefusedLabel
	RefusedAnnotation
	// RefusedShare: a member's share stays as it stands, but for what leaves it or
	// turns unready.
	RefusedShare
)

// ConflictRefused: the API server of the ingress cluster does not accept what a
// member gives.
const ConflictRefused ConflictReason = "refused"

// Is reports whether two refusals are about the same thing.
func (r Refusal) Is(o Refusal) bool {
	r.Message, o.Message = "", ""
	return r == o
}

// String says what is left out.
func (r Refusal) String() string {
	switch r.Scope {
	case RefusedDetails:
		return "hostname, node, zone and target of " + r.Address.String()
	case RefusedAddress:
		return "address " + r.Address.String()
	case RefusedPort:
		return "port " + quoted(r.Name)
	case RefusedLabel:
		return "label " + keyed(r.Name)
	case RefusedAnnotation:
		return "annotation " + keyed(r.Name)
	}
	if r.Cluster == "" {
		return "every change but removals"
	}
	return "every change of " + r.Cluster + " but removals"
}

func keyed(name string) string {
	if name == "" {
		return "of any key"
	}
	return fmt.Sprintf("%q", name)
}

// Without returns the contributions as they are without what was refused, and
// reports it: addresses among the Rejected of their contribution, all else as
// conflicts. observed supplies what stays of a refused share. Neither list is
// changed. The result may be empty although the contributions were not: then
// nothing stands and nothing new is accepted, which does not mean that nobody
// wants the replica.
func Without(key syncer.Key, contributions []Contribution, refusals []Refusal, observed Observed) ([]Contribution, []Conflict) {
	if len(refusals) == 0 {
		return contributions, nil
	}
	var conflicts []Conflict
	reported := map[Conflict]bool{}
	report := func(cluster string, r Refusal) {
		c := Conflict{Replica: key, Reason: ConflictRefused, Cluster: cluster, Message: fmt.Sprintf(
			"the API server of the ingress cluster does not accept this, so %s is left out until it does: %s", r, r.Message)}
		if !reported[c] {
			reported[c] = true
			conflicts = append(conflicts, c)
		}
	}
	addresses := refusedAddresses(refusals)
	out := make([]Contribution, 0, len(contributions))
	frozen := map[string]bool{}
	for i := range contributions {
		x := excluder{c: contributions[i], report: report}
		x.address(addresses)
		for _, r := range refusals {
			x.exclude(r)
		}
		if x.frozen == nil || x.c.Unseen {
			out = append(out, x.c)
			continue
		}
		if cluster := x.c.Cluster; !frozen[cluster] {
			frozen[cluster] = true
			report(cluster, *x.frozen)
			out = append(out, freeze(cluster, contributions, observed)...)
		}
	}
	return out, conflicts
}

// excluder applies refusals to one contribution.
type excluder struct {
	c      Contribution
	report func(cluster string, r Refusal)
	// frozen is the refusal, if any, for which the whole share stays as it stands.
	frozen *Refusal
}

func (x *excluder) exclude(r Refusal) {
	if x.c.Service == nil {
		return
	}
	switch r.Scope {
	case RefusedDetails, RefusedAddress: // see address
	case RefusedPort:
		x.closePort(r)
	case RefusedLabel:
		x.unlabel(r)
	case RefusedAnnotation:
		x.unannotate(r)
	case RefusedShare:
		if r.Cluster == "" || r.Cluster == x.c.Cluster {
			x.frozen = &r
		}
	}
}

// refusedAddresses are the refusals that are about one address: of thousands of
// endpoints thousands may be refused. That of the whole address covers its details.
func refusedAddresses(refusals []Refusal) map[netip.Addr]Refusal {
	addresses := map[netip.Addr]Refusal{}
	for _, r := range refusals {
		if r.Scope == RefusedAddress || r.Scope == RefusedDetails && addresses[r.Address].Scope != RefusedAddress {
			addresses[r.Address] = r
		}
	}
	return addresses
}

// address leaves out addresses, or what is said about them.
func (x *excluder) address(refused map[netip.Addr]Refusal) {
	if x.c.Service == nil || len(refused) == 0 {
		return
	}
	x.c.Rejected = slices.Clip(x.c.Rejected)
	x.edit(func(e *syncer.Endpoint) (keep bool) {
		r, hit := refused[e.Addr]
		switch {
		case !hit:
			return true
		case r.Scope == RefusedDetails:
			e.Hostname, e.NodeName, e.Zone, e.Target = "", "", "", syncer.TargetRef{}
			x.report(x.c.Cluster, r)
			return true
		}
		x.c.Rejected = append(x.c.Rejected, syncer.Rejection{
			Object: e.Target, Address: e.Addr.String(), Reason: syncer.RejectRefused})
		return false
	})
}

// closePort leaves a port out; an endpoint that has no other goes with it. A
// Service that has no other port keeps what stands: without ports it would mean
// something else.
func (x *excluder) closePort(r Refusal) {
	named := func(p syncer.ServicePort) bool { return p.Name == r.Name }
	switch {
	case !slices.ContainsFunc(x.c.Service.Ports, named):
		return
	case len(x.c.Service.Ports) == 1:
		x.frozen = &r
		return
	}
	x.report(x.c.Cluster, r)
	svc := *x.c.Service
	svc.Ports = slices.DeleteFunc(slices.Clone(svc.Ports), named)
	x.c.Service = &svc
	x.edit(func(e *syncer.Endpoint) (keep bool) {
		if slices.ContainsFunc(e.Ports, func(p syncer.Port) bool { return p.Name == r.Name }) {
			e.Ports = slices.DeleteFunc(slices.Clone(e.Ports), func(p syncer.Port) bool { return p.Name == r.Name })
			return len(e.Ports) > 0
		}
		return true
	})
}

func (x *excluder) unlabel(r Refusal) {
	svc := *x.c.Service
	if svc.Labels = withoutKey(svc.Labels, r.Name, nil); len(svc.Labels) < len(x.c.Service.Labels) {
		x.report(x.c.Cluster, r)
		x.c.Service = &svc
	}
}

func (x *excluder) unannotate(r Refusal) {
	svc := *x.c.Service
	// What says how the replica is shared is not passed on, so it stays.
	if svc.Annotations = withoutKey(svc.Annotations, r.Name, ReservedAnnotation); len(svc.Annotations) < len(x.c.Service.Annotations) {
		x.report(x.c.Cluster, r)
		x.c.Service = &svc
	}
}

// withoutKey returns a map without a key, or without all but those to spare.
func withoutKey(in map[string]string, key string, spare func(string) bool) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		if key != "" && k != key || key == "" && spare != nil && spare(k) {
			out[k] = v
		}
	}
	return out
}

// edit changes copies of the endpoints and drops those not to keep. Hand-written
// subsets no longer say the same then.
func (x *excluder) edit(change func(*syncer.Endpoint) (keep bool)) {
	kept := make([]syncer.Endpoint, 0, len(x.c.Endpoints))
	changed := false
	for i := range x.c.Endpoints {
		e := x.c.Endpoints[i]
		keep := change(&e)
		changed = changed || !keep || !e.Equal(&x.c.Endpoints[i]) || len(e.Ports) != len(x.c.Endpoints[i].Ports)
		if keep {
			kept = append(kept, e)
		}
	}
	if changed {
		x.c.Endpoints, x.c.Subsets = kept, nil
	}
}
