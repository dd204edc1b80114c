// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"tributary.dev/tributary/syncer"
)

// unitedPort is a port of a replica with the sources that feed it.
type unitedPort struct {
	syncer.ServicePort
	// owner is the member that the port's number and protocol come from.
	owner *member
	// targets are what the sources say, the owner first.
	targets []syncer.TargetPort
}

// portChange is what becomes of one port name of a source: another name, or none.
type portChange struct {
	name string
	kept bool
}

// union is the merge of the port lists of all sources, oldest first.
type union struct {
	left      bool // the first is the replica's Service as it stands
	ports     []*unitedPort
	conflicts []Conflict
}

// unite merges the ports of the sources, which come oldest first, and tells each what became
// of its port names:
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
//
// Where the replica's Service stays as it stands, its ports are the oldest: standing, else
// nil. What a member serves already it does not lose to them.
func unite(standing []syncer.ServicePort, sources []*member) union {
	u := union{left: standing != nil}
	for _, s := range sources {
		s.ports = acceptable(s.service.Ports)
	}
	all := sources
	if standing != nil {
		replica := &member{Share: &Share{Member: "the replica"}, ports: acceptable(standing)}
		all = append([]*member{replica}, sources...)
	}
	ported := slices.IndexFunc(all, func(s *member) bool { return len(s.ports) > 0 })
	for _, s := range all {
		if ported >= 0 && len(s.ports) == 0 {
			u.conflict(s, fmt.Sprintf("the Service in %s has no ports, the one in %s has: its endpoints are left out", s.Member, all[ported].Member))
		}
		for _, p := range s.ports {
			u.add(s, p)
		}
	}
	return u
}

// fitting is the port under whose name one of another name goes; -1 where there is none.
func (u *union) fitting(s *member, p syncer.ServicePort) int {
	at := slices.IndexFunc(u.ports, func(o *unitedPort) bool { return o.Protocol == p.Protocol && o.Port == p.Port })
	if at < 0 && p.Name == "" && len(u.ports) == 1 && u.ports[0].Protocol == p.Protocol && len(u.ports[0].owner.ports) == 1 {
		return 0
	}
	return at
}

// add unites one port, or decides that it cannot be.
func (u *union) add(s *member, p syncer.ServicePort) {
	if at := slices.IndexFunc(u.ports, func(o *unitedPort) bool { return o.Name == p.Name }); at >= 0 {
		o := u.ports[at]
		if o.Protocol != p.Protocol || o.Port != p.Port {
			if at = u.fitting(s, p); u.left && at >= 0 && !s.has(p.Name) && s.has(u.ports[at].Name) {
				s.rename(p.Name, portChange{u.ports[at].Name, true})
				return
			}
			u.lose(s, p, fmt.Sprintf("port %s is %s in %s and %s in %s, which is older and wins",
				quoted(p.Name), number(p), s.Member, number(o.ServicePort), o.owner.Member))
			return
		}
		o.targets = append(o.targets, p.Target)
		return
	}
	at := u.fitting(s, p)
	switch {
	case at >= 0:
		s.rename(p.Name, portChange{u.ports[at].Name, true})
		u.ports[at].targets = append(u.ports[at].targets, p.Target)
	case len(u.ports) > 0 && p.Name == "":
		u.lose(s, p, fmt.Sprintf("the port %s of %s has no name and fits none of the ports of %s", number(p), s.Member, u.ports[0].owner.Member))
	case len(u.ports) > 0 && u.ports[0].Name == "":
		u.lose(s, p, fmt.Sprintf("port %s of %s cannot stand beside the port of %s, which has no name", quoted(p.Name), s.Member, u.ports[0].owner.Member))
	default:
		u.ports = append(u.ports, &unitedPort{ServicePort: p, owner: s, targets: []syncer.TargetPort{p.Target}})
	}
}

// lose drops a port of a source and reports it.
func (u *union) lose(s *member, p syncer.ServicePort, message string) {
	if u.left && s.has(p.Name) {
		return
	}
	s.rename(p.Name, portChange{})
	u.conflict(s, message+": its endpoints lose this port; make the Services agree")
}

func (u *union) conflict(s *member, message string) {
	u.conflicts = append(u.conflicts, Conflict{ConflictPort, s.Member, message})
}

// servicePorts are the ports of the replica's Service.
func (u *union) servicePorts(sources []*member) []syncer.ServicePort {
	var out []syncer.ServicePort
	for _, p := range u.ports {
		port := p.ServicePort
		port.Target = p.target(sources)
		out = append(out, port)
	}
	return out
}

// has reports whether what stands of the member has a port of that name.
func (m *member) has(port string) bool {
	return slices.ContainsFunc(m.slices, func(s *Slice) bool {
		return slices.ContainsFunc(s.Ports, func(p syncer.Port) bool { return p.Name == port })
	})
}

func (m *member) rename(name string, change portChange) {
	if m.portChanges == nil {
		m.portChanges = map[string]portChange{}
	}
	m.portChanges[name] = change
}

// fit renames and drops ports of the endpoints as the union decided. An endpoint that has no
// port left is absent; so is one without ports where the replica has some, because
// consumers would send traffic to any port of it.
func (m *member) fit(ported bool) {
	fits := func(ports []syncer.Port) bool {
		return (len(ports) > 0 || !ported) && (m.portChanges == nil || !slices.ContainsFunc(ports, m.portChanged))
	}
	if !slices.ContainsFunc(m.endpoints, func(e syncer.Endpoint) bool { return !fits(e.Ports) }) {
		return
	}
	type list struct { // endpoints share few lists of ports, and keep sharing them
		first *syncer.Port
		len   int
	}
	known := map[list][]syncer.Port{}
	kept := make([]syncer.Endpoint, 0, len(m.endpoints))
	for _, e := range m.endpoints {
		if !fits(e.Ports) {
			if len(e.Ports) == 0 {
				continue
			}
			id := list{&e.Ports[0], len(e.Ports)}
			ports, seen := known[id]
			if !seen {
				ports = m.renamed(e.Ports)
				known[id] = ports
			}
			if e.Ports = ports; len(ports) == 0 {
				continue
			}
		}
		kept = append(kept, e)
	}
	m.endpoints, m.verbatim = kept, nil
}

func (m *member) portChanged(p syncer.Port) bool { _, changed := m.portChanges[p.Name]; return changed }

// renamed applies the changes to a list of ports; names stay unique.
func (m *member) renamed(ports []syncer.Port) []syncer.Port {
	var out []syncer.Port
	for _, p := range ports {
		if change, changed := m.portChanges[p.Name]; changed {
			if !change.kept {
				continue
			}
			p.Name = change.name
		}
		if !slices.ContainsFunc(out, func(o syncer.Port) bool { return o.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
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
func (u *unitedPort) target(sources []*member) syncer.TargetPort {
	agreed := u.targets[0]
	if u.Name == "" && agreed.Name == "" && validNumber(agreed.Number) {
		return agreed
	}
	differs := func(t syncer.TargetPort) bool { return t != agreed }
	valid := agreed.Name == "" && validNumber(agreed.Number) || syncer.IsTargetPortName(agreed.Name)
	if valid && !slices.ContainsFunc(u.targets, differs) && !u.contradicted(agreed, sources) {
		return agreed
	}
	if syncer.IsTargetPortName(u.Name) {
		return syncer.TargetPort{Name: u.Name}
	}
	return syncer.TargetPort{Name: opaqueTarget}
}

// contradicted reports whether an endpoint serves the port on another number
// than a numeric target says. Only hand-written endpoints can.
func (u *unitedPort) contradicted(t syncer.TargetPort, sources []*member) bool {
	if t.Name != "" {
		return false
	}
	for _, s := range sources {
		if s.service.Selector != nil {
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

func validProtocol(s string) bool { return s == syncer.TCP || s == syncer.UDP || s == syncer.SCTP }
