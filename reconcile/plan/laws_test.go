// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

var shopWeb = syncer.Key{Namespace: "shop", Name: "web"}

var bothKinds = Settings{WriteEndpoints: true, WriteSlices: true, MaxEndpointsPerSlice: 3, Capacity: 12}

// fleet makes random contributions that change little by little, as members do.
type fleet struct {
	rng     *rand.Rand
	members map[string]*member
	// flags are the same for all Services of a cluster.
	flags map[string]Contribution
	// steered allows drains, failover and staleness; overlap lets members name the
	// same addresses.
	steered, overlap bool
}

type member struct {
	service  *syncer.Service
	pods     []*syncer.Pod
	written  bool // endpoints written by hand
	nextAddr byte
}

var portPool = []syncer.ServicePort{
	{Name: "http", Port: 80, Protocol: syncer.TCP, Target: syncer.TargetPort{Number: 8080}},
	{Name: "http", Port: 80, Protocol: syncer.TCP, Target: syncer.TargetPort{Name: "web"}},
	{Name: "http", Port: 8080, Protocol: syncer.TCP, Target: syncer.TargetPort{Number: 8080}},
	{Name: "web", Port: 80, Protocol: syncer.TCP, Target: syncer.TargetPort{Number: 9090}},
	{Name: "", Port: 80, Protocol: syncer.TCP, Target: syncer.TargetPort{Number: 8080}},
	{Name: "", Port: 81, Protocol: syncer.TCP, Target: syncer.TargetPort{Number: 8081}},
	{Name: "metrics", Port: 9100, Protocol: syncer.TCP, Target: syncer.TargetPort{Name: "metrics"}},
	{Name: "dns", Port: 53, Protocol: syncer.UDP, Target: syncer.TargetPort{Number: 5353}},
	{Name: "a-name-too-long-for-a-target", Port: 7000, Protocol: syncer.TCP, Target: syncer.TargetPort{Number: 7000}},
}

var containerPorts = [][]syncer.ContainerPort{
	{{Name: "web", Protocol: syncer.TCP, Port: 8080}, {Name: "metrics", Protocol: syncer.TCP, Port: 9100}},
	{{Name: "web", Protocol: syncer.TCP, Port: 8081}},
	nil,
}

func (f *fleet) ports() []syncer.ServicePort {
	var ports []syncer.ServicePort
	for range f.rng.IntN(4) {
		p := portPool[f.rng.IntN(len(portPool))]
		clash := func(o syncer.ServicePort) bool {
			return o.Name == p.Name || o.Port == p.Port && o.Protocol == p.Protocol || o.Name == "" || p.Name == ""
		}
		if !slices.ContainsFunc(ports, clash) {
			ports = append(ports, p)
		}
	}
	return ports
}

// second is behind a cluster's name for another Service of it, whose namespace has
// the same name in the ingress cluster.
const second = "/2"

var storeWeb = syncer.Key{Namespace: "store", Name: "web"}

func clusterOf(member string) string { return strings.TrimSuffix(member, second) }

func (f *fleet) pick(n int) bool { return f.rng.IntN(n) == 0 }

func (f *fleet) edit() {
	cluster := fmt.Sprint("idc-", string(rune('a'+f.rng.IntN(4))))
	// Of which of a member's Services an address is does not show, and between members
	// that name the same one the older Service decides.
	if !f.overlap && f.pick(4) {
		cluster += second
	}
	m := f.members[cluster]
	if m == nil {
		svc := &syncer.Service{Key: shopWeb, UID: cluster, Created: int64(f.rng.IntN(3)), Ports: f.ports(),
			Labels:   map[string]string{"app": "web", "team": fmt.Sprint(f.rng.IntN(2)), LabelHeadless: "", "bad key!": "x"},
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4}}
		if len(svc.Ports) == 0 || f.pick(3) {
			svc.ClusterIP = syncer.ClusterIPNone
		}
		if f.pick(4) {
			svc.IPFamilies = []syncer.Family{syncer.IPv4, syncer.IPv6}
		}
		if strings.HasSuffix(cluster, second) {
			svc.Key = storeWeb
			if f.pick(2) {
				slices.Reverse(svc.IPFamilies)
			}
		}
		m = &member{service: svc, written: f.pick(5)}
		if m.written {
			svc.Selector = nil
		}
		f.members[cluster] = m
	}
	switch f.rng.IntN(12) {
	case 0:
		delete(f.members, cluster)
	case 1:
		svc := *m.service
		svc.Ports = f.ports()
		if len(svc.Ports) == 0 {
			svc.ClusterIP = syncer.ClusterIPNone
		}
		m.service = &svc
	case 2:
		m.pods = nil
	case 3:
		if f.steered {
			f.flags[clusterOf(cluster)] = Contribution{Drain: f.pick(3), DrainForce: f.pick(5), Stale: f.pick(3), Failover: f.rng.IntN(3)}
		}
	default:
		for range 1 + f.rng.IntN(4) {
			f.editPod(cluster, m)
		}
	}
}

func (f *fleet) editPod(cluster string, m *member) {
	if len(m.pods) > 0 && !f.pick(2) {
		i := f.rng.IntN(len(m.pods))
		pod := *m.pods[i]
		switch f.rng.IntN(3) {
		case 0:
			m.pods = slices.Delete(m.pods, i, i+1)
			return
		case 1:
			pod.Ready = !pod.Ready
		case 2:
			pod.Deleted = 1
		}
		m.pods[i] = &pod
		return
	}
	m.nextAddr++
	net := cluster[len("idc-")] - 'a'
	if strings.HasSuffix(cluster, second) {
		net += 10
	}
	if f.overlap {
		net = 0
	}
	addr := netip.AddrFrom4([4]byte{10, net, 0, m.nextAddr})
	name := fmt.Sprint("web-", m.nextAddr)
	pod := &syncer.Pod{Key: syncer.Key{Namespace: "shop", Name: name}, UID: cluster + name, NodeName: "n1",
		IPs: []syncer.PodIP{{Addr: addr}}, Ready: f.rng.IntN(3) > 0, Ports: containerPorts[f.rng.IntN(len(containerPorts))]}
	if f.pick(3) {
		pod.IPs = append(pod.IPs, syncer.PodIP{Addr: netip.AddrFrom16([16]byte{0xfd, 1, net, 15: m.nextAddr})})
	}
	m.pods = append(m.pods, pod)
}

func (f *fleet) contributions() []Contribution {
	var out []Contribution
	for cluster, m := range f.members {
		c := f.flags[clusterOf(cluster)]
		c.Cluster, c.Source = clusterOf(cluster), m.service.Key
		if m.written {
			c.Contribution = m.handWritten()
		} else {
			c.Contribution = syncer.Compute(m.service, slices.Values(m.pods), syncer.Options{})
		}
		out = append(out, c)
	}
	return out
}

// handWritten spreads the pods over subsets that are not in canonical form.
func (m *member) handWritten() syncer.Contribution {
	var subsets []syncer.Subset
	for _, pod := range m.pods {
		s := syncer.Subset{Ports: []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: int32(8080 + len(pod.IPs)%2)}}}
		a := syncer.Address{Addr: pod.IPs[0].Addr, Hostname: pod.Name}
		if pod.Ready {
			s.Ready = []syncer.Address{a}
		} else {
			s.NotReady = []syncer.Address{a}
		}
		subsets = append(subsets, s)
	}
	return syncer.HandWritten(m.service, subsets, nil, len(m.pods)%3 == 0, syncer.Options{})
}

// history plays random edits and checks the laws after each.
func history(t *testing.T, seed uint64, steps int) {
	rng := dice.From(seed, 7)
	settings := bothKinds
	switch rng.IntN(4) {
	case 0:
		settings.WriteSlices = false
	case 1:
		settings.WriteEndpoints = false
	}
	f := &fleet{rng: rng, members: map[string]*member{}, flags: map[string]Contribution{}, steered: rng.IntN(2) == 0, overlap: rng.IntN(2) == 0}
	w := newWorld(t, shopWeb)
	w.current.Slices = []CurrentSlice{{Meta: Meta{Name: "web-somebody", UID: "f"}, Slice: syncer.Slice{Name: "web-somebody"}}}
	for step := range steps {
		f.edit()
		contributions := f.contributions()
		desired := mergeOrNil(contributions, w.current, settings)
		checkMerge(t, rng, contributions, w.current, settings, desired)
		advance(t, w, desired, settings, rng, !f.overlap)
		checkRestart(t, rng, contributions, w.current, settings, f.overlap)
		if t.Failed() {
			t.Fatalf("seed %d step %d", seed, step)
		}
	}
}

func mergeOrNil(contributions []Contribution, current Current, settings Settings) *Desired {
	if len(contributions) == 0 {
		return nil
	}
	r := Merge(shopWeb, contributions, current, settings)
	return &r
}

// checkMerge: the order of contributions does not matter, a second merge says
// the same, and an address is lost or gained only for a reason.
func checkMerge(t *testing.T, rng *rand.Rand, contributions []Contribution, current Current, settings Settings, desired *Desired) {
	t.Helper()
	if desired == nil {
		return
	}
	backends := desired.Backends() // which are of the contributions
	rng.Shuffle(len(contributions), func(i, j int) { contributions[i], contributions[j] = contributions[j], contributions[i] })
	again, first := Merge(shopWeb, contributions, current, settings), *desired
	if !reflect.DeepEqual(again.Backends(), backends) {
		t.Errorf("another order, other backends:\n%+v\n%+v", again.Backends(), backends)
	}
	again.given, first.given, again.shares, first.shares = nil, nil, nil, nil
	if !reflect.DeepEqual(again, first) {
		t.Errorf("another order, another result:\n%+v\n%+v", again, first)
	}
	given := map[netip.Addr]bool{}
	steered := false
	for _, c := range contributions {
		steered = steered || c.Drain || c.Stale || c.Failover > 0
		for _, e := range c.Endpoints {
			given[e.Addr] = true
		}
	}
	got := statesOf(desired.Endpoints.Subsets)
	for _, s := range desired.Slices {
		got.add(slices.Values(s.Endpoints))
	}
	for addr := range got {
		if !given[addr] {
			t.Errorf("%s comes from nowhere", addr)
		}
	}
	if settings.WriteSlices && settings.WriteEndpoints && !steered && len(desired.Conflicts) == 0 && len(got) != len(given) && !desired.Endpoints.Truncated {
		t.Errorf("%d of %d addresses, and no conflict", len(got), len(given))
	}
}

// advance executes the plan and checks it against what it said; and, where
// members name addresses of their own (apart), that none that stays was without
// a slice in between.
func advance(t *testing.T, w *world, desired *Desired, settings Settings, rng *rand.Rand, apart bool) {
	t.Helper()
	foreign, before, sliced := w.foreignSnapshot(), w.dumbStates(), w.sliced()
	settings.Apart = rng.IntN(4) == 0
	p := Diff(w.current, desired, settings)
	checkFirstHalf(t, w, desired, p)
	checkTakingAway(t, rng, w, p)
	end := newWorld(t, shopWeb)
	end.current = w.current
	end.execute(p, nil)
	stays := end.sliced()
	w.made = map[Object]string{}
	for _, stage := range p.Sequence() {
		rng.Shuffle(len(stage), func(i, j int) { stage[i], stage[j] = stage[j], stage[i] })
		for i := range stage {
			w.apply(&stage[i])
			now := w.sliced()
			for addr := range stays {
				if apart && sliced[addr] && !now[addr] {
					t.Errorf("%s was without a slice after %s %s:\n%s", addr, stage[i].Verb, stage[i].Name, textOf(t, p))
				}
			}
		}
	}
	if got, want := p.Delta, dumbDelta(before, w.dumbStates()); !reflect.DeepEqual(got, want) {
		t.Errorf("delta %+v\nwant  %+v", got, want)
	}
	if again := Diff(w.current, desired, settings); !again.Empty() {
		t.Errorf("second diff is not empty:\n%s", textOf(t, again))
	}
	if w.foreignSnapshot() != foreign {
		t.Errorf("foreign objects changed:\n%s%s", foreign, w.foreignSnapshot())
	}
	if desired == nil && (w.current.Service != nil || w.current.Endpoints != nil || len(w.sliced()) > 0) {
		t.Error("leftovers")
	}
}

// checkFirstHalf: after any part of the first half nothing has been added, and after
// all of it nothing stands that no member names, nor is anything ready that none has
// ready.
func checkFirstHalf(t *testing.T, w *world, desired *Desired, p Plan) {
	t.Helper()
	named := map[netip.Addr]traffic{}
	if desired != nil {
		for _, c := range desired.given {
			for _, e := range c.Endpoints {
				named[e.Addr] = max(named[e.Addr], map[bool]traffic{true: ready, false: notReady}[e.Ready])
			}
		}
	}
	half := newWorld(t, shopWeb)
	half.current, half.made = w.current, map[Object]string{}
	before := half.places()
	for i := range p.Removals {
		a := &p.Removals[i]
		if a.Otherwise != nil && a.Verb == Update {
			a = a.Otherwise // the server has refused all that is more than a removal
		}
		if a.Verb == Create || a.Kind == KindService || a.Kind == KindNamespace || len(a.Needs) > 0 {
			t.Errorf("%s %s in the first half", a.Verb, a.Kind)
		}
		half.apply(a)
		for at, isReady := range half.places() {
			if wasReady, stood := before[at]; !stood || isReady && !wasReady {
				t.Errorf("%v came with the first half: %s", at, textOf(t, p))
			}
		}
	}
	for at, isReady := range half.places() {
		if state := named[at.addr]; state == absent || isReady && state != ready {
			t.Errorf("%v (ready %v) outlasts the first half: %s", at, isReady, textOf(t, p))
		}
	}
}

// checkTakingAway: the first half leaves alone what it is told to, and takes away all the
// rest, and nothing comes.
func checkTakingAway(t *testing.T, rng *rand.Rand, w *world, p Plan) {
	t.Helper()
	effect := p.Effect()
	kept := map[netip.Addr]bool{}
	for _, addr := range effect.Takes {
		kept[addr] = rng.IntN(2) == 0
	}
	after := func(p Plan) map[place]bool {
		half := newWorld(t, shopWeb)
		half.current, half.made = w.current, map[Object]string{}
		for i := range p.Removals {
			half.apply(&p.Removals[i])
		}
		return half.places()
	}
	all := p.TakingAway(nil)
	some := p.TakingAway(slices.DeleteFunc(slices.Clone(effect.Takes), func(addr netip.Addr) bool { return !kept[addr] }))
	if e := some.Effect(); len(e.Gives) > 0 || slices.ContainsFunc(e.Takes, func(addr netip.Addr) bool { return kept[addr] }) || len(some.Stages) > 0 {
		t.Errorf("with %v kept: %s", kept, textOf(t, some))
	}
	left, without := after(all), after(some)
	for at, isReady := range w.places() {
		wasLeft, stays := left[at]
		if kept[at.addr] {
			wasLeft, stays = isReady, true
		}
		if got, stands := without[at]; stands != stays || got != wasLeft {
			t.Errorf("%v stands %v, ready %v: want %v, %v\n%s", at, stands, got, stays, wasLeft, textOf(t, some))
		}
	}
}

// checkRestart: with any members away since the start, what stands stays. Only
// addresses that did not fit into Endpoints are forgotten where no slice has them.
func checkRestart(t *testing.T, rng *rand.Rand, contributions []Contribution, current Current, settings Settings, overlap bool) {
	t.Helper()
	if e := current.Endpoints; e != nil && e.Annotations[AnnotationOverCapacity] != "" && e.Annotations[AnnotationAddresses] != "" {
		return
	}
	// Whether a member was ready cannot be told from what stands where its endpoints
	// were marked not ready for their age, or were left to another member.
	blurred := func(c Contribution) bool {
		steered := c.Drain || c.Failover > 0
		return c.Stale && (steered || overlap) || steered && overlap
	}
	if slices.ContainsFunc(contributions, blurred) {
		return
	}
	// Nor whether an address that did not fit was meant for Endpoints, where two Services
	// of a member carry different families there.
	mixed := func(c Contribution) bool {
		return slices.ContainsFunc(contributions, func(o Contribution) bool {
			return o.Cluster == c.Cluster && o.EndpointsFamily != c.EndpointsFamily
		})
	}
	if e := current.Endpoints; e != nil && e.Annotations[AnnotationOverCapacity] != "" && slices.ContainsFunc(contributions, mixed) {
		return
	}
	var after []Contribution
	away := map[string]bool{}
	for _, c := range contributions {
		recovered, decided := away[c.Cluster]
		if !decided {
			away[c.Cluster] = rng.IntN(2) == 0
		}
		switch {
		case !away[c.Cluster]:
			after = append(after, c)
			continue
		case recovered:
			continue
		}
		for _, r := range current.Share(c.Cluster) {
			r.Drain, r.DrainForce, r.Stale, r.Failover = c.Drain, c.DrainForce, c.Stale, c.Failover
			after = append(after, r)
		}
	}
	if got, want := len(after), len(contributions); got != want {
		t.Errorf("%d contributions after a restart, want %d", got, want)
	}
	if p := Diff(current, mergeOrNil(after, current, settings), settings); !p.Empty() {
		t.Errorf("a restart writes:\n%s", textOf(t, p))
		for _, c := range slices.Concat(contributions, after) {
			t.Logf("%s unseen=%v drain=%v,%v failover=%d stale=%v %+v", c.Cluster, c.Unseen, c.Drain, c.DrainForce, c.Failover, c.Stale, c.Contribution.Service)
			for _, e := range c.Endpoints {
				t.Logf("   %+v", e)
			}
		}
	}
}

func TestLaws(t *testing.T) {
	for seed := range dice.Seeds(t, 30) {
		history(t, seed, 40)
	}
}

func FuzzLaws(f *testing.F) {
	f.Add(uint64(1), uint8(30))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) { history(t, seed, int(steps)) })
}
