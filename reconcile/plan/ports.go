// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"tributary.dev/tributary/syncer"
)

// unitedPort is a port of a replica Service with the sources that feed it.
type unitedPort struct {
	syncer.ServicePort
	// owner is the share that the port's number and protocol come from.
	owner *share
	// feeders are the shares that have the port, the owner first, and targets what
	// they say.
	feeders []*share
	targets []syncer.TargetPort
}

// portChange is what becomes of one port name of a share: another name, or none.
type portChange struct {
	name string
	kept bool
}

// union is the merge of the port lists of all shares, oldest first.
type union struct {
	key       syncer.Key
	ports     []*unitedPort
	conflicts []Conflict
}

// unite merges the ports of the shares, which come oldest first, and tells each
// share what became of its port names:
//
//	oldest     younger       replica    the younger one's endpoints
//	http 80    http 80       http 80    keep the port
//	http 80    web 80        http 80    have it under the name http
//	http 80    http 8080     http 80    lose the port: conflict
//	http 80    https 443     both       keep the port
//	http 80    (none) 80     http 80    have it under the name http
//	http 80    (none) 8080   http 80    likewise, when both have just this one
//	(none) 80  http 80       (none) 80  have it without a name
//	(none) 80  https 443     (none) 80  lose the port: conflict, two need names
//	no ports   http 80       http 80    keep the port; those of the older are absent: conflict
func unite(key syncer.Key, shares []*share) union {
	u := union{key: key}
	for _, s := range shares {
		s.ports = acceptable(s.Service.Ports)
	}
	ported := slices.IndexFunc(shares, func(s *share) bool { return len(s.ports) > 0 })
	for _, s := range shares {
		if ported >= 0 && len(s.ports) == 0 && !s.Unseen {
			one, other := places(s, shares[ported])
			u.conflict(s, ConflictPort, fmt.Sprintf(
				"the Service in %s has no ports, the one in %s has: its endpoints are left out", one, other))
		}
		for _, p := range s.ports {
			u.add(s, p)
		}
	}
	return u
}

// add unites one port, or decides that it cannot be.
func (u *union) add(s *share, p syncer.ServicePort) {
	same := func(o *unitedPort) bool { return o.Protocol == p.Protocol && o.Port == p.Port }
	if at := slices.IndexFunc(u.ports, func(o *unitedPort) bool { return o.Name == p.Name }); at >= 0 {
		if o := u.ports[at]; !same(o) && !(s.guessed() && o.Protocol == p.Protocol) {
			one, older := places(s, o.owner)
			u.lose(s, p, fmt.Sprintf("port %s is %s in %s and %s in %s, which is older and wins",
				quoted(p.Name), number(p), one, number(o.ServicePort), older))
			return
		}
		u.ports[at].feed(s, p.Target)
		return
	}
	at := slices.IndexFunc(u.ports, same)
	if at < 0 && p.Name == "" && len(u.ports) == 1 && u.ports[0].Protocol == p.Protocol && len(u.ports[0].owner.ports) == 1 {
		at = 0
	}
	switch {
	case at >= 0:
		s.rename(p.Name, portChange{u.ports[at].Name, true})
		u.ports[at].feed(s, p.Target)
	case len(u.ports) > 0 && p.Name == "":
		one, older := places(s, u.ports[0].owner)
		u.lose(s, p, fmt.Sprintf("the port %s of %s has no name and fits none of the ports of %s", number(p), one, older))
	case len(u.ports) > 0 && u.ports[0].Name == "":
		one, older := places(s, u.ports[0].owner)
		u.lose(s, p, fmt.Sprintf("port %s of %s cannot stand beside the port of %s, which has no name", quoted(p.Name), one, older))
	default:
		o := &unitedPort{ServicePort: p, owner: s}
		o.feed(s, p.Target)
		u.ports = append(u.ports, o)
	}
}

func (o *unitedPort) feed(s *share, target syncer.TargetPort) {
	o.feeders, o.targets = append(o.feeders, s), append(o.targets, target)
}

// lose drops a port of a share and reports it.
func (u *union) lose(s *share, p syncer.ServicePort, message string) {
	s.rename(p.Name, portChange{})
	u.conflict(s, ConflictPort, message+": its endpoints lose this port; make the Services agree")
}

func (u *union) conflict(s *share, reason ConflictReason, message string) {
	u.conflicts = append(u.conflicts, Conflict{Replica: u.key, Reason: reason, Cluster: s.Cluster, Message: message})
}

// acceptable returns the ports that a Service may have, protocol and target
// filled in as an API server does.
func acceptable(ports []syncer.ServicePort) []syncer.ServicePort {
	var kept []syncer.ServicePort
	for _, p := range ports {
		p = defaulted(p)
		taken := slices.ContainsFunc(kept, func(k syncer.ServicePort) bool {
			return k.Name == p.Name || k.Protocol == p.Protocol && k.Port == p.Port
		})
		unnamed := p.Name == "" && len(ports) > 1
		if taken || unnamed || p.Name != "" && !syncer.IsLabel(p.Name) || !validProtocol(p.Protocol) || !validNumber(p.Port) {
			continue
		}
		if p.AppProtocol != nil && !syncer.IsQualifiedName(*p.AppProtocol) {
			p.AppProtocol = nil
		}
		kept = append(kept, p)
	}
	return kept
}

func validNumber(n int32) bool { return n >= 1 && n <= 65535 }

func number(p syncer.ServicePort) string { return fmt.Sprintf("%d/%s", p.Port, p.Protocol) }

func quoted(name string) string {
	if name == "" {
		return "without a name"
	}
	return fmt.Sprintf("%q", name)
}

// opaqueTarget is the targetPort of a port whose name cannot be one (it is too
// long, or all digits). Any text does: there is no selector to resolve it.
const opaqueTarget = "by-endpoint"

// target decides the targetPort that consumers see. Where it is numeric, some of
// them send traffic to that number at every address whose slice port they cannot
// match by name; so a number is written only if it is true of every endpoint.
// Otherwise the port's name stands there, which switches that fallback off.
func (u *unitedPort) target(shares []*share) syncer.TargetPort {
	agreed := u.targets[0]
	if u.Name == "" && agreed.Name == "" && validNumber(agreed.Number) {
		return agreed
	}
	differs := func(t syncer.TargetPort) bool { return t != agreed }
	valid := agreed.Name == "" && validNumber(agreed.Number) || syncer.IsTargetPortName(agreed.Name)
	if valid && !slices.ContainsFunc(u.targets, differs) && !u.contradicted(agreed, shares) {
		return agreed
	}
	if syncer.IsTargetPortName(u.Name) {
		return syncer.TargetPort{Name: u.Name}
	}
	return syncer.TargetPort{Name: opaqueTarget}
}

// contradicted reports whether an endpoint serves the port on another number
// than a numeric target says. Only hand-written endpoints can.
func (u *unitedPort) contradicted(t syncer.TargetPort, shares []*share) bool {
	if t.Name != "" {
		return false
	}
	for _, s := range shares {
		if s.Service.Selector != nil {
			continue
		}
		for i := range s.endpoints {
			for _, p := range s.endpoints[i].Ports {
				if p.Name == u.Name && p.Protocol == u.Protocol && p.Number != t.Number {
					return true
				}
			}
		}
	}
	return false
}
