// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/stories"
	"tributary.dev/tributary/syncer"
)

// TestStories plays the stories of testdata/stories: each step changes what members give,
// what is asked for, what stands or what the server refuses; the plan that it comes to is
// then carried out. What a line may say is in Apply; a pod's address is followed by "!" if it
// is not ready, "~" if it terminates.
func TestStories(t *testing.T) {
	stories.Play(t, func(t *testing.T) stories.Story {
		return &replicaStory{
			world: newWorld(t, shopWeb), members: map[string]Contribution{}, away: map[string]bool{}, left: map[string]bool{},
			settings: Settings{WriteEndpoints: true, WriteSlices: true, CreateNamespaces: true},
		}
	})
}

// replicaStory is one replica: what its members give, and what stands.
type replicaStory struct {
	*world
	members  map[string]Contribution
	away     map[string]bool // not seen since the start: what stands counts
	left     map[string]bool // not in the configuration any more
	settings Settings
	// refuses is what the server does not take, nil for nothing; former is what was left
	// out for that.
	refuses func(*Action) bool
	former  []Refusal
}

// Apply reads one line.
func (s *replicaStory) Apply(line string) error {
	words := strings.Fields(line)
	switch words[0] {
	case "member":
		return s.member(words[1], line)
	case "gone":
		delete(s.members, words[1])
	case "away":
		s.away[words[1]] = true
	case "left":
		s.left[words[1]] = true
	case "namespace":
		s.current.Namespace = map[string]NamespaceState{"missing": NamespaceMissing, "active": NamespaceActive, "terminating": NamespaceTerminating}[words[1]]
	case "settings":
		return s.set(words[1:])
	case "hand":
		return s.hand(words[1:])
	case "foreign":
		s.foreign(words[1])
	case "refuse":
		return s.refuse(words[1:])
	default:
		return fmt.Errorf("unknown word %q", words[0])
	}
	return nil
}

// member reads: member NAME created=N PORT… | ADDRESS… | FLAG….
func (s *replicaStory) member(name, line string) error {
	parts := append(strings.Split(line, "|"), "", "")
	words := strings.Fields(parts[0])[2:]
	created := int64(100)
	if text, found := strings.CutPrefix(words[0], "created="); found {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		created, words = n, words[1:]
	}
	c := from(name, created, strings.Join(words, " "), strings.Fields(parts[1])...)
	for i := range c.Endpoints { // a pod is who it is, whatever comes before it
		e := &c.Endpoints[i]
		e.Target.Name, e.Target.UID = "web-"+e.Addr.String(), name+"-"+e.Addr.String()
	}
	for _, flag := range strings.Fields(parts[2]) {
		switch key, value, _ := strings.Cut(flag, "="); key {
		case "drain":
			c.Drain = true
		case "force":
			c.Drain, c.DrainForce = true, true
		case "stale":
			c.Stale = true
		case "panic":
			c.Panicking = true
		case "away":
			c.Away = true
		case "failover":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			c.Failover = n
		case "label":
			c.Service.Labels = map[string]string{"app": "web", "team": value}
		default:
			return fmt.Errorf("unknown word %q", flag)
		}
	}
	s.members[name], s.away[name], s.left[name] = c, false, false
	return nil
}

func (s *replicaStory) set(words []string) error {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "write":
			s.settings.WriteEndpoints = strings.Contains(value, "endpoints")
			s.settings.WriteSlices = strings.Contains(value, "slices")
		case "slice":
			s.settings.MaxEndpointsPerSlice = n
		case "capacity":
			s.settings.Capacity = n
		case "namespaces":
			s.settings.CreateNamespaces = value == "create"
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
	return nil
}

// hand is what somebody does to our objects.
func (s *replicaStory) hand(words []string) error {
	o := &s.current
	switch strings.Join(words[:min(2, len(words))], " ") {
	case "delete service":
		o.Service = nil
	case "delete endpoints":
		o.Endpoints = nil
	case "delete slices":
		o.Slices = nil
	case "empty endpoints":
		o.Endpoints.Subsets = nil
	case "empty slices":
		for i := range o.Slices {
			o.Slices[i].Endpoints = nil
		}
	case "add address":
		first := &o.Endpoints.Subsets[0]
		first.Ready = append(slices.Clone(first.Ready), syncer.Address{Addr: netip.MustParseAddr(words[2])})
	case "set selector":
		o.Service.Selector = map[string]string{"app": "theirs"}
	case "label endpoints":
		o.Endpoints.Labels = with(o.Endpoints.Labels, words[2], "theirs")
	case "annotate service":
		o.Service.Annotations = with(o.Service.Annotations, words[2], "theirs")
	case "unlabel service":
		o.Service.strip()
	case "unlabel endpoints":
		o.Endpoints.strip()
	case "deleting service":
		o.Service.Deleting = true
	default:
		return fmt.Errorf("unknown deed %q", words)
	}
	return nil
}

// foreign puts an object of somebody else where ours would be.
func (s *replicaStory) foreign(kind string) {
	switch kind {
	case "service":
		s.current.Service = &CurrentService{Meta: Meta{Name: shopWeb.Name, UID: "theirs", ResourceVersion: "1"}}
	case "endpoints":
		s.current.Endpoints = &CurrentEndpoints{Meta: Meta{Name: shopWeb.Name, UID: "theirs", ResourceVersion: "1"}}
	}
}

// refuse has the server say no, and not why.
func (s *replicaStory) refuse(words []string) error {
	switch what := words[0]; what {
	case "nothing":
		s.refuses = func(*Action) bool { return false }
	case "address":
		s.refuses = refuseAddresses(words[1:]...)
	case "endpoints":
		s.refuses = func(a *Action) bool { return a.Kind == KindEndpoints && refuseAddresses(words[1:]...)(a) }
	case "create", "update", "delete":
		s.refuses = func(a *Action) bool {
			return string(a.Verb) == what && strings.EqualFold(string(a.Kind), words[1]) && (len(words) < 3 || a.Slice != nil && a.Slice.Cluster == words[2])
		}
	case "everything":
		s.refuses = func(*Action) bool { return true }
	default:
		return fmt.Errorf("unknown refusal %q", words)
	}
	return nil
}

// search carries a plan out as far as the server takes it, and says what was left out.
func (s *replicaStory) search(say func(string, ...any)) {
	p := &policy{refuses: s.refuses, settings: s.settings}
	search := p.pass(s.t, s.world, s.contributions(), nil, s.former)
	s.former = search.LeftOut()
	say("%d refused, %d written", p.refused, p.written)
	for _, r := range s.former {
		say("left out: %s", r.String())
	}
}

// contributions are what the members give, those that are away or left as they stand.
func (s *replicaStory) contributions() (all []Contribution) {
	names := map[string]bool{}
	for name := range s.members {
		names[name] = true
	}
	for _, name := range s.current.Clusters() {
		if s.away[name] || s.left[name] {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !s.away[name] && !s.left[name] {
			all = append(all, s.members[name])
			continue
		}
		for _, c := range s.current.Share(name) {
			c.Expected, c.Orphan = s.away[name], s.left[name]
			all = append(all, c)
		}
	}
	return all
}

// Step plans, says what it comes to, and carries it out.
func (s *replicaStory) Step() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	desired := mergeOrNil(s.contributions(), s.current, s.settings)
	p := Diff(s.current, desired, s.settings)
	number := 0
	tell := func(stage []Action) {
		number++
		var lines []string
		for i := range stage {
			a := &stage[i]
			line := fmt.Sprintf("%d %s %s: %s", number, a.Verb, a.Kind, a.Why)
			if content := a.content(); content != "" {
				line += "; " + content
			}
			if a.Otherwise != nil {
				line += "; or at least " + a.Otherwise.content()
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		for _, line := range lines {
			say("%s", line)
		}
	}
	if len(p.Removals) > 0 {
		say("what takes away:")
		tell(p.Removals)
	}
	if len(p.Stages) > 0 {
		say("the rest:")
	}
	for _, stage := range p.Stages {
		tell(stage)
	}
	if p.Empty() {
		say("nothing to write")
	}
	for _, c := range p.Conflicts {
		say("conflict %s: %s", c.Reason, c.Message)
	}
	for _, h := range p.Held {
		say("held %s of %s", h.Reason, h.Cluster)
	}
	for _, k := range p.Kept {
		say("kept %d of %s", k.Endpoints, k.Cluster)
	}
	if p.Waiting != "" {
		say("waiting: %s", p.Waiting)
	}
	if s.refuses != nil {
		s.search(say)
	} else {
		s.carryOut(desired, p)
	}
	say("serves %s", strings.Join(readyAddresses(s.world), " "))
	return out
}

// carryOut writes, until nothing is left to be written, and makes sure that it ends.
func (s *replicaStory) carryOut(desired *Desired, p Plan) {
	for range 4 {
		if p.Empty() {
			return
		}
		s.execute(p, nil)
		p = Diff(s.current, desired, s.settings)
	}
	s.t.Fatalf("no end of writing: %s", textOf(s.t, p))
}
