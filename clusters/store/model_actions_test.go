// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

func (m *model) coin() bool { return m.rng.IntN(2) == 0 }

func pick[T any](m *model, list ...T) T { return list[m.rng.IntN(len(list))] }

func (m *model) key(prefix string, n int) syncer.Key {
	return syncer.Key{Namespace: pick(m, "a", "b"), Name: fmt.Sprint(prefix, m.rng.IntN(n))}
}

// next is the revision of the next event of a kind. It leaves gaps: other kinds
// have revisions too.
func (m *model) next(rv *uint64) uint64 {
	*rv += 1 + m.rng.Uint64N(3)
	return *rv
}

func (m *model) labels() map[string]string {
	labels := map[string]string{}
	for _, k := range []string{"app", "tier", "x"} {
		if m.rng.IntN(4) > 0 {
			labels[k] = pick(m, "1", "2", "3")
		}
	}
	return labels
}

func (m *model) addr() syncer.PodIP {
	if m.rng.IntN(12) == 0 {
		return syncer.PodIP{Raw: "none"}
	}
	return syncer.PodIP{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(m.rng.IntN(20))})}
}

// pod is a random pod, or a random change of one.
func (m *model) pod(key syncer.Key) syncer.Pod {
	var p syncer.Pod
	if old := m.twin.pods[key]; old != nil {
		p = old.Pod
	} else {
		p = syncer.Pod{Key: key, UID: fmt.Sprint("u", m.rng.IntN(1000)), Labels: m.labels(), IPs: []syncer.PodIP{m.addr()}, Ready: m.coin()}
	}
	for range m.rng.IntN(3) {
		m.changePod(&p)
	}
	return p
}

func (m *model) changePod(p *syncer.Pod) {
	switch m.rng.IntN(12) {
	case 0:
		p.Labels = m.labels()
	case 1:
		p.UID = fmt.Sprint("u", m.rng.IntN(1000))
	case 2:
		p.IPs = pick(m, nil, []syncer.PodIP{m.addr()}, []syncer.PodIP{m.addr(), {Addr: netip.MustParseAddr("fd00::1")}})
	case 3:
		p.Ports = pick(m, nil, []syncer.ContainerPort{{Name: "web", Protocol: "TCP", Port: int32(m.rng.IntN(3))}})
	case 4:
		p.NodeName = pick(m, "", "n1", "n2", "n3")
	case 5:
		p.Deleted = pick[int64](m, 0, 5, 6)
	case 6:
		p.Terminal = m.rng.IntN(4) == 0
	case 7:
		p.Hostname, p.Subdomain = "h", pick(m, "", "s1", "s2")
	case 8:
		p.ReadySince = m.rng.Int64N(10)
	default:
		p.Ready = !p.Ready
	}
}

func (m *model) service(key syncer.Key) syncer.Service {
	svc := syncer.Service{Key: key, UID: "v" + fmt.Sprint(m.rng.IntN(2)), Selector: m.labels(), IPFamilies: []syncer.Family{syncer.IPv4}, ClusterIP: "10.1.1.1"}
	if old := m.twin.services[key]; old != nil {
		svc = old.Service
	}
	if m.rng.IntN(5) > 0 {
		svc.Ports = []syncer.ServicePort{{Name: "p", Protocol: "TCP", Port: 80,
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
		svc.Annotations = pick(m, nil, map[string]string{"tributary.dev/replicate": "false"},
			map[string]string{syncer.TolerateUnreadyAnnotation: "true"})
	case 7:
		svc.Labels = m.labels()
		svc.Labels["always"] = "there"
	case 8:
		svc.UID, svc.Selector = "w"+fmt.Sprint(m.rng.IntN(2)), pick(m, nil, svc.Selector)
	}
	return svc
}

// event delivers an event and remembers it as one that may come again.
func (m *model) event(deliver func() []Dirty) []Dirty {
	m.history = append(m.history, deliver)
	return deliver()
}

func (m *model) upsertPod() (string, []Dirty, flags) {
	p := Versioned[syncer.Pod]{Object: m.pod(m.key("p", 8)), RV: m.next(&m.podRV)}
	old := m.twin.pods[p.Object.Key]
	same := old != nil && old.Pod.Equal(&p.Object)
	m.twin.setPod(p.Object)
	return fmt.Sprintf("upsert pod %+v", p), m.event(func() []Dirty { return m.store.UpsertPod(p) }), flags{quiet: same}
}

func (m *model) deletePod() (string, []Dirty, flags) {
	p := Versioned[syncer.Pod]{Object: syncer.Pod{Key: m.key("p", 8)}, RV: m.next(&m.podRV)}
	delete(m.twin.pods, p.Object.Key)
	return fmt.Sprint("delete pod ", p.Object.Key), m.event(func() []Dirty { return m.store.deletePod(p) }), flags{}
}

func (m *model) upsertService() (string, []Dirty, flags) {
	v := Versioned[syncer.Service]{Object: m.service(m.key("s", 4)), RV: m.next(&m.serviceRV)}
	m.twin.setService(v.Object)
	return fmt.Sprintf("upsert service %+v", v), m.event(func() []Dirty { return m.store.UpsertService(v) }), flags{}
}

func (m *model) deleteService() (string, []Dirty, flags) {
	v := Versioned[syncer.Service]{Object: syncer.Service{Key: m.key("s", 4)}, RV: m.next(&m.serviceRV)}
	delete(m.twin.services, v.Object.Key)
	return fmt.Sprint("delete service ", v.Object.Key), m.event(func() []Dirty { return m.store.deleteService(v) }), flags{}
}

// again delivers an event that came before.
func (m *model) again() (string, []Dirty, flags) {
	if len(m.history) == 0 {
		return "nothing", nil, flags{quiet: true}
	}
	return "an old event", pick(m, m.history...)(), flags{quiet: true}
}

// revision is that of a list: the present, or an earlier time after a restore.
func (m *model) revision(rv *uint64) (at uint64, older bool) {
	m.history = nil
	if older = m.rng.IntN(4) == 0; older {
		*rv -= 500
	}
	return m.next(rv), older
}

func (m *model) replacePods() (string, []Dirty, flags) {
	rv, older := m.revision(&m.podRV)
	var list []Versioned[syncer.Pod]
	absent := map[syncer.Key]bool{}
	for _, key := range slices.SortedFunc(maps.Keys(m.twin.pods), syncer.Key.Compare) {
		if m.rng.IntN(4) == 0 {
			absent[key] = true
			continue
		}
		p := m.pod(key)
		m.twin.setPod(p)
		list = append(list, Versioned[syncer.Pod]{Object: p, RV: rv - 1})
	}
	for range m.rng.IntN(3) {
		if key := m.key("p", 8); m.twin.pods[key] == nil {
			p := m.pod(key)
			m.twin.setPod(p)
			list = append(list, Versioned[syncer.Pod]{Object: p, RV: rv - 1})
		}
	}
	holdAll := m.coin()
	keep := func(p *syncer.Pod) bool { return holdAll || p.Name < "p4" }
	for key := range absent {
		if holdAll || key.Name < "p4" {
			m.twin.pods[key].held = true
		} else {
			delete(m.twin.pods, key)
		}
	}
	return fmt.Sprint("replace pods, absent ", absent), m.store.replacePods(list, rv, older, keep), flags{}
}

func (m *model) replaceServices() (string, []Dirty, flags) {
	rv, older := m.revision(&m.serviceRV)
	var list []Versioned[syncer.Service]
	holdAll := m.coin()
	for _, key := range slices.SortedFunc(maps.Keys(m.twin.services), syncer.Key.Compare) {
		if m.rng.IntN(4) == 0 {
			if holdAll {
				m.twin.services[key].held = true
			} else {
				delete(m.twin.services, key)
			}
			continue
		}
		svc := m.service(key)
		m.twin.setService(svc)
		list = append(list, Versioned[syncer.Service]{Object: svc, RV: rv - 1})
	}
	dirty := m.store.replaceServices(list, rv, older, func(*syncer.Service) bool { return holdAll })
	return "replace services", dirty, flags{}
}

// keepFor has what is held of a name kept for one replica alone.
func (m *model) keepFor() (string, []Dirty, flags) {
	name, dirty := pick(m, "p1", "p2", "p3", "p4"), []Dirty(nil)
	var in []syncer.Key
	if all := m.store.Replicas(); len(all) > 0 {
		in = append(in, pick(m, all...))
	}
	for key, p := range m.twin.pods {
		if !p.held || key.Name != name {
			continue
		}
		keptFor := map[syncer.Key]bool{}
		for service, svc := range m.twin.services {
			replica, placed := m.twin.placement(&svc.Service)
			if placed && !svc.ExternalName && slices.Contains(in, replica) && svc.selects(&p.Pod) {
				keptFor[service] = true
			}
		}
		if p.keptFor = keptFor; len(keptFor) == 0 {
			delete(m.twin.pods, key)
		}
		dirty = append(dirty, m.store.KeepPod(key, in)...)
	}
	slices.SortFunc(dirty, sortDirty) // those of several pods, one after another
	return fmt.Sprint("keep ", name, " for ", in), dirty, flags{}
}

// releaseHeld lets go of what is held of a name.
func (m *model) releaseHeld() (string, []Dirty, flags) {
	name := pick(m, "p1", "p2", "s1", "s2")
	var dirty []Dirty
	for key, p := range m.twin.pods {
		if p.held && key.Name == name {
			delete(m.twin.pods, key)
			dirty = append(dirty, m.store.RemovePod(key)...)
		}
	}
	for key, svc := range m.twin.services {
		if svc.held && key.Name == name {
			delete(m.twin.services, key)
			dirty = append(dirty, m.store.RemoveService(key)...)
		}
	}
	return "release " + name, dirty, flags{}
}

// zone changes the zone of a node. A list keeps that of nodes where pods are.
func (m *model) zone() (string, []Dirty, flags) {
	n := Node{Name: pick(m, "n1", "n2"), Zone: pick(m, "", "z1", "z2")}
	replace := m.coin()
	if replace {
		used := map[string]bool{}
		for _, p := range m.twin.pods {
			used[p.NodeName] = true
		}
		maps.DeleteFunc(m.twin.zones, func(name, _ string) bool { return !used[name] })
	}
	delete(m.twin.zones, n.Name)
	if n.Zone != "" {
		m.twin.zones[n.Name] = n.Zone
	}
	if replace {
		dirty, _ := m.store.ReplaceNodes([]Versioned[Node]{{Object: n}}, true)
		return "replace nodes", dirty, flags{}
	}
	return fmt.Sprint("node ", n), m.store.SetNode(n), flags{}
}

// write changes hand-written endpoints.
func (m *model) write() (string, []Dirty, flags) {
	key := m.key("s", 4)
	w := m.twin.writing(key)
	defer m.twin.noteKnown(key)
	switch m.rng.IntN(7) {
	case 0:
		v := Versioned[Slice]{Object: m.slice(key), RV: m.next(&m.writtenRV)}
		m.twin.disown(v.Object.Key)
		w.slices[v.Object.Name] = v.Object
		return fmt.Sprintf("slice %+v", v), m.event(func() []Dirty { return m.store.UpsertSlice(v) }), flags{}
	case 1:
		m.history = nil
		w.hasSlices, w.slices = true, map[string]Slice{}
		return fmt.Sprint("no slices ", key), m.store.replaceSlices(key, nil, m.next(&m.writtenRV)), flags{}
	case 2:
		v := Versioned[Slice]{Object: m.slice(key), RV: m.next(&m.writtenRV)}
		m.history = nil
		m.twin.disown(v.Object.Key)
		w.hasSlices, w.slices = true, map[string]Slice{v.Object.Name: v.Object}
		return fmt.Sprintf("slices %+v", v), m.store.replaceSlices(key, []Versioned[Slice]{v}, m.next(&m.writtenRV)), flags{}
	case 3:
		v := Versioned[Slice]{Object: m.slice(key), RV: m.next(&m.writtenRV)}
		m.twin.disown(v.Object.Key)
		return fmt.Sprintf("delete slice %+v", v), m.event(func() []Dirty { return m.store.deleteManual(ManualObject{v.Object.ServiceKey(), v.Object.Name}, v.RV) }), flags{}
	case 4:
		v := Versioned[Endpoints]{Object: Endpoints{Key: key}, RV: m.next(&m.writtenRV)}
		w.endpoints = nil
		return fmt.Sprintf("delete endpoints %+v", v), m.event(func() []Dirty { return m.store.deleteManual(ManualObject{Service: v.Object.Key}, v.RV) }), flags{}
	case 5:
		v := Versioned[Endpoints]{Object: m.endpoints(key), RV: m.next(&m.writtenRV)}
		m.history = nil
		w.endpoints, w.hasEndpoints = &v.Object, true
		return fmt.Sprintf("endpoints are %+v", v), m.store.replaceEndpoints(key, &v, m.next(&m.writtenRV)), flags{}
	default:
		v := Versioned[Endpoints]{Object: m.endpoints(key), RV: m.next(&m.writtenRV)}
		w.endpoints = &v.Object
		return fmt.Sprintf("endpoints %+v", v), m.event(func() []Dirty { return m.store.UpsertEndpoints(v) }), flags{}
	}
}

// disown takes a slice from whichever Service has it: it can be in one alone.
func (t *twin) disown(slice syncer.Key) {
	for service, w := range t.written {
		if service.Namespace == slice.Namespace {
			delete(w.slices, slice.Name)
		}
	}
}

func (m *model) endpoints(key syncer.Key) Endpoints {
	subset := syncer.Subset{Ports: []syncer.Port{{Name: "p", Protocol: "TCP", Number: 80}}}
	for range m.rng.IntN(3) {
		subset.Ready = append(subset.Ready, syncer.Address{Addr: m.addr().Addr})
	}
	for range m.rng.IntN(3) {
		subset.NotReady = append(subset.NotReady, syncer.Address{Addr: m.addr().Addr})
	}
	return Endpoints{Key: key, Subsets: []syncer.Subset{subset}, SkipMirror: m.rng.IntN(4) == 0}
}

func (m *model) slice(key syncer.Key) Slice {
	name := fmt.Sprint("sl", m.rng.IntN(3))
	s := Slice{Key: syncer.Key{Namespace: key.Namespace, Name: name}, Service: key.Name, Derived: m.rng.IntN(4) == 0}
	s.Content = syncer.Slice{Name: name, Family: syncer.IPv4, Ports: []syncer.Port{{Name: "p", Protocol: "TCP", Number: 81}}}
	for range m.rng.IntN(3) {
		s.Content.Endpoints = append(s.Content.Endpoints, syncer.Endpoint{Addr: m.addr().Addr, Ready: m.coin()})
	}
	return s
}
