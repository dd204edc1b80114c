// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

var shopWeb = syncer.Key{Namespace: "shop", Name: "web"}

// all chooses every label or annotation.
func all(string) bool { return true }

func settings() Settings {
	return Settings{Instance: "default", WriteEndpoints: true, CreateNamespaces: true, CopyLabel: all}
}

// world is an ingress cluster of one replica: it carries actions out the way an API server
// would, and objects to what must never be asked of one.
type world struct {
	t        testing.TB
	now      Current
	revision int
	writes   int
	// ports are those that slices were made with.
	ports map[string][]syncer.Port
}

func newWorld(t testing.TB) *world {
	return &world{t: t, now: Current{Key: shopWeb, Namespace: NamespaceActive}, ports: map[string][]syncer.Port{}}
}

// meta finds the metadata of a current object; nil where there is none.
func (w *world) meta(o Object) *Meta {
	switch o.Kind {
	case KindService:
		if w.now.Service != nil {
			return &w.now.Service.Meta
		}
	case KindEndpoints:
		if w.now.Endpoints != nil {
			return &w.now.Endpoints.Meta
		}
	case KindEndpointSlice:
		if s := w.now.slice(o.Name); s != nil {
			return &s.Meta
		}
	}
	return nil
}

// apply carries one action out.
func (w *world) apply(a Action) {
	w.t.Helper()
	if a.Verb == Delete && a.Kind != KindService && w.now.Service == nil && w.meta(a.Object()) == nil {
		return // it went with its Service
	}
	w.check(&a)
	w.writes++
	w.now = w.now.after([]Action{a})
	if a.Verb == Delete || a.Kind == KindNamespace {
		if a.Kind == KindEndpointSlice {
			delete(w.ports, a.Name)
		}
		if a.Kind == KindService {
			clear(w.ports)
			for i := range w.now.Slices {
				w.ports[w.now.Slices[i].Name] = w.now.Slices[i].Ports
			}
		}
		return
	}
	w.revision++
	m := w.meta(a.Object())
	m.ResourceVersion = strconv.Itoa(w.revision)
	if a.Verb == Create {
		m.UID = "uid-" + m.ResourceVersion
	}
	_, m.Owned = Owned(a.Kind, syncer.Key{Namespace: "shop", Name: a.Name}, m.Labels.Map(), m.Annotations, "default")
	if a.Kind == KindEndpointSlice {
		w.ports[a.Name] = a.Slice.Ports
		read(w.t, w.now.slice(a.Name))
	}
}

// after is the current state when the actions have been carried out.
func (c Current) after(actions []Action) Current {
	c.Slices = slices.Clone(c.Slices)
	for i := range actions {
		c.apply(&actions[i])
	}
	return c
}

func (c *Current) apply(a *Action) {
	m := Meta{UID: a.UID, ResourceVersion: a.ResourceVersion, Owned: true, Labels: syncer.LabelsOf(a.Labels), Annotations: a.Annotations, Rest: a.Rest}
	at, found := slices.BinarySearchFunc(c.Slices, a.Name, func(s Slice, name string) int { return strings.Compare(s.Name, name) })
	switch {
	case a.Kind == KindNamespace:
		c.Namespace = NamespaceActive
	case a.Kind == KindService && a.Verb == Delete:
		c.Service, c.Endpoints = nil, nil
		c.Slices = slices.DeleteFunc(c.Slices, func(s Slice) bool { return s.Owned && s.Owner == a.UID })
	case a.Kind == KindService:
		c.Service = &Service{Meta: m, ClusterIP: syncer.ClusterIPNone, Ports: a.Service.Ports}
	case a.Kind == KindEndpoints && a.Verb == Delete:
		c.Endpoints = nil
	case a.Kind == KindEndpoints:
		c.Endpoints = &Endpoints{Meta: m, Subsets: a.Endpoints.Subsets}
	case a.Verb == Delete && found:
		c.Slices = slices.Delete(c.Slices, at, at+1)
	case a.Verb == Delete:
	default:
		s := Slice{Meta: m, Owner: a.Owner, Slice: *a.Slice}
		if found {
			c.Slices[at] = s
		} else {
			c.Slices = slices.Insert(c.Slices, at, s)
		}
	}
}

// read reads the grades of a slice's endpoints anew, as the cache does.
func read(t testing.TB, s *Slice) {
	s.Endpoints = slices.Clone(s.Endpoints)
	reserve := s.Annotations[syncer.AnnotationReserve]
	named := strings.Split(reserve, ",")
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		grade := e.PublishedGrade(reserve == syncer.ReserveAll || slices.Contains(named, e.Addr.String()))
		if t != nil && grade != e.Grade {
			t.Errorf("%s of %s is written with grade %s and reads %s (reserve %q)", e.Addr, s.Name, e.Grade, grade, reserve)
		}
		e.Grade = grade
	}
}

// check reports what an API server would not accept, and what nobody may ask of it.
func (w *world) check(a *Action) {
	w.t.Helper()
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%s %s (%s): %s", a.Verb, a.Object(), a.Why, fmt.Sprintf(format, args...))
	}
	have := w.meta(a.Object())
	switch {
	case a.Why == "":
		fail("without a reason")
	case a.Kind == KindNamespace:
		return
	case a.Verb == Create && have != nil:
		fail("it exists")
	case a.Verb == Create && w.now.Namespace != NamespaceActive:
		fail("nothing can be made in the namespace")
	case a.Verb != Create && have == nil:
		fail("not found")
	case a.Verb != Create && !have.Owned:
		fail("it is not ours")
	case a.Verb != Create && (have.UID != a.UID || have.ResourceVersion != a.ResourceVersion):
		fail("conflict")
	case a.Verb != Delete && (a.Kind == KindService) != (a.Service != nil),
		a.Verb != Delete && (a.Kind == KindEndpoints) != (a.Endpoints != nil),
		a.Verb != Delete && (a.Kind == KindEndpointSlice) != (a.Slice != nil):
		fail("has another content")
	}
	if a.Verb == Delete {
		return
	}
	if _, ours := Owned(a.Kind, syncer.Key{Namespace: "shop", Name: a.Name}, a.Labels, a.Annotations, "default"); !ours {
		fail("what is written is not ours: %v %v", a.Labels, a.Annotations)
	}
	switch {
	case a.Endpoints != nil:
		for _, s := range a.Endpoints.Subsets {
			if len(s.Ready)+len(s.NotReady) == 0 {
				fail("an empty subset")
			}
		}
	case a.Slice != nil:
		w.checkSlice(a, fail)
	}
}

func (w *world) checkSlice(a *Action, fail func(string, ...any)) {
	s := a.Slice
	if before, exists := w.ports[s.Name]; exists && !slices.Equal(before, s.Ports) {
		fail("its ports change from %v to %v", before, s.Ports)
	}
	if len(s.Endpoints) > 1000 || s.Name != a.Name || !strings.HasPrefix(s.Name, shopWeb.Name) {
		fail("no slice of ours: %s of %d", s.Name, len(s.Endpoints))
	}
	names := map[string]bool{}
	for _, p := range s.Ports {
		if names[p.Name] {
			fail("port %q twice", p.Name)
		}
		names[p.Name] = true
	}
	for i := range s.Endpoints {
		if e := &s.Endpoints[i]; !e.Addr.IsValid() || (s.Family == syncer.IPv4) != e.Addr.Is4() {
			fail("%s in a slice of %s", e.Addr, s.Family)
		}
	}
	if a.Verb == Create && (w.now.Service == nil || a.Owner != w.now.Service.UID) {
		fail("it would be of Service %q", a.Owner)
	}
}

// settle compares and writes until there is nothing to do.
func (w *world) settle(shares []syncer.Share, s Settings) {
	w.t.Helper()
	for range 20 {
		actions, _ := Actions(w.now, Merge(shopWeb, w.now, shares, s))
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			w.apply(a)
		}
	}
	w.t.Fatal("no end of writing")
}

// endpoints are the current endpoints in slices and Endpoints of ours.
func (w *world) endpoints() (sliced, whole []syncer.Endpoint) {
	for i := range w.now.Slices {
		for _, e := range w.now.Slices[i].Endpoints {
			if e.Ports = w.now.Slices[i].Ports; w.now.Slices[i].Owned {
				sliced = append(sliced, e)
			}
		}
	}
	if w.now.Endpoints != nil && w.now.Endpoints.Owned {
		whole = endpointsIn(w.now.Endpoints.Subsets)
	}
	return sliced, whole
}

// traffic is what a consumer may make of an address.
type traffic uint8

const (
	absent traffic = iota
	notReady
	ready
)

func stateOf(isReady bool) traffic {
	if isReady {
		return ready
	}
	return notReady
}

// states are addresses, each as ready as it is anywhere.
func states(sliced, whole []syncer.Endpoint) (inSlices, inEndpoints map[netip.Addr]traffic) {
	of := func(endpoints []syncer.Endpoint) map[netip.Addr]traffic {
		out := map[netip.Addr]traffic{}
		for _, e := range endpoints {
			out[e.Addr] = max(out[e.Addr], stateOf(e.Ready))
		}
		return out
	}
	return of(sliced), of(whole)
}

// source is a Service with ports "http:80>8080".
func source(member string, created int64, ports ...string) *syncer.Service {
	svc := &syncer.Service{Key: shopWeb, UID: member, Created: created, Selector: map[string]string{"app": "web"},
		Labels: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4}}
	for _, text := range ports {
		name, rest, _ := strings.Cut(text, ":")
		from, to, _ := strings.Cut(rest, ">")
		n, _ := strconv.ParseInt(from, 10, 32)
		target, _ := strconv.ParseInt(to, 10, 32)
		svc.Ports = append(svc.Ports, syncer.ServicePort{Name: name, Protocol: syncer.TCP, Port: int32(n), Target: syncer.TargetPort{Number: int32(target)}})
	}
	return svc
}

// endpoints reads addresses, each followed by "!" if it is not ready, "~" if it terminates, "?" if
// it is of the reserve, "=" if it names no pod, "@N" for the N-th pod that has it.
func endpoints(member string, svc *syncer.Service, texts ...string) syncer.Contribution {
	c := syncer.Contribution{Service: svc, Families: svc.IPFamilies}
	var ports []syncer.Port
	for _, p := range svc.Ports {
		ports = append(ports, syncer.Port{Name: p.Name, Protocol: p.Protocol, Number: p.Target.Number})
	}
	for _, text := range texts {
		text, nth, _ := strings.Cut(text, "@")
		addr := netip.MustParseAddr(strings.TrimRight(text, "!~?="))
		e := syncer.Endpoint{Addr: addr, Ports: ports, Grade: syncer.Ready, Ready: true, Serving: true,
			Target: syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: "shop", Name: "pod-" + addr.String()}, UID: member + "-" + addr.String() + nth}}
		switch text[len(text)-1] {
		case '!':
			e.Grade, e.Ready, e.Serving = syncer.NotReady, false, false
		case '~':
			e.Grade, e.Ready, e.Terminating = syncer.NotReady, false, true
		case '?':
			e.Grade = syncer.Reserve
		}
		if strings.Contains(text, "=") {
			e.Target = syncer.TargetRef{}
		}
		c.Endpoints = append(c.Endpoints, e)
	}
	slices.SortFunc(c.Endpoints, func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) })
	return c
}

// listed is a share of a member that is listed: ports, then addresses.
func listed(member string, created int64, ports string, addrs ...string) syncer.Share {
	return syncer.Share{Member: member, Listed: true, Given: endpoints(member, source(member, created, strings.Fields(ports)...), addrs...)}
}

// none is the share of a member that has no such Service.
func none(member string) syncer.Share { return syncer.Share{Member: member, Listed: true} }
