// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// TestModel drives a store and its dumb twin with the same random events and
// checks the store's promises after each:
//
//   - its contributions are the twin's and its indexes are right;
//   - whatever changed was returned as dirty, and as a removal if something that
//     took traffic does so no longer;
//   - a repeated event changes nothing and returns nothing;
//   - it returns what was set.
func TestModel(t *testing.T) {
	for seed := range dice.Seeds(t, 40) {
		runModel(t, seed, 250)
	}
}

// FuzzModel is TestModel as a fuzz test.
func FuzzModel(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { runModel(t, seed, 500) })
}

func runModel(t *testing.T, seed uint64, steps int) {
	t.Helper()
	m := &model{t: t, rng: dice.From(seed, 7), revision: 50_000}
	m.twin = newTwin(m.options())
	m.store = New(m.twin.options)
	m.before = m.twin.contributions(m.now)
	for step := range steps {
		what, dirty, quiet := m.act()
		m.twin.forget()
		m.verify(fmt.Sprintf("seed %d, step %d, %s", seed, step, what), dirty, quiet)
	}
}

type model struct {
	t        *testing.T
	rng      *rand.Rand
	store    *Store
	twin     *twin
	now      time.Time
	revision uint64
	before   map[syncer.Key]syncer.Contribution
}

func (m *model) coin() bool { return m.rng.IntN(2) == 0 }

func pick[T any](m *model, list ...T) T { return list[m.rng.IntN(len(list))] }

func (m *model) key(prefix string, n int) syncer.Key {
	return syncer.Key{Namespace: pick(m, "a", "b"), Name: fmt.Sprint(prefix, m.rng.IntN(n))}
}

// next is the revision of the next event. It leaves gaps: other kinds have revisions too.
func (m *model) next() uint64 {
	m.revision += 1 + m.rng.Uint64N(3)
	return m.revision
}

func (m *model) options() Options {
	o := Options{
		Replicate: func(svc *syncer.Service) bool { return svc.Annotations[syncer.AnnotationReplicate] != "false" },
		Syncer:    syncer.Options{HoldSilentNodes: pick(m, 0, 5*time.Second), StableFor: pick(m, 0, 5*time.Second)},
	}
	if m.coin() {
		o.Syncer.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")}
	}
	if m.coin() {
		then := []syncer.Then{pick(m, syncer.ThenReady, syncer.ThenAbsent), pick(m, syncer.ThenNotReady, syncer.ThenUpstream)}
		o.Rules = func(svc *syncer.Service) syncer.Rules {
			return syncer.Rules{Applies: uint64(len(svc.Labels["app"])) + uint64(len(svc.Name)), Then: then}
		}
	}
	return o
}

func (m *model) act() (what string, dirty []Dirty, quiet bool) {
	switch n := m.rng.IntN(100); {
	case n < 36:
		p := m.pod(m.key("p", 8))
		m.twin.setPod(p)
		return fmt.Sprintf("pod %+v", p), m.store.SetPod(Versioned[syncer.Pod]{Object: p, Revision: m.next()}), false
	case n < 46:
		key := m.key("p", 8)
		delete(m.twin.pods, key)
		return fmt.Sprint("no pod ", key), m.store.RemovePod(key), false
	case n < 62:
		v := m.service(m.key("s", 4))
		m.twin.services[v.Key] = v
		return fmt.Sprintf("service %+v", v), m.store.SetService(Versioned[syncer.Service]{Object: v, Revision: m.next()}), false
	case n < 67:
		key := m.key("s", 4)
		delete(m.twin.services, key)
		return fmt.Sprint("no service ", key), m.store.RemoveService(key), false
	case n < 75:
		return m.repeat()
	case n < 92:
		return m.write()
	case n < 96:
		m.now = time.Unix(m.rng.Int64N(20), 0)
		m.before = m.twin.contributions(m.now)
		return "another time", nil, true
	default:
		m.twin.options = m.options()
		m.store.Configure(m.twin.options)
		m.before = m.twin.contributions(m.now)
		return "options", nil, true
	}
}

// repeat sets what is known again, at any revision.
func (m *model) repeat() (what string, dirty []Dirty, quiet bool) {
	revision := m.rng.Uint64N(3)
	if m.coin() {
		for _, p := range m.twin.pods {
			return "pod again", m.store.SetPod(Versioned[syncer.Pod]{Object: p, Revision: revision}), true
		}
	}
	for _, v := range m.twin.services {
		return "service again", m.store.SetService(Versioned[syncer.Service]{Object: v, Revision: revision}), true
	}
	return "nothing", nil, true
}

// write changes hand-written endpoints.
func (m *model) write() (what string, dirty []Dirty, quiet bool) {
	key := m.key("s", 4)
	name := syncer.Key{Namespace: key.Namespace, Name: fmt.Sprint("sl", m.rng.IntN(3))}
	switch m.rng.IntN(5) {
	case 0, 1:
		s := HandSlice{Key: name, Service: key.Name, Derived: m.rng.IntN(4) == 0}
		s.Content = syncer.Slice{Name: name.Name, Family: syncer.IPv4, Ports: []syncer.Port{{Name: "p", Protocol: "TCP", Number: 81}}}
		for range m.rng.IntN(3) {
			s.Content.Endpoints = append(s.Content.Endpoints, syncer.Endpoint{Addr: m.addr().Addr, Ready: m.coin()})
		}
		m.twin.slices[name] = s
		return fmt.Sprintf("slice %+v", s), m.store.SetSlice(Versioned[HandSlice]{Object: s, Revision: m.next()}), false
	case 2:
		delete(m.twin.slices, name)
		return fmt.Sprint("no slice ", name), m.store.RemoveSlice(name), false
	case 3:
		delete(m.twin.endpoints, key)
		return fmt.Sprint("no endpoints ", key), m.store.RemoveEndpoints(key), false
	}
	subset := syncer.Subset{Ports: []syncer.Port{{Name: "p", Protocol: "TCP", Number: 80}}}
	for range m.rng.IntN(3) {
		subset.Ready = append(subset.Ready, syncer.Address{Addr: m.addr().Addr})
	}
	e := HandEndpoints{Key: key, Subsets: []syncer.Subset{subset}, SkipMirror: m.rng.IntN(4) == 0}
	m.twin.endpoints[key] = e
	return fmt.Sprintf("endpoints %+v", e), m.store.SetEndpoints(Versioned[HandEndpoints]{Object: e, Revision: m.next()}), false
}

func (m *model) labels() map[string]string {
	labels := map[string]string{}
	for _, k := range []string{"app", "tier", "x"} {
		if m.rng.IntN(4) > 0 {
			labels[k] = pick(m, "1", "22", "333")
		}
	}
	return labels
}

func (m *model) addr() syncer.PodIP {
	if m.rng.IntN(12) == 0 {
		return pick(m, syncer.PodIP{Raw: "none"}, syncer.PodIP{Addr: netip.MustParseAddr("::ffff:10.0.0.1")}, syncer.PodIP{Addr: netip.MustParseAddr("fd00::7")})
	}
	return syncer.PodIP{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(m.rng.IntN(20))})}
}

func (m *model) uid() string {
	return pick(m, "", "odd", "00000000-0000-0000-0000-000000000000", fmt.Sprintf("%08x-1b4e-4c2a-9f3d-0123456789ab", m.rng.IntN(3)), "0A000000-1b4e-4c2a-9f3d-0123456789ab")
}

// pod is a random pod, or a random change of one.
func (m *model) pod(key syncer.Key) syncer.Pod {
	p, known := m.twin.pods[key]
	if !known {
		p = syncer.Pod{Key: key, UID: m.uid(), Labels: syncer.LabelsOf(m.labels()), IPs: []syncer.PodIP{m.addr()}, Ready: m.coin()}
	}
	for range m.rng.IntN(3) {
		m.changePod(&p)
	}
	p.WasReady = m.rng.IntN(10) == 0 // otherwise the store alone knows
	return p
}

func (m *model) changePod(p *syncer.Pod) {
	switch m.rng.IntN(14) {
	case 0:
		p.Labels = syncer.LabelsOf(m.labels())
	case 1:
		p.UID = m.uid()
	case 2:
		p.IPs = pick(m, nil, []syncer.PodIP{m.addr()}, []syncer.PodIP{m.addr(), {Addr: netip.MustParseAddr("fd00::1")}})
	case 3:
		p.Ports = pick(m, nil, []syncer.ContainerPort{{Name: "web", Protocol: "TCP", Port: int32(m.rng.IntN(3))}})
	case 4:
		p.NodeName = pick(m, "", "n1", "n2", "n3")
	case 5:
		p.Terminating = !p.Terminating
	case 6:
		p.Terminal = m.rng.IntN(4) == 0
	case 7:
		p.Hostname, p.Subdomain = pick(m, "h", p.Name), pick(m, "", "s1", "s2")
	case 8:
		p.ReadySince = m.rng.Int64N(10)
	case 9:
		p.Matches = m.rng.Uint64N(4)
	case 10:
		p.NodeSilent, p.HostNetwork = m.coin(), m.coin()
	default:
		p.Ready = !p.Ready
	}
}

func (m *model) service(key syncer.Key) syncer.Service {
	svc, known := m.twin.services[key]
	if !known {
		svc = syncer.Service{Key: key, UID: "v", Selector: m.labels(), IPFamilies: []syncer.Family{syncer.IPv4}, ClusterIP: "10.1.1.1"}
	}
	if m.rng.IntN(5) > 0 {
		svc.Ports = []syncer.ServicePort{{Name: "p", Protocol: "TCP", Port: 80, AppProtocol: pick(m, syncer.AppProtocol{}, syncer.AppProtocol{Value: "h2c", Set: true}, syncer.AppProtocol{Set: true}),
			Target: pick(m, syncer.TargetPort{Number: 8080}, syncer.TargetPort{Name: "web"})}}
	}
	switch m.rng.IntN(10) {
	case 0:
		svc.Selector = m.labels()
	case 1, 2:
		svc.Selector = nil
	case 3:
		svc.Selector = map[string]string{}
	case 4:
		svc.ExternalName = !svc.ExternalName
	case 5:
		svc.PublishNotReadyAddresses = !svc.PublishNotReadyAddresses
	case 6:
		svc.Annotations = pick(m, nil, map[string]string{syncer.AnnotationReplicate: "false"})
	case 7:
		svc.Labels = m.labels()
	case 8:
		svc.UID, svc.Created = "w"+fmt.Sprint(m.rng.IntN(2)), m.rng.Int64N(3)
	}
	return svc
}

func (m *model) verify(name string, dirty []Dirty, quiet bool) {
	m.t.Helper()
	if err := m.store.check(); err != nil {
		m.t.Fatalf("%s: index: %v", name, err)
	}
	if quiet && len(dirty) > 0 {
		m.t.Fatalf("%s: dirty %v, want none", name, dirty)
	}
	for key, want := range m.twin.pods {
		if got, _, ok := m.store.Pod(key); !ok || !got.Equal(&want) {
			m.t.Fatalf("%s: pod\n%+v, want\n%+v", name, got, want)
		}
	}
	after := m.twin.contributions(m.now)
	if got := slices.SortedFunc(m.store.Replicas(), syncer.Key.Compare); !slices.Equal(got, slices.SortedFunc(maps.Keys(after), syncer.Key.Compare)) {
		m.t.Fatalf("%s: replicas %v", name, got)
	}
	for key, want := range after {
		got, _ := m.store.Contribution(key, m.now)
		got.Trigger = time.Time{}
		if !equalContributions(&got, &want) {
			m.t.Fatalf("%s: %s\ngot  %+v %+v\nwant %+v %+v", name, key, got, got.Service.Labels, want, want.Service.Labels)
		}
	}
	m.verifyDirty(name, dirty, after)
	m.before = after
}

// equalContributions does not tell empty sets of labels from none, as the API does not.
func equalContributions(a, b *syncer.Contribution) bool {
	x, y := *a, *b
	s, r := *a.Service, *b.Service
	same := maps.Equal(s.Labels, r.Labels) && maps.Equal(s.Annotations, r.Annotations)
	s.Labels, s.Annotations, r.Labels, r.Annotations = nil, nil, nil, nil
	x.Service, y.Service = nil, nil
	return same && reflect.DeepEqual(s, r) && reflect.DeepEqual(x, y)
}

func (m *model) verifyDirty(name string, dirty []Dirty, after map[syncer.Key]syncer.Contribution) {
	effects := map[syncer.Key]syncer.Effect{}
	for _, d := range dirty {
		if _, twice := effects[d.Replica]; (twice && d.Effect != syncer.Removal) || d.Effect == syncer.None {
			m.t.Fatalf("%s: dirty twice or without effect: %v", name, dirty)
		}
		effects[d.Replica] = max(effects[d.Replica], d.Effect)
	}
	for key := range m.before {
		if _, there := after[key]; !there && effects[key] != syncer.Removal {
			m.t.Fatalf("%s: %s was removed, dirty is %v", name, key, dirty)
		}
	}
	for key, now := range after {
		old, had := m.before[key]
		if had && equalContributions(&old, &now) {
			continue
		}
		want := syncer.Addition
		is := graded(&now)
		for point := range graded(&old) {
			if !is[point] {
				want = syncer.Removal
			}
		}
		if effects[key] < want {
			m.t.Fatalf("%s: %v changed with effect %s, dirty is %v", name, key, want, dirty)
		}
	}
}
