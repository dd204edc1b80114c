// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"tributary.dev/tributary/syncer"
)

// unitedPort is a port of a replica.
type unitedPort struct {
	syncer.ServicePort
	// owner is whose it is, targets are what the sources say, the owner first.
	owner   string
	targets []syncer.TargetPort
}

// union is the merge of the port lists of all sources, oldest first.
type union struct {
	left      bool // the first are those of the replica's Service as it stands
	ports     []*unitedPort
	conflicts []Conflict
}

// unite merges the ports of the sources, which come oldest first, and tells each what became
// of its port names. Ports are one where protocol and number are; the oldest names it:
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
// Where the replica's Service stays as it stands, its ports are the oldest: standing, else nil.
// What a member serves already it does not lose to them.
func unite(standing []syncer.ServicePort, sources []*member) *union {
	u := &union{left: standing != nil}
	for _, p := range standing {
		u.ports = append(u.ports, &unitedPort{ServicePort: p, owner: "the replica"})
	}
	for _, s := range sources {
		s.portChanges = map[string]*unitedPort{}
		for _, p := range acceptable(s.service.Ports) {
			u.add(s, p)
		}
	}
	for _, s := range sources {
		if len(u.ports) > 0 && len(acceptable(s.service.Ports)) == 0 {
			u.conflict(s, fmt.Sprintf("the Service in %s has no ports, the one in %s has: its endpoints are left out", s.Member, u.ports[0].owner))
		}
	}
	return u
}

func (u *union) find(is func(*unitedPort) bool) *unitedPort {
	if at := slices.IndexFunc(u.ports, is); at >= 0 {
		return u.ports[at]
	}
	return nil
}

// add decides which port of the replica one of a source is. Beside others each needs a name of its own.
func (u *union) add(s *member, p syncer.ServicePort) {
	o := u.find(func(o *unitedPort) bool { return o.Protocol == p.Protocol && o.Port == p.Port })
	if o == nil && p.Name == "" && len(u.ports) == 1 && u.ports[0].Protocol == p.Protocol {
		o = u.ports[0]
	}
	rival := u.find(func(o *unitedPort) bool { return o.Name == p.Name || o.Name == "" || p.Name == "" })
	switch {
	case o == nil && rival == nil:
		o = &unitedPort{ServicePort: p, owner: s.Member}
		u.ports = append(u.ports, o)
	case o == nil && u.left && s.has(p.Name):
		return
	case o == nil:
		s.portChanges[p.Name] = nil
		u.conflict(s, fmt.Sprintf("port %s of %s cannot stand beside port %s of %s, which is older and wins: its endpoints lose this port; make the Services agree",
			portText(p), s.Member, portText(rival.ServicePort), rival.owner))
		return
	}
	if o.targets = append(o.targets, p.Target); o.Name != p.Name {
		s.portChanges[p.Name] = o
	}
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

// has reports whether endpoints that stand of the member have a port of that name.
func (m *member) has(port string) bool {
	return slices.ContainsFunc(m.slices, func(s *Slice) bool {
		return len(s.Endpoints) > 0 && slices.ContainsFunc(s.Ports, func(p syncer.Port) bool { return p.Name == port })
	})
}

// fit renames and drops ports of the endpoints as the union decided. An endpoint that has no
// port left is absent; so is one without ports where the replica has some, because
// consumers would send traffic to any port of it.
func (m *member) fit(ported bool) {
	portless := func(e syncer.Endpoint) bool { return len(e.Ports) == 0 }
	if len(m.portChanges) == 0 && !(ported && slices.ContainsFunc(m.endpoints, portless)) {
		return
	}
	kept := make([]syncer.Endpoint, 0, len(m.endpoints))
	for _, e := range m.endpoints {
		if e.Ports = m.renamed(e.Ports); len(e.Ports) > 0 || !ported {
			kept = append(kept, e)
		}
	}
	m.endpoints = kept
}

// renamed applies the changes to a list of ports; names stay unique.
func (m *member) renamed(ports []syncer.Port) []syncer.Port {
	var out []syncer.Port
	for _, p := range ports {
		if as, changed := m.portChanges[p.Name]; changed {
			if as == nil {
				continue
			}
			p.Name = as.Name
		}
		if !slices.ContainsFunc(out, func(o syncer.Port) bool { return o.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
}

// acceptable returns the ports that a Service may have.
func acceptable(ports []syncer.ServicePort) []syncer.ServicePort {
	var kept []syncer.ServicePort
	for _, p := range ports {
		taken := slices.ContainsFunc(kept, func(k syncer.ServicePort) bool {
			return k.Name == p.Name || k.Protocol == p.Protocol && k.Port == p.Port
		})
		unnamed := p.Name == "" && len(ports) > 1
		if port := (syncer.Port{Name: p.Name, Protocol: p.Protocol, Number: p.Port}); taken || unnamed || !port.Valid() {
			continue
		}
		if p.AppProtocol != nil && !syncer.IsQualifiedName(*p.AppProtocol) {
			p.AppProtocol = nil
		}
		kept = append(kept, p)
	}
	return kept
}

// portText renders a port for people.
func portText(p syncer.ServicePort) string {
	if p.Name == "" {
		return fmt.Sprintf("%d/%s without a name", p.Port, p.Protocol)
	}
	return fmt.Sprintf("%q (%d/%s)", p.Name, p.Port, p.Protocol)
}

// opaqueTarget is the targetPort of a port whose name cannot be one (it is too
// long, or all digits). Any text does: there is no selector to resolve it.
const opaqueTarget = "by-endpoint"

// target decides the targetPort that consumers see. Where it is numeric, some of
// them send traffic to that number at every address whose slice port they cannot
// match by name; so a number is written only if it is true of every endpoint, and of those that
// are written by hand nobody knows. Otherwise the port's name stands there, which switches that
// fallback off.
func (u *unitedPort) target(sources []*member) syncer.TargetPort {
	agreed := u.targets[0]
	numeric := agreed.Name == "" && agreed.Number >= 1 && agreed.Number <= 65535
	agree := !slices.ContainsFunc(u.targets, func(t syncer.TargetPort) bool { return t != agreed })
	byHand := slices.ContainsFunc(sources, (*member).byHand)
	switch {
	case numeric && (u.Name == "" || agree && !byHand), agree && syncer.IsTargetPortName(agreed.Name):
		return agreed
	case syncer.IsTargetPortName(u.Name):
		return syncer.TargetPort{Name: u.Name}
	}
	return syncer.TargetPort{Name: opaqueTarget}
}
