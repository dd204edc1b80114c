// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/stories"
	"tributary.dev/tributary/syncer"
)

// TestStories plays the files of testdata/stories. The switch of story.Apply has the verbs of a
// line; the results of a step are the requests of the state, and what is published in each
// replica that was written.
func TestStories(t *testing.T) {
	stories.Play(t, func(t *testing.T) stories.Story {
		return &story{t: t, config: Config{Replicates: func(s *syncer.Service) bool { return !s.ExternalName }}}
	})
}

type story struct {
	t      *testing.T
	config Config
	world  *world
	out    []string
}

// step plays an event and says what follows from it.
func (s *story) step(e Event) {
	w := s.begun()
	waits, listed := w.wants, w.state.Listed()
	scopes := w.state.Scopes()
	effects, written := w.step(e)
	for _, q := range effects.Ask {
		s.say("ask for %s %s", q.Kind, short(q.Key))
	}
	if _, told := e.(Published); effects.WantPublished && (!waits || told) {
		s.say("want what is published")
	}
	if !slices.Equal(w.state.Scopes(), scopes) {
		var all []string
		for _, scope := range w.state.Scopes() {
			all = append(all, scope.String())
		}
		s.say("follow %s", strings.Join(all, ", "))
	}
	for _, replica := range written {
		s.say("%s: %s", short(replica), w.text(replica))
	}
	if w.state.Listed() != listed && !effects.ScopesChanged {
		s.t.Errorf("%T: nobody is told that Listed is %v", e, !listed)
	}
	if left := w.forgotten(); len(left) > 0 && !w.wants {
		s.t.Errorf("%T: %v changed and were not marked dirty", e, left)
	}
}

func (s *story) begun() *world {
	if s.world == nil {
		s.world = newWorld(s.config)
	}
	return s.world
}

func (s *story) say(format string, args ...any) { s.out = append(s.out, fmt.Sprintf(format, args...)) }

// Step implements stories.Story.
func (s *story) Step() []string {
	out := s.out
	if s.out = nil; len(out) == 0 {
		out = []string{"nothing"}
	}
	return out
}

// Apply implements stories.Story.
func (s *story) Apply(line string) error {
	head, rest, _ := strings.Cut(line, ":")
	words, items := strings.Fields(head), strings.Fields(rest)
	if len(words) == 0 {
		return fmt.Errorf("no verb")
	}
	switch words[0] {
	case "config":
		return s.configure(items)
	case "published": // before the process began
		key := keyOf(words[1])
		for _, item := range items {
			s.begun().published[key] = append(s.begun().published[key], publishedOf(item))
		}
		s.begun().services[key] = true
	case "list", "seen", "gone":
		return s.object(words, items)
	case "at":
		s.step(gone(scopeOf(words[1]), syncer.Key{}, "", number(words[2]), time.Time{}))
	case "phase":
		s.step(Phase{Scope: scopeOf(words[1]), Following: words[2] == "following"})
	case "back":
		s.step(WentBack{scopeOf(words[1])})
	case "answer":
		return s.answer(words, items)
	case "compare": // the lists with what is published
		s.step(s.begun().publishedEvent())
	case "lead":
		if w := s.begun(); w.state.Followed() {
			s.step(w.publishedEvent())
		} else {
			w.begin(s.config)
		}
	case "wait":
		d, err := time.ParseDuration(words[1])
		s.begun().now = s.begun().now.Add(d)
		s.step(Tick{})
		return err
	case "missing":
		st := s.begun().state.Status()
		s.say("%d missing, %v", st.Missing, st.Listed)
	default:
		return fmt.Errorf("unknown verb")
	}
	return nil
}

// configure changes the configuration, before the first event or after.
func (s *story) configure(items []string) error {
	c := &s.config
	for _, item := range items {
		name, value, _ := strings.Cut(item, "=")
		d, _ := time.ParseDuration(value)
		switch name {
		case "drain":
			c.Drain = value != "false"
		case "staleAfter":
			c.StaleAfter = d
		case "stableFor":
			c.Options.StableFor = d
		case "holdSilentNodes":
			c.Options.HoldSilentNodes = d
		case "namespaces":
			c.Namespaces = strings.Split(value, ",")
		case "rule": // bit 0, which says NotReady, unless "rule=ready" or "rule=absent"
			then := map[string]syncer.Then{"ready": syncer.ThenReady, "absent": syncer.ThenAbsent}[value]
			c.Rules = &oneRule{cmp.Or(then, syncer.ThenNotReady)}
		default:
			return fmt.Errorf("unknown setting %q", name)
		}
	}
	if s.world != nil {
		s.step(Configured{*c})
	}
	return nil
}

// object plays "list pods 10: …", "seen pods 11: …", "gone pods 12: …".
func (s *story) object(words, items []string) error {
	scope, revision, arrived := scopeOf(words[1]), number(words[2]), s.begun().now
	if words[0] == "gone" {
		for _, item := range items {
			key, uid := named(item)
			s.step(gone(scope, key, uid, revision, arrived))
		}
		return nil
	}
	switch scope.Kind {
	case Pods:
		play(s, words[0], scope, revision, items, podOf)
	case Services:
		play(s, words[0], scope, revision, items, serviceOf)
	case Endpoints:
		play(s, words[0], scope, revision, items, endpointsOf)
	default:
		play(s, words[0], scope, revision, items, sliceOf)
	}
	return nil
}

func play[T Object](s *story, verb string, scope Scope, revision uint64, items []string, of func(string) T) {
	var all []store.Versioned[T]
	for i, item := range items {
		item, at, own := strings.Cut(item, "@")
		v := store.Versioned[T]{Object: of(item), Revision: revision}
		if own {
			v.Revision = number(at)
		}
		if verb == "seen" {
			v.Revision += uint64(i)
			s.step(seen(scope, v, s.begun().now))
		}
		all = append(all, v)
	}
	if verb == "list" {
		list := Listed[T]{Scope: scope, Items: all, Revision: revision}
		if scope.Kind == Pods {
			list.Rules = s.config.Rules
		}
		s.step(list)
	}
}

// answer plays "answer pods web-1 there 20: web-1=10.0.0.1", "answer pods web-1 not there",
// "answer pods all not there" and "answer pods web-1 cannot tell".
func (s *story) answer(words, items []string) error {
	kind, w := scopeOf(words[1]).Kind, s.begun()
	keys := []syncer.Key{keyOf(words[2])}
	if words[2] == "all" {
		keys = nil
		for _, q := range w.asked {
			if q.Kind == kind {
				keys = append(keys, q.Key)
			}
		}
	}
	for _, key := range keys {
		q, ok := w.question(kind, key)
		if !ok {
			return fmt.Errorf("%s was not asked for", key)
		}
		a := Answer{Question: q, Rules: s.config.Rules, Gone: words[3] == "not"}
		if words[3] == "there" {
			revision := number(words[4])
			switch {
			case kind == Pods:
				a.Object = store.Versioned[syncer.Pod]{Object: podOf(items[0]), Revision: revision}
			case kind == Services:
				a.Object = store.Versioned[syncer.Service]{Object: serviceOf(items[0]), Revision: revision}
			case kind == Endpoints:
				a.Object = store.Versioned[store.HandEndpoints]{Object: endpointsOf(items[0]), Revision: revision}
			default:
				a.Object = store.Versioned[store.HandSlice]{Object: sliceOf(items[0]), Revision: revision}
			}
		}
		s.step(a)
	}
	return nil
}

// oneRule applies to every Service.
type oneRule struct{ then syncer.Then }

// Applies implements Rules.
func (r *oneRule) Applies(*syncer.Service) uint64 { return 1 }

// Then implements Rules.
func (r *oneRule) Then() []syncer.Then { return []syncer.Then{r.then} }

func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// scopeOf reads "pods", "services", "pods/shop", "endpoints/shop/db".
func scopeOf(text string) (scope Scope) {
	parts := append(strings.Split(text, "/"), "", "")
	scope.Kind = Kind(slices.Index([]string{"pods", "services", "endpoints", "slices"}, parts[0]))
	scope.Namespace, scope.Name = parts[1], parts[2]
	return scope
}

// keyOf reads "web-1", or "other/web-1" outside of the namespace shop.
func keyOf(text string) syncer.Key {
	if key, ok := syncer.ParseKey(text); ok {
		return key
	}
	return syncer.Key{Namespace: "shop", Name: text}
}

// named reads "web-1", whose UID is web-1-a, or "web-1#b".
func named(text string) (syncer.Key, string) {
	name, uid, other := strings.Cut(text, "#")
	key := keyOf(name)
	if !other {
		uid = "a"
	}
	return key, key.Name + "-" + uid
}

// podOf reads "web-1=10.0.0.1", with marks behind: ! not ready, ? its node is silent, ~
// terminating, * finished, ^ in the host's network, % matched by the rule. The label app is
// the name up to its last dash, or what follows a comma. "+5" says that it became (not) ready
// 5 s after the beginning.
func podOf(item string) (p syncer.Pod) {
	item, since, timed := strings.Cut(item, "+")
	item, app, labelled := strings.Cut(item, ",")
	name, rest, _ := strings.Cut(item, "=")
	p.Key, p.UID = named(name)
	if !labelled {
		app = p.Name[:strings.LastIndex(p.Name, "-")]
	}
	p.Labels = syncer.LabelsOf(map[string]string{"app": app})
	addr := strings.TrimRight(rest, "!?~*^%")
	marks := rest[len(addr):]
	has := func(mark string) bool { return strings.Contains(marks, mark) }
	p.IPs = []syncer.PodIP{{Addr: netip.MustParseAddr(addr)}}
	p.NodeSilent, p.Terminating, p.Terminal, p.HostNetwork = has("?"), has("~"), has("*"), has("^")
	p.Ready = !has("!") && !has("?") && !has("*")
	if has("%") {
		p.Matches = 1
	}
	if timed {
		p.ReadySince = epoch.Unix() + int64(number(since))
	}
	return p
}

// serviceOf reads "web", which selects app=web, "web~green", "web~-" without a selector;
// "web?" publishes what is not ready.
func serviceOf(item string) (svc syncer.Service) {
	item, publish := strings.CutSuffix(item, "?")
	name, app, other := strings.Cut(item, "~")
	svc.Key, svc.UID = named(name)
	svc.Ports = []syncer.ServicePort{{Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: 80}}}
	svc.PublishNotReadyAddresses = publish
	if !other {
		app = svc.Name
	}
	if app != "-" {
		svc.Selector = map[string]string{"app": app}
	}
	return svc
}

// endpointsOf reads "db=10.9.0.1,10.9.0.2".
func endpointsOf(item string) (e store.HandEndpoints) {
	name, addrs, _ := strings.Cut(item, "=")
	e.Key, e.UID = named(name)
	e.SkipMirror = true
	for _, addr := range strings.Split(addrs, ",") {
		e.Subsets = append(e.Subsets, syncer.Subset{
			Ready: []syncer.Address{{Addr: netip.MustParseAddr(addr)}},
			Ports: []syncer.Port{{Protocol: syncer.TCP, Number: 80}}})
	}
	return e
}

// sliceOf reads "db-x=10.9.0.1", of the Service db.
func sliceOf(item string) (h store.HandSlice) {
	name, addrs, _ := strings.Cut(item, "=")
	h.Key, h.UID = named(name)
	h.Service = h.Name[:strings.LastIndex(h.Name, "-")]
	h.Content = syncer.Slice{Name: h.Name, Family: syncer.IPv4, Ports: []syncer.Port{{Protocol: syncer.TCP, Number: 80}}}
	for _, addr := range strings.Split(addrs, ",") {
		h.Content.Endpoints = append(h.Content.Endpoints, syncer.Endpoint{
			Addr: netip.MustParseAddr(addr), Ready: true, Serving: true, Grade: syncer.Ready})
	}
	return h
}

// publishedOf reads "10.0.0.1/web-1", "10.0.0.1/web-1#b", or "10.9.0.1" by hand; with ! it
// is published as not ready, with % as reserve, with ~ as ready though it terminates.
func publishedOf(item string) (e syncer.Endpoint) {
	text := strings.TrimRight(item, "!%~")
	reserve := strings.HasSuffix(item, "%")
	addr, pod, of := strings.Cut(text, "/")
	e.Addr = netip.MustParseAddr(addr)
	e.Ready = !strings.HasSuffix(item, "!") && !reserve
	e.Serving, e.Terminating = e.Ready, strings.HasSuffix(item, "~")
	e.Grade = e.PublishedGrade(reserve)
	e.Ports = []syncer.Port{{Protocol: syncer.TCP, Number: 80}}
	if of {
		e.Target.Kind = Pods.String()
		e.Target.Key, e.Target.UID = named(pod)
	}
	return e
}
