// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

// world is an ingress cluster of one replica: it executes plans the way an API
// server would, and objects to what must never be asked of one.
type world struct {
	t       testing.TB
	current Current
	rv      int
	uid     int
	writes  int
	// made are the versions that the first half of the plan in hand has made.
	made map[Object]string
	// instance is the name of the installation that looks at it.
	instance string
	// answered, unless nil, is told of each write that was made.
	answered func(*Action)
}

func newWorld(t testing.TB, key syncer.Key) *world {
	return &world{t: t, current: Current{Key: key, Namespace: NamespaceActive}}
}

func (w *world) meta(name string, standing *Meta, kind Kind, labels, annotations map[string]string) Meta {
	w.rv++
	m := Meta{Name: name, ResourceVersion: fmt.Sprint(w.rv), Labels: labels, Annotations: annotations, Claim: ClaimOf(kind, w.current.Key, labels, annotations, w.instance)}
	if standing != nil {
		m.UID = standing.UID
		return m
	}
	w.uid++
	m.UID = fmt.Sprint("uid-", w.uid)
	return m
}

// settle executes plans until there is nothing to do.
func (w *world) settle(desired *Desired, settings Settings, rng *rand.Rand) {
	w.t.Helper()
	for range 4 {
		p := Diff(w.current, desired, settings)
		if p.Empty() {
			return
		}
		w.execute(p, rng)
	}
	p := Diff(w.current, desired, settings)
	if !p.Empty() {
		w.t.Fatalf("no end of writing: %s", textOf(w.t, p))
	}
}

// execute applies a plan, the actions of a stage in random order.
func (w *world) execute(p Plan, rng *rand.Rand) {
	w.t.Helper()
	w.made = map[Object]string{}
	for _, stage := range p.Sequence() {
		stage = slices.Clone(stage)
		if rng != nil {
			rng.Shuffle(len(stage), func(i, j int) { stage[i], stage[j] = stage[j], stage[i] })
		}
		for i := range stage {
			w.apply(&stage[i])
		}
	}
}

func (w *world) apply(a *Action) {
	w.t.Helper()
	w.writes++
	if a.Why == "" {
		w.t.Errorf("%s %s without a reason", a.Verb, a.Kind)
	}
	if (a.Standing == nil) != (a.Verb == Create) {
		w.t.Errorf("%s %s %s: standing is %v", a.Verb, a.Kind, a.Name, a.Standing)
	}
	if a.Standing != nil && !a.Standing.Owned {
		w.t.Errorf("%s %s %s is not ours", a.Verb, a.Kind, a.Name)
	}
	switch a.Kind {
	case KindNamespace:
		w.current.Namespace = NamespaceActive
	case KindService:
		w.applyService(a)
	case KindEndpoints:
		w.applyEndpoints(a)
	case KindEndpointSlice:
		w.applySlice(a)
	}
	w.current.Own()
	if w.answered != nil {
		w.answered(a)
	}
}

func (w *world) precondition(a *Action, have *Meta) {
	w.t.Helper()
	switch {
	case a.Verb == Create && have != nil:
		w.t.Fatalf("create %s %s: it exists", a.Kind, a.Name)
	case a.Verb != Create && have == nil:
		w.t.Fatalf("%s %s %s: not found", a.Verb, a.Kind, a.Name)
	case a.Verb != Create && (have.UID != a.Standing.UID || have.ResourceVersion != cmp.Or(w.made[a.Object()], a.Standing.ResourceVersion)):
		w.t.Fatalf("%s %s %s: conflict", a.Verb, a.Kind, a.Name)
	}
	if a.Verb == Update {
		w.made[a.Object()] = fmt.Sprint(w.rv + 1)
	}
}

func (w *world) applyService(a *Action) {
	w.t.Helper()
	var have *Meta
	if w.current.Service != nil {
		have = &w.current.Service.Meta
	}
	w.precondition(a, have)
	if a.Verb == Delete {
		w.deleteService()
		return
	}
	w.checkService(a.Service)
	w.current.Service = &CurrentService{
		Meta: w.meta(a.Name, have, a.Kind, a.Service.Labels, a.Service.Annotations), Headless: true, Ports: a.Service.Ports,
		Record: ReadRecord(a.Service.Annotations),
	}
}

// deleteService takes along what an API server and garbage collection do.
func (w *world) deleteService() {
	uid := w.current.Service.UID
	w.current.Service, w.current.Endpoints = nil, nil
	w.current.Slices = slices.DeleteFunc(slices.Clone(w.current.Slices), func(s CurrentSlice) bool { return s.OwnerUID == uid })
}

// checkService knows the API's rules about ports.
func (w *world) checkService(s *ServiceSpec) {
	w.t.Helper()
	names, numbers := map[string]bool{}, map[string]bool{}
	for _, p := range s.Ports {
		if p.Name == "" && len(s.Ports) > 1 || names[p.Name] || numbers[number(p)] {
			w.t.Errorf("ports that an API server refuses: %+v", s.Ports)
		}
		names[p.Name], numbers[number(p)] = true, true
		if p.Target.Name == "" && !validNumber(p.Target.Number) || p.Target.Name != "" && !syncer.IsTargetPortName(p.Target.Name) {
			w.t.Errorf("target port that an API server refuses: %+v", p.Target)
		}
	}
}

func (w *world) applyEndpoints(a *Action) {
	w.t.Helper()
	var have *Meta
	if w.current.Endpoints != nil {
		have = &w.current.Endpoints.Meta
	}
	w.precondition(a, have)
	if a.Verb == Delete {
		w.current.Endpoints = nil
		return
	}
	if w.current.Service == nil && a.Verb == Create {
		w.t.Error("Endpoints before their Service")
	}
	for _, s := range a.Endpoints.Subsets {
		if len(s.Ready)+len(s.NotReady) == 0 {
			w.t.Error("empty subset")
		}
	}
	w.current.Endpoints = &CurrentEndpoints{
		Meta: w.meta(a.Name, have, a.Kind, a.Endpoints.Labels, a.Endpoints.Annotations), Subsets: a.Endpoints.Subsets,
		Owners: ReadOwners(a.Endpoints.Annotations),
	}
}

func (w *world) applySlice(a *Action) {
	w.t.Helper()
	at := slices.IndexFunc(w.current.Slices, func(s CurrentSlice) bool { return s.Meta.Name == a.Name })
	var have *Meta
	if at >= 0 {
		have = &w.current.Slices[at].Meta
	}
	w.precondition(a, have)
	w.current.Slices = slices.Clone(w.current.Slices)
	if a.Verb == Delete {
		w.current.Slices = slices.Delete(w.current.Slices, at, at+1)
		return
	}
	if w.current.Service == nil && a.Verb == Create {
		w.t.Fatal("slice before its Service")
	}
	if at >= 0 && len(have.Mutations.known) == 0 && (!slices.Equal(w.current.Slices[at].Ports, a.Slice.Ports) || w.current.Slices[at].Family != a.Slice.Family) {
		w.t.Errorf("the ports of slice %s change", a.Name)
	}
	if !strings.HasPrefix(a.Name, w.current.Key.Name) || a.Slice.Labels[LabelSourceCluster] != a.Slice.Cluster {
		w.t.Errorf("slice %s of %s is badly named", a.Name, a.Slice.Cluster)
	}
	s := CurrentSlice{
		Meta: w.meta(a.Name, have, a.Kind, a.Slice.Labels, a.Slice.Annotations), Cluster: a.Slice.Cluster, Slice: a.Slice.Slice,
	}
	if w.current.Service != nil {
		s.OwnerUID = w.current.Service.UID
	}
	if at >= 0 {
		w.current.Slices[at] = s
		return
	}
	w.current.Slices = append(w.current.Slices, s)
	slices.SortFunc(w.current.Slices, func(a, b CurrentSlice) int { return strings.Compare(a.Meta.Name, b.Meta.Name) })
}

// dumbStates is every address and port of ours and its best state, without any cleverness.
func (w *world) dumbStates() map[addrPort]traffic {
	all := map[addrPort]traffic{}
	put := func(a syncer.Endpoint, ports []syncer.Port, state traffic) {
		addrPortsOf(a.Addr, ports, func(at addrPort) { all[at] = max(all[at], state) })
	}
	if e := w.current.Endpoints; e != nil && e.Owned {
		for _, s := range e.Subsets {
			for _, a := range s.Ready {
				put(syncer.Endpoint{Addr: a.Addr}, s.Ports, ready)
			}
			for _, a := range s.NotReady {
				put(syncer.Endpoint{Addr: a.Addr}, s.Ports, notReady)
			}
		}
	}
	for _, s := range w.current.Slices {
		for _, e := range s.Endpoints {
			if s.Owned {
				put(e, s.Ports, map[bool]traffic{true: ready, false: notReady}[e.Ready])
			}
		}
	}
	return all
}

func dumbDelta(before, after map[addrPort]traffic) Delta {
	all := addrPorts{}
	for at := range before {
		all[at] = true
	}
	for at := range after {
		all[at] = true
	}
	return deltaBetween(counts{all, before}, counts{all, after})
}

// sliced are the addresses that some slice of ours has.
func (w *world) sliced() map[string]bool {
	all := map[string]bool{}
	for _, s := range w.current.Slices {
		for _, e := range s.Endpoints {
			if s.Owned {
				all[e.Addr.String()] = true
			}
		}
	}
	return all
}

func textOf(t testing.TB, plans ...Plan) string {
	t.Helper()
	var b strings.Builder
	if err := WriteText(&b, plans, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// foreignSnapshot renders what is not ours, to be compared before and after.
func (w *world) foreignSnapshot() string {
	var b strings.Builder
	if s := w.current.Service; s != nil && !s.Owned {
		fmt.Fprintln(&b, s.Meta, s.Ports)
	}
	if e := w.current.Endpoints; e != nil && !e.Owned {
		fmt.Fprintln(&b, e.Meta, e.Subsets)
	}
	for _, s := range w.current.Slices {
		if !s.Owned {
			fmt.Fprintln(&b, s.Meta, s.Slice)
		}
	}
	return b.String()
}

// strip takes the mark away.
func (m *Meta) strip() { m.Claim, m.Owned = ClaimNone, false }
