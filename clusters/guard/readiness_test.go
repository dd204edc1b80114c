// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// member plays a store: pods as they were taken, and the Services they belong to
// by the part of their name before the dash.
type member struct {
	t      *testing.T
	r      Readiness
	limits Limits
	now    time.Time
	rv     uint64
	pods   map[syncer.Key]PodVersion
	truth  map[syncer.Key]syncer.Pod
}

func newMember(t *testing.T, services map[string]int) *member {
	m := &member{t: t, limits: limits, now: time.Unix(5000, 0), pods: map[syncer.Key]PodVersion{}, truth: map[syncer.Key]syncer.Pod{}}
	for _, service := range slices.Sorted(maps.Keys(services)) {
		for i := range services[service] {
			m.see(service, i, true, false)
		}
	}
	return m
}

func (m *member) ReplicasOf(pod syncer.Key) []syncer.Key {
	service, _, _ := strings.Cut(pod.Name, "-")
	if service == "job" {
		return nil
	}
	return []syncer.Key{{Namespace: "shop", Name: service}}
}

func (m *member) ReadyEndpoints(replica syncer.Key) (ready int, known bool) {
	for key, v := range m.pods {
		if v.Object.Ready && usable(&v.Object) && slices.Contains(m.ReplicasOf(key), replica) {
			ready++
		}
	}
	return ready, true
}

func (m *member) held(key syncer.Key) *syncer.Pod {
	if v, ok := m.pods[key]; ok {
		return &v.Object
	}
	return nil
}

func (m *member) pod(service string, i int) syncer.Pod {
	key := syncer.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", service, i)}
	if p, ok := m.truth[key]; ok {
		return p
	}
	return syncer.Pod{
		Key: key, UID: key.Name, ReadySince: 100, Ready: true,
		IPs: []syncer.PodIP{{Addr: netip.AddrFrom4([4]byte{10, byte(len(service)), byte(i >> 8), byte(i)})}},
	}
}

// show takes in a pod by a watch.
func (m *member) show(p syncer.Pod) {
	m.rv++
	m.truth[p.Key] = p
	v, restore := m.r.Saw(m.now, m.limits, m, m.held(p.Key), PodVersion{Object: p, RV: m.rv})
	m.pods[p.Key] = v
	m.take(restore)
}

func (m *member) see(service string, i int, ready, silent bool) {
	p := m.pod(service, i)
	p.Ready, p.NodeSilent, p.ReadySince = ready, silent && !ready, 100
	if !ready {
		p.ReadySince = m.now.Unix()
	}
	m.show(p)
}

func (m *member) gone(service string, i int) {
	key := m.pod(service, i).Key
	m.r.Gone(m.held(key))
	delete(m.pods, key)
	delete(m.truth, key)
}

func (m *member) take(pods []PodVersion) {
	for _, v := range pods {
		m.pods[v.Object.Key] = v
	}
}

func (m *member) pass(d time.Duration) {
	m.now = m.now.Add(d)
	m.take(m.r.Tick(m.now, m.limits))
}

func (m *member) expect(panicking bool, ready map[string]int) {
	m.t.Helper()
	if k := m.r.Kept(); k.Panic.IsZero() == panicking {
		m.t.Errorf("panic is %v, want %v (%+v)", !k.Panic.IsZero(), panicking, k)
	}
	for service, want := range ready {
		if got, _ := m.ReadyEndpoints(syncer.Key{Namespace: "shop", Name: service}); got != want {
			m.t.Errorf("%s has %d ready, want %d", service, got, want)
		}
	}
	m.check()
}

// check holds what is kept against the truth.
func (m *member) check() {
	m.t.Helper()
	ready, kept := 0, 0
	for key, p := range m.truth {
		taken := m.pods[key].Object
		if usable(&p) && p.Ready {
			ready++
		}
		if taken.Ready != p.Ready {
			kept++
			if p.Ready || !usable(&p) || taken.NodeSilent || taken.ReadySince != 100 {
				m.t.Errorf("%s is ready=%v and taken as ready=%v silent=%v since=%d", key, p.Ready, taken.Ready, taken.NodeSilent, taken.ReadySince)
			}
			taken.Ready, taken.NodeSilent, taken.ReadySince = p.Ready, p.NodeSilent, p.ReadySince
		}
		if !taken.Equal(&p) {
			m.t.Errorf("%s is %+v and taken as %+v", key, p, taken)
		}
	}
	if k := m.r.Kept(); k.Pods != kept || k.Ready != ready {
		m.t.Errorf("%d are kept, %d ready; it says %+v", kept, ready, k)
	}
	if len(m.pods) != len(m.truth) {
		m.t.Errorf("%d pods taken of %d", len(m.pods), len(m.truth))
	}
}

func TestAllPodsTurnNotReady(t *testing.T) {
	m := newMember(t, map[string]int{"web": 12, "api": 8, "db": 4})
	for i := range 12 {
		m.see("web", i, false, true)
		m.now = m.now.Add(time.Second)
	}
	m.expect(false, map[string]int{"web": 0, "api": 8})
	for i := range 8 {
		m.see("api", i, false, true)
	}
	m.expect(true, map[string]int{"web": 12, "api": 8})
	for i := range 4 {
		m.see("db", i, false, false)
	}
	m.pass(time.Hour)
	m.expect(true, map[string]int{"web": 12, "api": 8, "db": 4})

	terminating := m.pod("web", 0)
	terminating.Deleted = 9000
	m.show(terminating)
	m.gone("web", 1)
	m.pass(time.Second)
	m.expect(true, map[string]int{"web": 10})

	for i := 2; i < 12; i++ {
		m.see("web", i, true, false)
	}
	m.pass(time.Second)
	m.expect(true, map[string]int{"web": 10, "api": 8, "db": 4}) // 12 of 22 are down
	for i := range 7 {
		m.see("api", i, true, false)
	}
	m.pass(time.Second)
	m.expect(false, map[string]int{"web": 10, "api": 7, "db": 0}) // 5 of 22 were, and are believed
	m.see("api", 7, true, false)
	m.pass(time.Second)
	m.expect(false, map[string]int{"web": 10, "api": 8, "db": 0})
}

func TestNoPanic(t *testing.T) {
	for name, c := range map[string]struct {
		services map[string]int
		script   func(m *member)
		want     map[string]int
	}{
		"a small member": {map[string]int{"web": 2, "api": 1}, func(m *member) {
			m.see("web", 0, false, false)
			m.see("web", 1, false, false)
			m.see("api", 0, false, false)
		}, map[string]int{"web": 0, "api": 0}},
		"one Service, however large": {map[string]int{"web": 50, "api": 8}, func(m *member) {
			m.see("api", 3, false, false)
			for i := range 50 {
				m.see("web", i, false, false)
			}
		}, map[string]int{"web": 0, "api": 7}},
		"the only Service": {map[string]int{"web": 30}, func(m *member) {
			for i := range 30 {
				m.see("web", i, false, false)
			}
		}, map[string]int{"web": 0}},
		"slowly": {map[string]int{"web": 30, "api": 30}, func(m *member) {
			for i := range 30 {
				m.see("web", i, false, false)
				m.see("api", i, false, false)
				m.pass(16 * time.Second)
			}
		}, map[string]int{"web": 0, "api": 0}},
		"deletions": {map[string]int{"web": 30, "api": 30}, func(m *member) {
			for i := range 30 {
				m.gone("web", i)
				p := m.pod("api", i)
				p.Deleted = 9000
				m.show(p)
			}
		}, map[string]int{"web": 0, "api": 0}},
		"a roll-out of everything": {map[string]int{"web": 30, "api": 30}, func(m *member) {
			for i := range 30 {
				for _, service := range []string{"web", "api"} {
					p := m.pod(service, i)
					p.UID, p.Ready = "another", false
					m.show(p)
				}
			}
		}, map[string]int{"web": 0, "api": 0}},
		"blinking": {map[string]int{"web": 20, "api": 20}, func(m *member) {
			for i := range 20 {
				m.see("web", i, false, false)
				m.see("web", i, true, false)
				m.see("api", i, false, false)
				m.see("api", i, true, false)
			}
		}, map[string]int{"web": 20, "api": 20}},
		"switched off": {map[string]int{"web": 20, "api": 20}, func(m *member) {
			m.limits.PanicPercent = 100
			for i := range 20 {
				m.see("web", i, false, true)
				m.see("api", i, false, true)
			}
		}, map[string]int{"web": 0, "api": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, c.services)
			c.script(m)
			m.expect(false, c.want)
		})
	}
}

func TestPanicOfOneServiceOnSilentNodes(t *testing.T) {
	m := newMember(t, map[string]int{"web": 20})
	for i := range 20 {
		m.see("web", i, false, true)
	}
	m.expect(true, map[string]int{"web": 20})
}

func TestReleaseByHand(t *testing.T) {
	m := newMember(t, map[string]int{"web": 10, "api": 10})
	for i := range 10 {
		m.see("web", i, false, false)
		m.see("api", i, false, false)
	}
	m.expect(true, map[string]int{"web": 10, "api": 10})
	m.take(m.r.Release(func(pod syncer.Key) bool { return strings.HasPrefix(pod.Name, "web-") }))
	m.expect(true, map[string]int{"web": 0, "api": 10})
	m.see("web", 3, false, true)
	m.expect(true, map[string]int{"web": 0, "api": 10})
	m.take(m.r.Release(nil))
	m.expect(false, map[string]int{"web": 0, "api": 0})
	m.see("web", 3, true, false)
	m.see("web", 3, false, false)
	m.pass(time.Second)
	m.expect(false, map[string]int{"web": 0, "api": 0})
}

func TestSilentNodes(t *testing.T) {
	m := newMember(t, map[string]int{"web": 6, "api": 20})
	m.limits.HoldSilent = 30 * time.Second
	for i := range 4 {
		m.see("web", i, false, true)
	}
	m.see("web", 4, false, false)
	m.expect(false, map[string]int{"web": 5})
	if k := m.r.Kept(); k.Silent != 4 || !k.First.Equal(m.now) {
		t.Errorf("kept %+v", k)
	}
	m.pass(10 * time.Second)
	m.see("web", 0, true, false)  // it is back
	m.see("web", 1, false, false) // its containers failed
	m.gone("web", 2)
	m.expect(false, map[string]int{"web": 3})
	m.pass(19 * time.Second)
	m.see("web", 3, false, true) // an update that says nothing new
	m.expect(false, map[string]int{"web": 3})
	m.pass(time.Second)
	m.expect(false, map[string]int{"web": 2})
	m.pass(time.Hour)
	m.see("web", 3, true, false)
	m.expect(false, map[string]int{"web": 3})
}

func TestListOfPodsThatAreNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		down func(service string) bool
		want map[string]int
		mass bool
	}{
		"everything":  {func(string) bool { return true }, map[string]int{"web": 40, "api": 20}, true},
		"one Service": {func(s string) bool { return s == "web" }, map[string]int{"web": 0, "api": 20}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, map[string]int{"web": 40, "api": 20})
			var list []PodVersion
			for _, key := range slices.SortedFunc(maps.Keys(m.truth), syncer.Key.Compare) {
				p := m.truth[key]
				service, _, _ := strings.Cut(key.Name, "-")
				if c.down(service) {
					p.Ready, p.ReadySince = false, 999
				}
				m.truth[key] = p
				list = append(list, PodVersion{Object: p, RV: 9000})
			}
			m.r.List(m.now, m.limits, m, m.held, list)
			m.take(list)
			var taken []*syncer.Pod
			for _, v := range m.pods {
				taken = append(taken, &v.Object)
			}
			m.r.Recount(taken)
			m.expect(c.mass, c.want)
		})
	}
}

// TestReadinessOverTime plays random days and holds what is kept against the
// truth after each step; at the end all pods are ready, and nothing is kept.
func TestReadinessOverTime(t *testing.T) {
	panics := 0
	for seed := range dice.Seeds(t, 200) {
		rng := dice.From(seed, 2)
		services := map[string]int{"web": 1 + rng.IntN(30), "api": 1 + rng.IntN(30), "job": rng.IntN(10)}
		m := newMember(t, services)
		m.limits.HoldSilent = time.Duration(rng.IntN(3)) * 20 * time.Second
		names := slices.Sorted(maps.Keys(services))
		ready := rng.IntN(100)
		for range 300 {
			service := names[rng.IntN(3)]
			if services[service] == 0 {
				continue
			}
			i := rng.IntN(services[service])
			switch n := rng.IntN(100); {
			case n < 80:
				m.see(service, i, rng.IntN(100) < ready, rng.IntN(2) == 0)
			case n < 84:
				m.gone(service, i)
			case n < 88:
				p := m.pod(service, i)
				p.Deleted = 9000
				m.show(p)
			case n < 89:
				m.take(m.r.Release(nil))
			case n < 91:
				ready = rng.IntN(100)
			default:
				m.pass(time.Duration(rng.IntN(5000)) * time.Millisecond)
			}
			m.check()
			if !m.r.Kept().Panic.IsZero() {
				panics++
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		for _, key := range slices.SortedFunc(maps.Keys(m.truth), syncer.Key.Compare) {
			if p := m.truth[key]; usable(&p) {
				p.Ready, p.NodeSilent, p.ReadySince = true, false, 100
				m.show(p)
			}
		}
		m.pass(2 * Window)
		m.check()
		if k := m.r.Kept(); !k.Panic.IsZero() || k.Pods != 0 || len(m.r.down)+len(m.r.recent)+len(m.r.replicas)+m.r.dropped+m.r.silent != 0 {
			t.Fatalf("seed %d: left over: %+v %+v", seed, k, m.r)
		}
	}
	if panics == 0 {
		t.Error("no panic in any of it")
	}
}
