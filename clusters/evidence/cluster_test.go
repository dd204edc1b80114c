// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"net/netip"
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// cluster is the truth that the histories are played in: a member cluster as a few
// lists. It knows nothing of the code it is held against, and is dumb on purpose.
type cluster struct {
	truth
	snapshot truth // what a restore goes back to
	// revision of the last change; it goes back with a restore.
	uids  int
	names int
	// since is what is kept of objects for rules, from when they are decoded on.
	since uint32
}

// truth is what the member's store holds.
type truth struct {
	revision uint64
	pods     []thePod
	services []theService
	manuals  []theManual
	silent   [nodes]bool
}

const (
	nodes     = 4
	namespace = "shop"
)

// thePod is a pod as it is. Values are replaced, not changed: copies are snapshots.
type thePod struct {
	name, uid, app string
	ip             int // of a small pool, so that addresses are used again
	node           int
	ready          bool
	terminating    bool
	finished       bool
	host           bool   // it has the address of its node
	marks          string // what rules go by
	revision       uint64
}

// hostIP is the address of a node.
func hostIP(node int) int { return 1000 + node }

// theService is a Service. Without app it has no selector.
type theService struct {
	name, app string
	revision  uint64
	made      int // see nextMade
}

// theManual is the hand-written Endpoints of a Service, or one of its slices.
type theManual struct {
	service  string
	slice    bool
	ips      []int
	revision uint64
	made     int
}

// nextMade tells an object from others of its name.
func (w *cluster) nextMade() int {
	w.uids++
	return w.uids
}

func (w *cluster) bump() uint64 {
	w.revision++
	return w.revision
}

// save remembers the member's store, restore puts it back.
func (w *cluster) save() { w.snapshot = w.copy() }

func (t *truth) copy() truth {
	c := *t
	c.pods, c.services, c.manuals = slices.Clone(t.pods), slices.Clone(t.services), slices.Clone(t.manuals)
	return c
}

func (w *cluster) restore() { w.truth = w.snapshot.copy() }

func address(ip int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(ip >> 8), byte(ip)}) }

// freeIP is the lowest address that no living pod has: the one that was given back
// last is likely among them.
func (w *cluster) freeIP(from int) int {
	for ip := 1 + from; ; ip++ {
		if !slices.ContainsFunc(w.pods, func(p thePod) bool { return p.ip == ip && !p.finished }) {
			return ip
		}
	}
}

// serving reports whether a pod that is not shown otherwise takes traffic.
func (p *thePod) serving() bool { return p.ready && !p.terminating && !p.finished }

// shown is the pod as an API server shows it. A silent node makes it not ready.
func (w *cluster) shown(p thePod) store.Versioned[syncer.Pod] {
	v := store.Versioned[syncer.Pod]{RV: p.revision, Kept: store.Kept{Text: p.marks, Since: w.since}, Object: syncer.Pod{
		Key: syncer.Key{Namespace: namespace, Name: p.name}, UID: p.uid, Labels: map[string]string{"app": p.app, "marks": p.marks},
		IPs: []syncer.PodIP{{Addr: address(p.ip)}}, NodeName: fmt.Sprint("n", p.node), Ready: p.ready, Terminal: p.finished, HostNetwork: p.host,
	}}
	if p.terminating {
		v.Object.Deleted = 1
	}
	if w.silent[p.node] && p.ready {
		v.Object.Ready, v.Object.NodeSilent = false, true
	}
	return v
}

func (s *theService) shown() store.Versioned[syncer.Service] {
	v := store.Versioned[syncer.Service]{RV: s.revision, Object: syncer.Service{
		Key: syncer.Key{Namespace: namespace, Name: s.name}, UID: fmt.Sprint("service-", s.name, ".", s.made), ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4},
		Ports: []syncer.ServicePort{{Name: "http", Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: 8080}}},
	}}
	v.Object.PublishNotReadyAddresses = s.name == publishing
	switch s.app {
	case "":
	case everyPod:
		v.Object.Selector = map[string]string{}
	default:
		v.Object.Selector = map[string]string{"app": s.app}
	}
	return v
}

// publishing is the Service that takes every pod for ready.
const publishing = "c"

// everyPod is the app of a Service that selects all pods.
const everyPod = "*"

var manualPort = []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 8080}}

func (m *theManual) endpoints() store.Versioned[store.Endpoints] {
	subset := syncer.Subset{Ports: manualPort}
	for _, ip := range m.ips {
		subset.Ready = append(subset.Ready, syncer.Address{Addr: address(ip)})
	}
	v := store.Versioned[store.Endpoints]{RV: m.revision, Object: store.Endpoints{Key: syncer.Key{Namespace: namespace, Name: m.service}, UID: fmt.Sprint("endpoints.", m.made)}}
	if len(m.ips) > 0 {
		v.Object.Subsets = []syncer.Subset{subset}
	}
	return v
}

func (m *theManual) endpointSlice() store.Versioned[store.Slice] {
	content := syncer.Slice{Name: m.service + "-1", Family: syncer.IPv4, Ports: manualPort}
	for _, ip := range m.ips {
		content.Endpoints = append(content.Endpoints, syncer.Endpoint{Addr: address(ip), Ready: true, Serving: true})
	}
	return store.Versioned[store.Slice]{RV: m.revision, Object: store.Slice{
		Key: syncer.Key{Namespace: namespace, Name: content.Name}, UID: fmt.Sprint("slice.", m.made), Service: m.service, Content: content}}
}

// pod returns the pod of a name, nil if there is none.
func (t *truth) pod(name string) *thePod {
	if i := slices.IndexFunc(t.pods, func(p thePod) bool { return p.name == name }); i >= 0 {
		return &t.pods[i]
	}
	return nil
}

func (t *truth) service(name string) *theService {
	if i := slices.IndexFunc(t.services, func(s theService) bool { return s.name == name }); i >= 0 {
		return &t.services[i]
	}
	return nil
}

func (t *truth) manual(service string, slice bool) *theManual {
	if i := slices.IndexFunc(t.manuals, func(m theManual) bool { return m.service == service && m.slice == slice }); i >= 0 {
		return &t.manuals[i]
	}
	return nil
}

// demanded is what a Service gives by right: addresses with the pod behind each, and
// whether they take traffic, by the rules of a configuration.
func (w *cluster) demanded(s *theService, rules store.Decider) map[endpoint]bool {
	out := map[endpoint]bool{}
	if s.app == "" {
		for _, m := range w.manuals {
			if m.service == s.name {
				for _, ip := range m.ips {
					out[endpoint{ip: ip}] = true
				}
			}
		}
		return out
	}
	for _, p := range w.pods {
		if !p.finished && (s.app == everyPod || p.app == s.app) {
			switch outcome(rules, p.marks, nil) {
			case store.Absent:
			case store.NotReady:
				out[endpoint{p.ip, p.uid}] = false
			case store.Ready:
				out[endpoint{p.ip, p.uid}] = s.name == publishing || !p.terminating
			default:
				out[endpoint{p.ip, p.uid}] = s.name == publishing || p.serving() && !w.silent[p.node]
			}
		}
	}
	return out
}

// outcome is what rules want of a pod with these marks, without those that are held.
func outcome(rules store.Decider, marks string, held func(string) bool) store.Outcome {
	if rules == nil {
		return store.Upstream
	}
	for _, d := range rules.Decide(store.Subject{Pod: store.Kept{Text: marks}}, nil) {
		if held == nil || !held(d.Rule) {
			return d.Then
		}
	}
	return store.Upstream
}

// endpoint is an address in the ingress cluster, and the pod that it is of.
type endpoint struct {
	ip  int
	uid string
}
