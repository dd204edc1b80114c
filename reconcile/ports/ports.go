// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ports decides which ports the Service of a replica has, and under which names the endpoints
// of its members have them. A newcomer starts at Unite, whose table is all of the rules.
//
// What never happens here: an endpoint is judged by anything but its ports, or an input changed.
package ports

import (
	"fmt"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Source is the Service of a member.
type Source struct {
	Member string
	Ports  []syncer.ServicePort
	// ByHand is true where the endpoints are written by hand.
	ByHand bool
	// Serves reports whether published endpoints of the member have a port of that name.
	Serves func(name string) bool

	names Names
}

// Names are those that ports have in the replica where that is another, by their own; nil for a port
// that is lost.
type Names map[string]*string

// port is a port of a replica.
type port struct {
	syncer.ServicePort
	// owner is the member whose port it is, targets are those of the sources, the owner first.
	owner   string
	targets []syncer.TargetPort
}

// Union is the merge of the port lists of all sources, oldest first.
type Union struct {
	// Conflicts are what the Services disagree about.
	Conflicts []Conflict

	left   bool // the first are those of the replica's current Service
	byHand bool
	ports  []*port
}

// Conflict is a disagreement that Member loses.
type Conflict struct{ Member, Message string }

// Unite merges the ports of the sources, which come oldest first. Ports are one where protocol and number are; the oldest names it:
//
//	oldest     younger       replica    the younger one's endpoints
//	http 80    http 80       http 80    retain the port
//	http 80    web 80        http 80    have it under the name http
//	http 80    http 8080     http 80    lose the port: conflict
//	http 80    https 443     both       retain the port
//	http 80    (none) 80     http 80    have it under the name http
//	http 80    (none) 8080   http 80    likewise, when both have just this one
//	(none) 80  http 80       (none) 80  have it without a name
//	(none) 80  https 443     (none) 80  lose the port: conflict, two need names
//	no ports   http 80       http 80    retain the port; those of the older are absent: conflict
//
// Where the replica's Service stays as it is, its ports are the oldest: current, else nil. A member
// does not lose a port to them that it serves already.
func Unite(current []syncer.ServicePort, sources []*Source) *Union {
	u := &Union{left: current != nil}
	for _, p := range current {
		u.ports = append(u.ports, &port{ServicePort: p, owner: "the replica"})
	}
	for _, s := range sources {
		s.names, u.byHand = Names{}, u.byHand || s.ByHand
		for _, p := range acceptable(s.Ports) {
			u.add(s, p)
		}
	}
	for _, s := range sources {
		if len(u.ports) > 0 && len(acceptable(s.Ports)) == 0 {
			u.conflict(s, fmt.Sprintf("the Service in %s has no ports, the one in %s has: its endpoints are left out", s.Member, u.ports[0].owner))
		}
	}
	return u
}

func (u *Union) find(is func(*port) bool) *port {
	if at := slices.IndexFunc(u.ports, is); at >= 0 {
		return u.ports[at]
	}
	return nil
}

// add decides which port of the replica one of a source is. Beside others each needs a name of its own.
func (u *Union) add(s *Source, p syncer.ServicePort) {
	o := u.find(func(o *port) bool { return o.Protocol == p.Protocol && o.Port == p.Port })
	if o == nil && p.Name == "" && len(u.ports) == 1 && u.ports[0].Protocol == p.Protocol {
		o = u.ports[0]
	}
	rival := u.find(func(o *port) bool { return o.Name == p.Name || o.Name == "" || p.Name == "" })
	switch {
	case o == nil && rival == nil:
		o = &port{ServicePort: p, owner: s.Member}
		u.ports = append(u.ports, o)
	case o == nil && u.left && s.Serves(p.Name):
		return
	case o == nil:
		s.names[p.Name] = nil
		u.conflict(s, fmt.Sprintf("port %s of %s cannot stand beside port %s of %s, which is older and wins: its endpoints lose this port; make the Services agree",
			portText(p), s.Member, portText(rival.ServicePort), rival.owner))
		return
	}
	o.targets = append(o.targets, p.Target)
	if o.Name != p.Name {
		s.names[p.Name] = &o.Name
	}
}

func (u *Union) conflict(s *Source, message string) {
	u.Conflicts = append(u.Conflicts, Conflict{s.Member, message})
}

// Former returns, by their names, the ports that the replica's Service has under another name yet, under which
// endpoints are published: the name there. One port in place of one other is that one. A name that
// the Service keeps is that of no other port.
func (u *Union) Former(current []syncer.ServicePort, sources []*Source) Names {
	former := Names{}
	for _, p := range current {
		if u.find(func(o *port) bool { return o.Name == p.Name }) != nil || !slices.ContainsFunc(sources, func(s *Source) bool { return s.Serves(p.Name) }) {
			continue
		}
		for _, o := range u.ports {
			one := o.Protocol == p.Protocol && o.Port == p.Port || len(current) == 1 && len(u.ports) == 1
			if one && !slices.ContainsFunc(current, func(p syncer.ServicePort) bool { return p.Name == o.Name }) {
				former[o.Name] = &p.Name
			}
		}
	}
	return former
}

// Ports are those of the replica's Service.
func (u *Union) Ports() (out []syncer.ServicePort) {
	for _, p := range u.ports {
		port := p.ServicePort
		port.Target = p.target(u.byHand)
		out = append(out, port)
	}
	return out
}

// Fit renames and drops ports of a source's endpoints. An endpoint that has no
// port left is absent; so is one without ports where the replica has some, because
// consumers would send traffic to any port of it.
func (u *Union) Fit(s *Source, endpoints []syncer.Endpoint) []syncer.Endpoint {
	endpoints = s.names.Rename(endpoints)
	portless := func(e syncer.Endpoint) bool { return len(e.Ports) == 0 }
	if len(u.ports) > 0 && slices.ContainsFunc(endpoints, portless) {
		endpoints = slices.DeleteFunc(slices.Clone(endpoints), portless)
	}
	return endpoints
}

// Rename has the ports of endpoints under the names; these stay unique, and beside a port without one is no other.
func (n Names) Rename(endpoints []syncer.Endpoint) []syncer.Endpoint {
	if len(n) == 0 {
		return endpoints
	}
	endpoints = slices.Clone(endpoints)
	for i := range endpoints {
		endpoints[i].Ports = n.renamed(endpoints[i].Ports)
	}
	return endpoints
}

func (n Names) renamed(ports []syncer.Port) []syncer.Port {
	var out []syncer.Port
	for _, p := range ports {
		if as, changed := n[p.Name]; changed {
			if as == nil {
				continue
			}
			p.Name = *as
		}
		if !slices.ContainsFunc(out, func(o syncer.Port) bool { return o.Name == p.Name }) {
			out = append(out, p)
		}
	}
	if at := slices.IndexFunc(out, func(p syncer.Port) bool { return p.Name == "" }); at >= 0 {
		return out[at : at+1]
	}
	return out
}

// acceptable returns the ports that a Service may have.
func acceptable(ports []syncer.ServicePort) []syncer.ServicePort {
	var accepted []syncer.ServicePort
	for _, p := range ports {
		taken := slices.ContainsFunc(accepted, func(k syncer.ServicePort) bool {
			return k.Name == p.Name || k.Protocol == p.Protocol && k.Port == p.Port
		})
		unnamed := p.Name == "" && len(ports) > 1
		if port := (syncer.Port{Name: p.Name, Protocol: p.Protocol, Number: p.Port}); taken || unnamed || !port.Valid() {
			continue
		}
		if !syncer.IsQualifiedName(p.AppProtocol.Value) {
			p.AppProtocol = syncer.AppProtocol{}
		}
		accepted = append(accepted, p)
	}
	return accepted
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
// are written by hand nobody knows. Otherwise the port's name is written, which switches that
// fallback off.
func (p *port) target(byHand bool) syncer.TargetPort {
	agreed := p.targets[0]
	numeric := agreed.Name == "" && agreed.Number >= 1 && agreed.Number <= 65535
	agree := !slices.ContainsFunc(p.targets, func(t syncer.TargetPort) bool { return t != agreed })
	switch {
	case numeric && (p.Name == "" || agree && !byHand), agree && syncer.IsTargetPortName(agreed.Name):
		return agreed
	case syncer.IsTargetPortName(p.Name):
		return syncer.TargetPort{Name: p.Name}
	}
	return syncer.TargetPort{Name: opaqueTarget}
}
