// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

const lawRounds = 150

// randomShares are what up to three members contribute: few addresses, so that they repeat.
func randomShares(r *rand.Rand) []syncer.Share {
	var shares []syncer.Share
	order := r.IntN(3) == 0
	for i, member := range []string{"a", "b", "c"} {
		if r.IntN(4) == 0 {
			shares = append(shares, none(member))
			continue
		}
		ports := [][]string{{"http:80>8080"}, {"http:80>8080"}, {"http:80>8080", "metrics:90>9090"}, {"http:80>9090"}, {"http:81>8080"}, {"web:80>8080"}, nil}[r.IntN(7)]
		svc := source(member, int64(r.IntN(3)), ports...)
		if ports == nil {
			svc.ClusterIP = syncer.ClusterIPNone
		}
		var addrs []string
		for n := range 12 {
			if r.IntN(3) == 0 {
				addrs = append(addrs, fmt.Sprintf("10.%d.0.%d%s", i+1, n, []string{"", "", "!", "~", "?", "@2"}[r.IntN(6)]))
			}
		}
		s := syncer.Share{Member: member, Listed: true, Given: endpoints(member, svc, addrs...)}
		if order {
			s.Place = i
		}
		if r.IntN(8) == 0 {
			s.Reserve = "drained"
		}
		if r.IntN(6) == 0 {
			s.Listed, s.SourceOpen = false, true
		}
		shares = append(shares, s)
	}
	return shares
}

func randomSettings(r *rand.Rand) Settings {
	s := settings()
	s.WriteEndpoints, s.MaxEndpointsPerSlice, s.DropOrphans = r.IntN(4) > 0, 1+r.IntN(4), r.IntN(2) == 0
	if r.IntN(8) == 0 {
		s.Capacity = 1 + r.IntN(6)
	}
	return s
}

// tamper changes the current objects as somebody might.
func tamper(r *rand.Rand, w *world) {
	if len(w.now.Slices) == 0 {
		return
	}
	w.now.Slices = slices.Clone(w.now.Slices)
	s := &w.now.Slices[r.IntN(len(w.now.Slices))]
	s.Endpoints = slices.Clone(s.Endpoints)
	switch r.IntN(8) {
	case 0:
		s.Malformed = true
	case 1:
		s.Owner = "another"
	case 2:
		labels := s.Labels.Map()
		delete(labels, syncer.LabelSourceCluster)
		s.Labels = syncer.LabelsOf(labels)
	case 3:
		if len(s.Endpoints) > 0 {
			e := &s.Endpoints[r.IntN(len(s.Endpoints))]
			e.Ready, e.Serving = !e.Ready, !e.Ready
			read(nil, s)
		}
	case 4:
		w.now.Endpoints = nil
	case 5:
		w.now.Slices = slices.DeleteFunc(w.now.Slices, func(o Slice) bool { return o.Name == s.Name })
	case 6:
		w.now.Service, w.now.Endpoints = nil, nil
	case 7:
		s.Endpoints = append(s.Endpoints, syncer.Endpoint{Addr: netip.AddrFrom4([4]byte{203, 0, 113, byte(r.IntN(256))}), Ready: true, Serving: true, Grade: syncer.Ready})
	}
}

// TestActionsConverge plays comparisons against an API server that answers late and in any order,
// interrupted by new shares. On the way nothing that is wanted leaves, what must go goes at
// once, and in the end the current state is the desired one, and nothing is written twice.
func TestActionsConverge(t *testing.T) {
	for seed := range dice.Seeds(t, lawRounds) {
		r, w := dice.From(seed, 1), newWorld(t)
		p := &play{world: w, r: r, settings: randomSettings(r), underWay: map[Object]flight{}}
		w.now.Busy = func(o Object) bool { return p.underWay[o].action.Why != "" }
		p.shares = randomShares(r)
		for range 6 {
			for range r.IntN(6) {
				p.step()
			}
			if r.IntN(3) == 0 {
				tamper(r, w)
			}
			p.shares = randomShares(r)
		}
		p.settle()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// play is a replica whose requests take their time.
type play struct {
	*world
	r        *rand.Rand
	settings Settings
	shares   []syncer.Share
	// wants are what comparisons have found so far, underWay the requests.
	wants    []*Desired
	underWay map[Object]flight
}

// flight is a request that is under way, since so many comparisons.
type flight struct {
	action Action
	since  int
}

func (p *play) compare() ([]Action, Waiting, *Desired) {
	want := Merge(shopWeb, p.now, p.shares, p.settings)
	actions, waiting := Actions(p.now, want)
	return actions, waiting, want
}

// settle steps until nothing is left to do, and checks the current state then.
func (p *play) settle() {
	p.t.Helper()
	for range 400 {
		if actions, waiting, _ := p.compare(); len(actions)+len(p.underWay) == 0 {
			if waiting.More {
				p.t.Errorf("it waits for an answer to nothing: %+v", waiting)
			}
			final(p.t, p.world, p.shares, p.settings)
			return
		}
		p.step()
	}
	actions, _, _ := p.compare()
	p.t.Errorf("no end of writing: %s %s: %s", actions[0].Verb, actions[0].Object(), actions[0].Why)
}

// step compares once, sends some of the actions, and has some requests carried out.
func (p *play) step() {
	p.t.Helper()
	actions, _, want := p.compare()
	p.wants = append(p.wants, want)
	seen := map[Object]bool{}
	for _, a := range actions {
		if p.now.Busy(a.Object()) || seen[a.Object()] {
			p.t.Errorf("%s is busy or written twice", a.Object())
		}
		seen[a.Object()] = true
	}
	gone(p.t, p.world, want, actions)
	reduced(p.t, p.world, want, actions)
	p.r.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
	for i := range actions[:min(len(actions), 1+p.r.IntN(4))] {
		p.underWay[actions[i].Object()] = flight{actions[i], len(p.wants) - 1}
	}
	for _, o := range slices.SortedFunc(maps.Keys(p.underWay), func(a, b Object) int { return cmp.Compare(a.String(), b.String()) }) {
		if p.r.IntN(4) > 0 {
			p.arrives(p.underWay[o])
			delete(p.underWay, o)
		}
	}
}

// arrives carries a request out, unless its precondition does not hold any more.
func (p *play) arrives(f flight) {
	p.t.Helper()
	a := f.action
	m := p.meta(a.Object())
	switch {
	case a.Verb == Create && (m != nil || a.Kind == KindEndpointSlice && (p.now.Service == nil || p.now.Service.UID != a.Owner)):
		return
	case a.Verb != Create && (m == nil || m.UID != a.UID || m.ResourceVersion != a.ResourceVersion):
		return
	}
	sliced, whole := p.endpoints()
	p.apply(a)
	slicedAfter, wholeAfter := p.endpoints()
	if wants := p.wants[f.since:]; !slices.Contains(wants, nil) {
		stays(p.t, wants, &a, sliced, slicedAfter, syncer.KindEndpointSlices)
		if p.settings.WriteEndpoints && p.now.Endpoints != nil {
			stays(p.t, wants, &a, whole, wholeAfter, syncer.KindEndpoints)
		}
	}
}

// wantedAs is the state in which members want an address in a kind, whoever serves.
func wantedAs(want *Desired, addr netip.Addr, kind syncer.Kinds) (state traffic) {
	if want == nil {
		return absent
	}
	for _, m := range want.members {
		for _, e := range on(m.endpoints, addr) {
			if e.In(kind) && (kind == syncer.KindEndpointSlices || e.Ready || !e.Terminating) {
				state = max(state, stateOf(e.Ready))
			}
		}
	}
	return state
}

// stays holds that an address that is wanted all the time, and was there, is there after a write: of
// the same pod, or of one that serves on the same port. Who serves may change with what is wanted.
func stays(t testing.TB, wants []*Desired, a *Action, before, after []syncer.Endpoint, kind syncer.Kinds) {
	t.Helper()
	unlisted := false
	for _, want := range wants {
		if kind == syncer.KindEndpoints && want.endpoints != nil && want.endpoints.endpoints.Truncated {
			return
		}
		// What Endpoints have of a member that is not listed may differ in slices.
		unlisted = unlisted || kind == syncer.KindEndpoints && slices.ContainsFunc(want.members, func(m *member) bool { return !m.Listed })
	}
	if a.Kind == KindService {
		return
	}
	wanted := func(e *syncer.Endpoint) traffic {
		least := ready
		for _, want := range wants {
			state := absent
			for _, m := range want.members {
				for _, o := range on(m.endpoints, e.Addr) {
					if o.In(kind) && (kind == syncer.KindEndpointSlices || o.Ready || !o.Terminating) {
						state = max(state, stateOf(o.Ready && (len(wants) == 1 || m.classOf(&o) == want.best)))
					}
				}
			}
			least = min(least, state)
		}
		return least
	}
	serving := func(of []syncer.Endpoint) bool {
		return slices.ContainsFunc(of, func(e syncer.Endpoint) bool { return e.Ready && wanted(&e) == ready })
	}
	for _, e := range before {
		if wanted(&e) != absent && !slices.ContainsFunc(after, func(o syncer.Endpoint) bool { return o.Addr == e.Addr }) {
			t.Errorf("%s %s (%s): %s is wanted, and left", a.Verb, a.Object(), a.Why, e.Addr)
		}
	}
	if !unlisted && serving(before) && !serving(after) {
		t.Errorf("%s %s (%s): nobody serves any more", a.Verb, a.Object(), a.Why)
	}
}

// gone holds that what nobody wants leaves, and what is not ready becomes so, with the first
// answers, whatever else has to wait: by actions in the removal lane, but for busy objects.
func gone(t testing.TB, w *world, want *Desired, actions []Action) {
	t.Helper()
	copied := &world{t: t, now: w.now, ports: map[string][]syncer.Port{}}
	for _, a := range actions {
		if a.Lane() == Removal && a.Verb != Create && a.Kind != KindService {
			copied.apply(a)
		}
	}
	now := copied.now
	if now.Service != nil && !now.Service.Owned {
		return
	}
	for i := range now.Slices {
		s := &now.Slices[i]
		for _, e := range s.Endpoints {
			if as := wantedAs(want, e.Addr, syncer.KindEndpointSlices); stateOf(e.Ready) > as && !w.now.Busy(Object{KindEndpointSlice, "shop", s.Name}) {
				t.Errorf("%s of %s is to be %d, and is published as %d", e.Addr, s.Name, as, stateOf(e.Ready))
			}
		}
	}
	if e := now.Endpoints; e != nil && e.Owned && !w.now.Busy(Object{KindEndpoints, "shop", "web"}) {
		for _, at := range endpointsIn(e.Subsets) {
			if as := wantedAs(want, at.Addr, syncer.KindEndpoints); stateOf(at.Ready) > as {
				t.Errorf("%s of Endpoints is to be %d, and is published as %d", at.Addr, as, stateOf(at.Ready))
			}
		}
	}
}

// reduced holds that of an object which the server does not accept as it should be, all removals are
// written by themselves, at once.
func reduced(t testing.TB, w *world, want *Desired, actions []Action) {
	t.Helper()
	now := w.now
	now.Refused = func(Object) bool { return true }
	less, _ := Actions(now, want)
	for _, a := range less {
		if !a.Less {
			continue
		}
		if i := slices.IndexFunc(actions, func(o Action) bool { return o.Object() == a.Object() }); i < 0 || actions[i].Lane() != Removal {
			t.Errorf("%s %s takes away, and not in the first lane", a.Verb, a.Object())
		}
		if len(a.Delta.Added)+len(a.Delta.Readied) > 0 || a.Lane() != Removal {
			t.Errorf("%s %s, reduced, is %+v in lane %s", a.Verb, a.Object(), a.Delta, a.Lane())
		}
		copied := &world{t: t, now: now, ports: map[string][]syncer.Port{}}
		copied.apply(a)
		again, _ := Actions(copied.now, want)
		if slices.ContainsFunc(again, func(o Action) bool { return o.Less && o.Object() == a.Object() }) {
			t.Errorf("%s %s is reduced twice", a.Verb, a.Object())
		}
	}
}

// final holds the state at the end: the best class serves, and nobody else.
func final(t testing.TB, w *world, shares []syncer.Share, s Settings) {
	t.Helper()
	want := Merge(shopWeb, w.now, shares, s)
	if want == nil {
		if now := &w.now; now.Service != nil && now.Service.Owned || now.Endpoints != nil && now.Endpoints.Owned ||
			slices.ContainsFunc(now.Slices, func(s Slice) bool { return s.Owned }) {
			t.Errorf("nobody wants what is published")
		}
		return
	}
	if want.service == nil && w.now.Service == nil {
		return // nobody knows the Service
	}
	best, publishes, inSlices := class{}, map[netip.Addr]traffic{}, map[netip.Addr]traffic{}
	for _, m := range want.members {
		for i := range m.endpoints {
			if of := m.classOf(&m.endpoints[i]); of.better(best) && of.grade > syncer.NotReady {
				best = of
			}
		}
	}
	for _, m := range want.members {
		for i := range m.endpoints {
			e, state := &m.endpoints[i], ready
			if of := m.classOf(e); of.grade == syncer.NotReady && !e.Ready || of.grade > syncer.NotReady && of != best {
				state = notReady
			}
			publishes[e.Addr] = max(publishes[e.Addr], state)
			if e.In(syncer.KindEndpointSlices) {
				inSlices[e.Addr] = max(inSlices[e.Addr], state)
			}
		}
	}
	sliced, whole := states(w.endpoints())
	if !reflect.DeepEqual(sliced, inSlices) {
		t.Errorf("slices have %v, want %v", sliced, inSlices)
	}
	if !s.WriteEndpoints {
		if w.now.Endpoints != nil {
			t.Errorf("Endpoints exist")
		}
		return
	}
	for addr, state := range whole {
		unlisted := slices.ContainsFunc(shares, func(s syncer.Share) bool { return !s.Listed }) // what is published of it may differ in slices
		if state > publishes[addr] && !(unlisted && publishes[addr] == notReady) {
			t.Errorf("Endpoints have %s as %d, want %d", addr, state, publishes[addr])
		}
	}
	if len(shares) == 1 && shares[0].Listed && shares[0].Reserve == "" {
		c := &shares[0].Given
		upstream, _ := syncer.Truncate(syncer.Subsets(c.Endpoints), max(s.Capacity, 1000))
		if !sameSubsets(w.now.Endpoints.Subsets, upstream) {
			t.Errorf("Endpoints are %v, upstream's %v", w.now.Endpoints.Subsets, upstream)
		}
	}
}

// TestMergeOrder: the order of shares decides nothing.
func TestMergeOrder(t *testing.T) {
	for seed := range dice.Seeds(t, lawRounds) {
		r, w := dice.From(seed, 2), newWorld(t)
		s := randomSettings(r)
		w.settle(randomShares(r), s)
		shares := randomShares(r)
		actions, waiting := Actions(w.now, Merge(shopWeb, w.now, shares, s))
		for range 3 {
			r.Shuffle(len(shares), func(i, j int) { shares[i], shares[j] = shares[j], shares[i] })
			again, waitingAgain := Actions(w.now, Merge(shopWeb, w.now, shares, s))
			if !reflect.DeepEqual(actions, again) || !reflect.DeepEqual(waiting, waitingAgain) {
				t.Fatalf("seed %d: %+v\n%+v", seed, actions, again)
			}
		}
	}
}

// TestRestartWritesNothing: what is published of members that are not listed is their share,
// whatever it is.
func TestRestartWritesNothing(t *testing.T) {
	for seed := range dice.Seeds(t, lawRounds) {
		r, w := dice.From(seed, 3), newWorld(t)
		s, shares := randomSettings(r), randomShares(r)
		for i := range shares {
			shares[i].Listed, shares[i].SourceOpen = true, false
		}
		w.settle(shares, s)
		for range 4 {
			for i := range shares {
				shares[i].Listed = r.IntN(2) == 0
				shares[i].SourceOpen = !shares[i].Listed
			}
			if actions, _ := Actions(w.now, Merge(shopWeb, w.now, shares, s)); len(actions) > 0 {
				t.Fatalf("seed %d: %s %s: %s", seed, actions[0].Verb, actions[0].Object(), actions[0].Why)
			}
		}
	}
}
