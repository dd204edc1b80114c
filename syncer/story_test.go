// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/internal/stories"
	"tributary.dev/tributary/internal/subsettext"
	"tributary.dev/tributary/syncer"
)

// TestStories plays the stories of testdata/stories: each step changes a Service and its
// pods. What a line may say is in Apply; the sources of the rules are named in the files.
func TestStories(t *testing.T) {
	stories.Play(t, func(*testing.T) stories.Story { return &story{pods: map[string]*syncer.Pod{}} })
}

// story is a Service with its pods, and what was made of them so far.
type story struct {
	service syncer.Service
	pods    map[string]*syncer.Pod
	manual  []syncer.Subset
	slices  []syncer.Slice // hand-written
	skip    bool
	options syncer.Options
	max     int
	effects []string
	current []syncer.Slice
	trigger *syncer.Trigger
}

// Apply reads one line.
func (s *story) Apply(line string) error {
	words := strings.Fields(line)
	switch words[0] {
	case "service":
		return s.setService(words[1:])
	case "pod":
		return s.setPod(words[1:])
	case "gone":
		old := s.pods[words[1]]
		s.effects = append(s.effects, "pod "+words[1]+" gone: "+syncer.PodEffect(old, nil, s.options.Rules).String())
		s.trigger.Note(words[1], old.ReadySince)
		delete(s.pods, words[1])
	case "options":
		return s.setOptions(words[1:])
	case "endpoints": // a subset written by hand; the first of a step replaces those before
		subset, err := subsettext.Parse(strings.TrimPrefix(line, "endpoints"))
		s.manual = append(s.manual, subset)
		return err
	case "erase":
		s.manual, s.slices = nil, nil
	case "slice":
		return s.addSlice(words[1:])
	default:
		return fmt.Errorf("unknown word %q", words[0])
	}
	return nil
}

func (s *story) setService(words []string) (err error) {
	v := syncer.Service{Key: syncer.Key{Namespace: "shop", Name: words[0]}, UID: "s", ClusterIP: "10.96.0.1",
		Selector: map[string]string{"app": "web"}, IPFamilies: []syncer.Family{syncer.IPv4}, Created: 100,
		Ports: []syncer.ServicePort{{Name: "http", Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: 8080}}}}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "ip":
			v.ClusterIP = strings.TrimPrefix(value, "-")
		case "families":
			v.IPFamilies = nil
			for _, f := range list(value) {
				v.IPFamilies = append(v.IPFamilies, syncer.Family(f))
			}
		case "ports":
			if v.Ports, err = servicePorts(list(value)); err != nil {
				return err
			}
		case "selector":
			v.Selector = map[string]map[string]string{"-": nil, "all": {}}[value]
		case "publish":
			v.PublishNotReadyAddresses = true
		case "external":
			v.ExternalName = true
		case "created":
			if v.Created, err = strconv.ParseInt(value, 10, 64); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
	if s.trigger == nil || s.service.Created != v.Created {
		s.trigger = new(syncer.Trigger)
	}
	s.trigger.Changed()
	s.service = v
	return nil
}

// servicePorts reads name:port>target/protocol~application.
func servicePorts(texts []string) (ports []syncer.ServicePort, err error) {
	for _, text := range texts {
		rest, app, hasApp := strings.Cut(text, "~")
		rest, protocol, hasProtocol := strings.Cut(rest, "/")
		name, rest, _ := strings.Cut(rest, ":")
		number, target, _ := strings.Cut(rest, ">")
		p := syncer.ServicePort{Name: name, Protocol: syncer.TCP}
		if hasProtocol {
			p.Protocol = protocol
		}
		if hasApp {
			p.AppProtocol = syncer.AppProtocol{Value: app, Set: true}
		}
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return nil, err
		}
		p.Port = int32(n)
		if n, err := strconv.ParseInt(target, 10, 32); err == nil {
			p.Target.Number = int32(n)
		} else {
			p.Target.Name = target
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// list reads a,b; "-" is empty.
func list(text string) []string {
	if text == "-" || text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (s *story) setPod(words []string) error {
	name := words[0]
	p := &syncer.Pod{Key: syncer.Key{Namespace: "shop", Name: name}, UID: "u-" + name, Ready: true, NodeName: "n1", ReadySince: 100}
	for _, text := range list(words[1]) {
		ip := syncer.PodIP{Raw: text}
		if addr, ok := syncer.ParseAddr(text); ok {
			ip = syncer.PodIP{Addr: addr}
		}
		p.IPs = append(p.IPs, ip)
	}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "notready":
			p.Ready = false
		case "deleted":
			p.Terminating = true
		case "finished":
			p.Terminal = true
		case "silent":
			p.Ready, p.NodeSilent = false, true
		case "back":
			p.WasReady = true
		case "matches":
			for _, rule := range list(value) {
				p.Matches |= 1 << (rule[0] - '1')
			}
		case "zone":
			p.Labels = syncer.LabelsOf(map[string]string{"topology.kubernetes.io/zone": value})
		case "node":
			p.NodeName = value
		case "host":
			p.Hostname, p.Subdomain, _ = strings.Cut(value, ".")
		case "uid":
			p.UID = value
		case "since":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return err
			}
			p.ReadySince = n
		case "ports":
			for _, text := range list(value) {
				name, rest, _ := strings.Cut(text, ":")
				number, protocol, _ := strings.Cut(rest, "/")
				n, err := strconv.ParseInt(number, 10, 32)
				if err != nil {
					return err
				}
				p.Ports = append(p.Ports, syncer.ContainerPort{Name: name, Protocol: protocol, Port: int32(n)})
			}
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
	before := int64(0)
	if old := s.pods[name]; old != nil {
		s.effects = append(s.effects, "pod "+name+": "+syncer.PodEffect(old, p, s.options.Rules).String())
		before = old.ReadySince
	}
	s.trigger.Note(name, before)
	s.pods[name] = p
	return nil
}

func (s *story) setOptions(words []string) error {
	s.options = syncer.Options{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "allow":
			for _, text := range list(value) {
				prefix, err := netip.ParsePrefix(text)
				if err != nil {
					return err
				}
				s.options.AllowedCIDRs = append(s.options.AllowedCIDRs, prefix)
			}
		case "hold", "stable", "now":
			span, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			switch key {
			case "hold":
				s.options.HoldSilentNodes = span
			case "stable":
				s.options.StableFor = span
			default:
				s.options.Now = time.Unix(0, 0).Add(span)
			}
		case "rules":
			for i, then := range list(value) {
				says, known := map[string]syncer.Then{"Ready": syncer.ThenReady, "NotReady": syncer.ThenNotReady,
					"Absent": syncer.ThenAbsent, "Upstream": syncer.ThenUpstream}[then]
				if !known {
					return fmt.Errorf("no rule says %q", then)
				}
				s.options.Rules.Applies |= 1 << i
				s.options.Rules.Then = append(s.options.Rules.Then, says)
			}
		case "max":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			s.max = n
		case "skipmirror":
			s.skip = true
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
	return nil
}

// addSlice reads a slice written by hand: name family ports address[+flag…] …
func (s *story) addSlice(words []string) error {
	out := syncer.Slice{Name: words[0], Family: syncer.Family(words[1])}
	subset, err := subsettext.Parse("||" + strings.ReplaceAll(words[2], ",", " "))
	if err != nil {
		return err
	}
	out.Ports = subset.Ports
	for _, word := range words[3:] {
		text, flags, _ := strings.Cut(word, "+")
		e := syncer.Endpoint{Ready: strings.Contains(flags, "r"), Serving: strings.Contains(flags, "s"), Terminating: strings.Contains(flags, "t")}
		e.Addr, _ = syncer.ParseAddr(text)
		out.Endpoints = append(out.Endpoints, e)
	}
	s.slices = append(s.slices, out)
	return nil
}

// Step computes, packs and says what follows.
func (s *story) Step() (out []string) {
	say := func(format string, args ...any) {
		out = append(out, fmt.Sprintf(format, args...))
	}
	for _, effect := range s.effects {
		say("%s", effect)
	}
	s.effects = nil
	pods := slices.SortedFunc(maps.Values(s.pods), func(a, b *syncer.Pod) int { return a.Key.Compare(b.Key) })
	svc := s.service
	var c syncer.Contribution
	if svc.Selector == nil {
		c = syncer.HandWritten(&svc, s.manual, s.slices, s.skip, s.options)
	} else {
		c = syncer.Compute(&svc, slices.Values(pods), s.options)
		since := func(name string) int64 {
			if p := s.pods[name]; p != nil {
				return p.ReadySince
			}
			return 0
		}
		if at := s.trigger.Time(&svc, since); !at.IsZero() {
			say("trigger %d", at.Unix())
		}
		c.Subsets = syncer.Subsets(c.Endpoints)
	}
	subsets, truncated := syncer.Truncate(c.Subsets, syncer.EndpointsCapacity)
	for _, line := range subsettext.Format(subsets) {
		say("Endpoints %s", line)
	}
	if truncated {
		say("Endpoints are truncated")
	}
	s.pack(&c, say)
	if !c.Next.IsZero() {
		say("until %d", c.Next.Unix())
	}
	for _, r := range c.Rejected {
		say("rejected %s of %s %s: %s", r.Address, r.Object.Kind, r.Object.Name, r.Reason)
	}
	for _, p := range pods {
		if v := syncer.Explain(&svc, p, s.options); svc.Selector != nil && v.Why != "" {
			say("%s: %s", p.Name, v.Why)
		}
	}
	return out
}

// pack says which slices are written.
func (s *story) pack(c *syncer.Contribution, say func(string, ...any)) {
	packed := syncer.Pack(s.current, c.Endpoints, c.Families, syncer.PackOptions{Service: s.service.Key, Cluster: "a", MaxEndpoints: s.max})
	was := map[string]string{}
	for i := range s.current {
		was[s.current[i].Name] = showSlice(&s.current[i])
	}
	existed := len(was) > 0
	for i := range packed {
		now := showSlice(&packed[i])
		before, exists := was[packed[i].Name]
		switch {
		case !exists:
			say("slice created: %s", now)
		case before != now:
			say("slice updated: %s", now)
		}
		delete(was, packed[i].Name)
	}
	for _, gone := range slices.Sorted(maps.Values(was)) {
		say("slice deleted: %s", gone)
	}
	if existed && len(was) == 0 && slices.EqualFunc(s.current, packed, func(a, b syncer.Slice) bool { return showSlice(&a) == showSlice(&b) }) {
		say("slices unchanged")
	}
	s.current = packed
}

// showSlice renders the content of a slice, without its name, which is a hash.
func showSlice(s *syncer.Slice) string {
	var b strings.Builder
	b.WriteString(string(s.Family))
	for _, p := range s.Ports {
		fmt.Fprintf(&b, " %s", p)
		if p.AppProtocol.Set {
			b.WriteString("~" + p.AppProtocol.Value)
		}
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		b.WriteString(" | " + e.Addr.String())
		if e.Target.UID != "" {
			b.WriteString("#" + e.Target.UID)
		}
		for _, flag := range []struct {
			text string
			on   bool
		}{{"ready", e.Ready}, {"serving", e.Serving}, {"terminating", e.Terminating}} {
			if flag.on {
				b.WriteString(" " + flag.text)
			}
		}
		if e.Grade == syncer.Reserve {
			b.WriteString(" reserve")
		}
		for _, detail := range []struct{ key, value string }{{"host", e.Hostname}, {"zone", e.Zone}} {
			if detail.value != "" {
				b.WriteString(" " + detail.key + "=" + detail.value)
			}
		}
	}
	return b.String()
}
