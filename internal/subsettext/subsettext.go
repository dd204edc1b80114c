// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subsettext reads and writes subsets as short lines, for tests that
// compare two implementations over the same cases:
//
//	10.0.0.1 10.0.0.2#uid | 10.0.0.3 | http:8080 dns:53/UDP grpc:9090~h2c
//
// It is part of no product binary.
package subsettext

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Case is one rule with its input and the expected output.
type Case struct {
	Rule    string
	In, Out []syncer.Subset
}

// ParseCases reads cases: "= rule", then lines "in SUBSET" and "out SUBSET".
// Lines that begin with # are comments.
func ParseCases(text string) ([]Case, error) {
	var cases []Case
	for n, line := range strings.Split(text, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(verb, "#") {
			continue
		}
		if verb == "=" {
			cases = append(cases, Case{Rule: rest})
			continue
		}
		if len(cases) == 0 {
			return nil, fmt.Errorf("line %d: %q before the first rule", n+1, verb)
		}
		subset, err := Parse(rest)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		c := &cases[len(cases)-1]
		switch verb {
		case "in":
			c.In = append(c.In, subset)
		case "out":
			c.Out = append(c.Out, subset)
		default:
			return nil, fmt.Errorf("line %d: unknown word %q, want in or out", n+1, verb)
		}
	}
	return cases, nil
}

// Parse reads one subset.
func Parse(line string) (syncer.Subset, error) {
	var s syncer.Subset
	parts := strings.Split(line, "|")
	if len(parts) != 3 {
		return s, fmt.Errorf("subset %q: want three parts", line)
	}
	for i, list := range []*[]syncer.Address{&s.Ready, &s.NotReady} {
		for _, field := range strings.Fields(parts[i]) {
			a, err := parseAddress(field)
			if err != nil {
				return s, err
			}
			*list = append(*list, a)
		}
	}
	for _, field := range strings.Fields(parts[2]) {
		p, err := parsePort(field)
		if err != nil {
			return s, err
		}
		s.Ports = append(s.Ports, p)
	}
	return s, nil
}

// parseAddress reads ip, ip#uid or ip#uid@name.
func parseAddress(field string) (a syncer.Address, err error) {
	ip, target, found := strings.Cut(field, "#")
	if a.Addr, err = netip.ParseAddr(ip); err != nil {
		return a, fmt.Errorf("address %q: %w", field, err)
	}
	if found {
		a.Target.Kind = "Pod"
		a.Target.UID, a.Target.Name, _ = strings.Cut(target, "@")
	}
	return a, nil
}

// parsePort reads name:number/protocol~appProtocol.
func parsePort(field string) (p syncer.Port, err error) {
	rest := field
	if rest, p.AppProtocol.Value, p.AppProtocol.Set = strings.Cut(rest, "~"); rest == "" {
		return p, fmt.Errorf("port %q: no number", field)
	}
	rest, protocol, found := strings.Cut(rest, "/")
	if p.Protocol = syncer.TCP; found {
		p.Protocol = protocol
	}
	name, number, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return p, fmt.Errorf("port %q: %w", field, err)
	}
	p.Name, p.Number = name, int32(n)
	return p, nil
}

// Format renders subsets, one line each.
func Format(subsets []syncer.Subset) []string {
	var lines []string
	for i := range subsets {
		s := &subsets[i]
		var ports []string
		for _, p := range s.Ports {
			text := p.Name + ":" + strconv.Itoa(int(p.Number))
			if p.Protocol != syncer.TCP {
				text += "/" + p.Protocol
			}
			if p.AppProtocol.Set {
				text += "~" + p.AppProtocol.Value
			}
			ports = append(ports, text)
		}
		lines = append(lines, formatAddresses(s.Ready)+" | "+formatAddresses(s.NotReady)+" | "+strings.Join(ports, " "))
	}
	return lines
}

func formatAddresses(list []syncer.Address) string {
	var texts []string
	for i := range list {
		text := list[i].Addr.String()
		if t := list[i].Target; t != (syncer.TargetRef{}) {
			text += "#" + t.UID
			if t.Name != "" {
				text += "@" + t.Name
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}
