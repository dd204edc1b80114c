// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/stories"
	"tributary.dev/tributary/syncer"
)

// TestStories plays the stories of testdata/stories: each step changes what members contribute, what is
// asked for, the current objects or what the server refuses; then the replica is compared, and the
// actions are carried out, until nothing is left to do. What a line may say is in Apply; an address is
// followed by "!" if it is not ready, "~" if it terminates, "?" if it is of the reserve, "=" if it names no pod.
func TestStories(t *testing.T) {
	stories.Play(t, func(t *testing.T) stories.Story {
		s := &story{world: newWorld(t), shares: map[string]syncer.Share{}, settings: settings(), rounds: 20, less: map[Object]bool{}}
		s.now.Busy = func(o Object) bool {
			return slices.Contains(s.busy, o.Kind.String()) || slices.Contains(s.busy, o.Name)
		}
		s.now.Refused = func(o Object) bool { return s.less[o] }
		return s
	})
}

// story is one replica: what its members contribute, and its current objects.
type story struct {
	*world
	shares   map[string]syncer.Share
	settings Settings
	// rounds is how often the replica is compared in a step; busy are kinds or names, refused kinds
	// of full writes.
	rounds        int
	busy, refused []string
	// less are the objects of which a full write was refused.
	less  map[Object]bool
	shows bool
}

// Apply reads one line.
func (s *story) Apply(line string) error {
	words := strings.Fields(line)
	rest := words[1:]
	switch words[0] {
	case "member":
		return s.member(line)
	case "none":
		s.shares[rest[0]] = none(rest[0])
	case "left":
		delete(s.shares, rest[0])
	case "away", "seen", "drain", "serve", "open":
		for _, name := range rest {
			one := s.shares[name]
			one.Member, one.Listed = name, words[0] != "away" && (one.Listed || words[0] == "seen")
			one.Reserve = map[string]string{"drain": "drained"}[words[0]]
			one.SourceOpen = words[0] == "open" || words[0] == "away"
			s.shares[name] = one
		}
	case "missing": // MEMBER ADDRESS…: a list lacks them, and they are asked for
		one := s.shares[rest[0]]
		one.Keep = func(e syncer.Endpoint) (syncer.Endpoint, bool) { return e, slices.Contains(rest[1:], e.Addr.String()) }
		s.shares[rest[0]] = one
	case "namespace":
		s.now.Namespace = map[string]NamespaceState{"missing": NamespaceMissing, "active": NamespaceActive, "terminating": NamespaceTerminating}[rest[0]]
	case "busy":
		s.busy = rest
	case "refuse":
		s.refused = rest
	case "rounds":
		n, err := strconv.Atoi(rest[0])
		s.rounds = n
		return err
	case "show":
		s.shows = true
	case "set":
		return s.set(rest)
	case "edit":
		return s.edit(rest)
	default:
		return fmt.Errorf("unknown word %q", words[0])
	}
	return nil
}

// member reads: member NAME created=N place=N PORT… | ADDRESS….
func (s *story) member(line string) error {
	head, addrs, _ := strings.Cut(line, "|")
	words := strings.Fields(head)
	created, place, labels, ports := int64(100), 0, map[string]string{"app": "web"}, []string{}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch key {
		case "created":
			created = n
		case "place":
			place = int(n)
		case "team":
			labels[key], err = value, nil
		default:
			ports, err = append(ports, word), nil
		}
		if err != nil {
			return err
		}
	}
	one := listed(words[1], created, strings.Join(ports, " "), strings.Fields(addrs)...)
	one.Given.Service.Labels = labels
	one.Given.Service.Annotations = map[string]string{"example.com/owner": words[1]}
	one.Place, one.Reserve = place, s.shares[words[1]].Reserve
	if len(ports) == 0 {
		one.Given.Service.ClusterIP = syncer.ClusterIPNone
	}
	s.shares[words[1]] = one
	return nil
}

func (s *story) set(words []string) error {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "endpoints":
			s.settings.WriteEndpoints = value == "yes"
		case "namespaces":
			s.settings.CreateNamespaces = value == "create"
		case "orphans":
			s.settings.DropOrphans = value == "delete"
		case "annotations":
			s.settings.CopyAnnotation = func(string) bool { return value == "copy" }
		case "slice":
			s.settings.MaxEndpointsPerSlice, _ = strconv.Atoi(value)
		case "capacity":
			s.settings.Capacity, _ = strconv.Atoi(value)
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
	return nil
}

// edit does what somebody else may do: edit KIND WHAT.
func (s *story) edit(words []string) error {
	s.now = s.now.after(nil)
	switch strings.Join(words, " ") {
	case "service foreign":
		s.now.Service = &Service{Meta: Meta{UID: "theirs", ResourceVersion: "1", Labels: "tributary.dev/instance=other"}}
	case "service gone":
		s.now.Service, s.now.Endpoints, s.now.Slices = nil, nil, nil
		clear(s.ports)
	case "service deleting":
		s.now.Service.Deleting = true
	case "service selector":
		s.now.Service.HasSelector = true
	case "service clusterip":
		s.now.Service.ClusterIP = "10.96.0.7"
	case "service externalname":
		s.now.Service.ClusterIP = ""
	case "endpoints foreign":
		s.now.Endpoints = &Endpoints{Meta: Meta{UID: "theirs", ResourceVersion: "1"}}
	case "endpoints gone":
		s.now.Endpoints = nil
	case "slices gone":
		s.now.Slices = nil
		clear(s.ports)
	case "slice disowned":
		s.now.Slices[0].Owned = false
	case "slice foreign":
		s.now.Slices = append(s.now.Slices, Slice{Slice: syncer.Slice{Name: "web-zzz"}, Meta: Meta{UID: "theirs"}})
	case "slice malformed":
		s.now.Slices[0].Malformed = true
	case "slice owner":
		s.now.Slices[0].Owner = "another"
	case "slice spoken":
		ports := slices.Clone(s.now.Slices[0].Ports)
		for i := range ports {
			ports[i].AppProtocol = syncer.AppProtocol{Value: "http", Set: true}
		}
		s.now.Slices[0].Ports = ports
	case "slice relabelled":
		s.now.Slices[0].Labels = syncer.Labels(strings.Replace(string(s.now.Slices[0].Labels), "source-cluster=a", "source-cluster=zzz", 1))
	case "service annotated":
		s.annotate(&s.now.Service.Meta, "else.example.com/by", "a webhook")
		s.now.Service.Labels += ",webhook=added"
	default:
		return fmt.Errorf("unknown edit %q", words)
	}
	return nil
}

func (s *story) annotate(m *Meta, key, value string) {
	m.Annotations = maps.Clone(m.Annotations)
	m.Annotations[key] = value
}

// Step compares and writes, and says what follows.
func (s *story) Step() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	var waiting Waiting
	for round := 1; round <= s.rounds; round++ {
		var shares []syncer.Share
		for _, name := range slices.Sorted(maps.Keys(s.shares)) {
			shares = append(shares, s.shares[name])
		}
		var actions []Action
		actions, waiting = Actions(s.now, Merge(shopWeb, s.now, shares, s.settings))
		if s.write(round, actions, say) == 0 {
			break
		}
	}
	for _, c := range waiting.Conflicts {
		say("conflict %s: %s", c.Reason, c.Message)
	}
	if waiting.More {
		say("more follows")
	}
	s.tell(say)
	s.busy, s.refused, s.rounds, s.shows = nil, nil, 20, false
	return out
}

// write carries actions out, as far as the server accepts them, and returns how many changed anything.
func (s *story) write(round int, actions []Action, say func(string, ...any)) (n int) {
	for _, a := range actions {
		text := fmt.Sprintf("%d %s: %s %s %s: %s", round, a.Lane(), a.Verb, a.Kind, a.Name, why(&a))
		if a.Less {
			text = fmt.Sprintf("%d %s: %s %s %s: at least %s", round, a.Lane(), a.Verb, a.Kind, a.Name, why(&a))
		} else if slices.Contains(s.refused, a.Kind.String()) {
			if say("%s; refused", text); !s.less[a.Object()] {
				n++
			}
			s.less[a.Object()] = true
			continue
		}
		say("%s", text)
		s.apply(a)
		n++
		if !a.Less {
			delete(s.less, a.Object())
		}
	}
	return n
}

// tell says which objects of ours exist.
func (s *story) tell(say func(string, ...any)) {
	if of := s.now.Service; of != nil && of.Owned && s.shows {
		say("Service: %s; %s", of.Labels, strings.Join(shown(of.Annotations), "; "))
		for _, p := range of.Ports {
			say("Service: port %s %d/%s to %s%d", p.Name, p.Port, p.Protocol, p.Target.Name, p.Target.Number)
		}
	}
	for i := range s.now.Slices {
		of := &s.now.Slices[i]
		if !of.Owned {
			continue
		}
		var addrs []string
		for _, e := range endpointsOf(&of.Slice) {
			addrs = append(addrs, textOf(&e))
		}
		say("%s %v: %s", of.Name, of.Ports, strings.Join(addrs, " "))
		if s.shows {
			say("%s: %s; %s", of.Name, of.Labels, strings.Join(shown(of.Annotations), "; "))
		} else if reserve := of.Annotations[syncer.AnnotationReserve]; reserve != "" {
			say("%s: reserve %s", of.Name, reserve)
		}
	}
	if of := s.now.Endpoints; of != nil && of.Owned {
		for _, subset := range of.Subsets {
			var addrs []string
			for _, e := range endpointsIn([]syncer.Subset{subset}) {
				addrs = append(addrs, textOf(&e))
			}
			say("Endpoints %v: %s", subset.Ports, strings.Join(addrs, " "))
		}
		if s.shows {
			say("Endpoints: %s; %s", of.Labels, strings.Join(shown(of.Annotations), "; "))
		}
	}
}

func textOf(e *syncer.Endpoint) string {
	switch {
	case e.Terminating:
		return e.Addr.String() + "~"
	case !e.Ready:
		return e.Addr.String() + "!"
	}
	return e.Addr.String()
}

func shown(annotations map[string]string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		out = append(out, key+"="+annotations[key])
	}
	return out
}

// why says in a few words what an action changes.
func why(a *Action) string {
	out := []string{a.Why}
	for _, change := range []struct {
		places []string
		verb   string
	}{{a.Delta.Removed, "left"}, {a.Delta.Unreadied, "not ready"}, {a.Delta.Added, "arrived"}, {a.Delta.Readied, "ready"}} {
		if len(change.places) > 0 {
			out = append(out, strings.Join(change.places, " ")+" "+change.verb)
		}
	}
	return strings.Join(out, ", ")
}
