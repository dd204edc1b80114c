// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"iter"
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
	stories.Play(t, func(t *testing.T) stories.Story { return newReplicaStory(t) })
}

func newReplicaStory(t testing.TB) *replicaStory {
	return &replicaStory{
		world: newWorld(t, shopWeb), members: map[string]Contribution{}, away: map[string]bool{}, configured: map[string]bool{},
		settings: Settings{WriteEndpoints: true, WriteSlices: true, CreateNamespaces: true},
	}
}

// replicaStory is one replica: what its members give, and what stands.
type replicaStory struct {
	*world
	// members are the Services by cluster, a second one of a cluster as "NAME/2".
	members    map[string]Contribution
	away       map[string]bool // not seen since the start: what stands counts
	configured map[string]bool
	lost       []string // known to be gone, though their member is away
	remove     bool     // what stands of clusters that are not configured goes
	settings   Settings
	// answer is what the server makes of a write, nil: it takes it; former is what was left
	// out for that.
	answer func(*Action) answer
	former []Refusal
	// most is how many writes are made before the process ends; 0: all.
	most int
	// shows is what is to be told at the end of the step in hand.
	shows [][]string
}

// Apply reads one line.
func (s *replicaStory) Apply(line string) error {
	words := strings.Fields(line)
	rest := words[1:]
	switch words[0] {
	case "member":
		return s.member(rest[0], line)
	case "gone":
		delete(s.members, rest[0])
	case "away":
		s.away[rest[0]] = true
	case "seen":
		for _, name := range rest {
			delete(s.away, name)
		}
	case "left":
		for _, name := range rest {
			s.configured[name], s.away[name] = false, false
		}
	case "lost":
		s.lost = rest
	case "restart":
		s.restart()
	case "stop":
		n, err := strconv.Atoi(rest[len(rest)-1])
		s.most = n
		return err
	case "namespace":
		s.current.Namespace = map[string]NamespaceState{"missing": NamespaceMissing, "active": NamespaceActive,
			"terminating": NamespaceTerminating, "unreadable": NamespaceUnreadable}[rest[0]]
	case "settings":
		return s.set(rest)
	case "hand":
		return s.hand(rest)
	case "edit":
		return s.edit(rest[0], rest[1:])
	case "forge":
		return s.forge(rest)
	case "foreign":
		s.foreign(rest[0])
	case "occupied":
		s.current.Occupied = rest
	case "refuse":
		return s.refuse(rest)
	case "webhook":
		return s.webhook(rest)
	case "show":
		s.shows = append(s.shows, rest)
	default:
		return fmt.Errorf("unknown word %q", words[0])
	}
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
		case "instance":
			s.settings.Instance, s.instance = value, value
		case "orphans":
			s.remove = value == "delete"
		case "annotations":
			s.settings.PassAnnotation = func(key string) bool { return value == "pass" || strings.HasPrefix(key, value) }
		case "order", "drain", "force":
			p, _ := s.settings.Policy.(placement)
			s.settings.Policy = p.with(key, strings.Split(value, ","))
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
	return nil
}

// placement is a Policy as a configuration says it, whatever the sources ask for.
type placement struct{ order, drained, forced []string }

func (p placement) with(key string, clusters []string) placement {
	switch clusters = slices.DeleteFunc(clusters, func(name string) bool { return name == "" }); key {
	case "order":
		p.order = clusters
	case "drain":
		p.drained = clusters
	case "force":
		p.forced = clusters
	}
	return p
}

func (p placement) Order(syncer.Key, string, *syncer.Service) []string { return p.order }

func (p placement) Drain(cluster string) (drain, force bool) {
	force = slices.Contains(p.forced, cluster)
	return force || slices.Contains(p.drained, cluster), force
}

func (p placement) Misread(source *syncer.Service) string { return source.Annotations["misread"] }

// Step plans, says what it comes to, and carries it out.
func (s *replicaStory) Step() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	current, foreign := s.read(), s.foreignSnapshot()
	collected := *s.world // what goes with our Service by owner reference
	if collected.current.Service != nil && collected.current.Service.Owned {
		collected.deleteService()
	}
	contributions := s.contributions(&current)
	p := planOf(current, contributions, nil, s.settings)
	tellPlan(&p, say)
	failed := map[Object]bool{}
	ended := s.most > 0
	switch {
	case ended:
		s.stop(p)
	case s.answer != nil:
		failed = s.search(contributions, say)
	default:
		s.carryOut(p)
	}
	if s.current.Service == nil && current.Service != nil {
		foreign = collected.foreignSnapshot()
	}
	if !ended {
		s.check(contributions, failed, foreign)
	}
	for _, words := range s.shows {
		s.show(words, say)
	}
	s.shows = nil
	say("serves %s", listed(readyAddresses(s.world)))
	s.tellApart(say)
	return out
}

// tellApart says what only one of the two kinds serves, where both are written.
func (s *replicaStory) tellApart(say func(string, ...any)) {
	if s.current.Endpoints == nil || len(s.current.Slices) == 0 {
		return
	}
	serves := map[string]map[Kind]bool{}
	for at, isReady := range s.places() {
		if of := serves[at.addr.String()]; isReady && of == nil {
			serves[at.addr.String()] = map[Kind]bool{at.kind: true}
		} else if isReady {
			of[at.kind] = true
		}
	}
	for _, kind := range []Kind{KindEndpoints, KindEndpointSlice} {
		var alone []string
		for _, addr := range slices.Sorted(maps.Keys(serves)) {
			if of := serves[addr]; len(of) == 1 && of[kind] {
				alone = append(alone, addr)
			}
		}
		if len(alone) > 0 {
			say("of these in %s alone: %s", map[Kind]string{KindEndpoints: "Endpoints", KindEndpointSlice: "slices"}[kind], listed(alone))
		}
	}
}

// listed are addresses, of many the first and the last.
func listed(addrs []string) string {
	if n := len(addrs); n > 12 {
		return fmt.Sprintf("%d: %s to %s", n, addrs[0], addrs[n-1])
	}
	return strings.Join(addrs, " ")
}

// tellPlan says what a plan writes, reports and waits for.
func tellPlan(p *Plan, say func(string, ...any)) {
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
}

// carryOut writes, until nothing is left to be written, and makes sure that it ends.
func (s *replicaStory) carryOut(p Plan) {
	for range 5 {
		if p.Empty() {
			return
		}
		s.execute(p, nil)
		current := s.read()
		p = planOf(current, s.contributions(&current), nil, s.settings)
	}
	s.t.Fatalf("no end of writing: %s", textOf(s.t, p))
}

// stop carries a plan out until the process ends.
func (s *replicaStory) stop(p Plan) {
	s.made = map[Object]string{}
	for _, stage := range p.Sequence() {
		for i := range stage {
			if s.most == 0 {
				return
			}
			s.most--
			s.apply(&stage[i])
		}
	}
	s.most = 0
}

// check holds what is true after every step: nothing of others has changed, and what no member
// names stands only where the server does not take the write that it leaves with.
func (s *replicaStory) check(contributions []Contribution, failed map[Object]bool, foreign string) {
	if now := s.foreignSnapshot(); now != foreign {
		s.t.Errorf("what is not ours has changed:\n%s\n%s", foreign, now)
	}
	named := states{}
	for _, c := range contributions {
		named.add(slices.Values(c.Endpoints))
	}
	dead := func(e syncer.Endpoint) bool { return named[e.Addr] < stateOf(e.Ready) && !s.unclaimed(e) }
	object := func(a *Action, all iter.Seq[syncer.Endpoint]) {
		for e := range all {
			live := func() *Action { return a.having(func(addr netip.Addr) bool { return named[addr] != absent }) }
			if dead(e) && (!failed[a.Object()] || s.answer(live()).taken()) {
				s.t.Errorf("%s stands in %s %s, ready %t, and no member has it so", e.Addr, a.Kind, a.Name, e.Ready)
			}
		}
	}
	if e := s.current.ours(); e.Owned {
		object(e.Unchanged(), e.all())
	}
	for _, slice := range s.current.slicesOf(every) {
		object(slice.Unchanged(), slice.all())
	}
}

// unclaimed reports whether an address may be of a member that has not been read.
func (s *replicaStory) unclaimed(e syncer.Endpoint) bool {
	return len(s.away) > 0 && e.Target.UID != ""
}
