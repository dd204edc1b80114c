// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store with words for what happens to it.
type world struct {
	*Store
	t  *testing.T
	rv uint64
}

func newWorld(t *testing.T) *world {
	w := &world{Store: New(Options{Placement: everywhere}), t: t, rv: 100}
	t.Cleanup(func() {
		if err := w.check(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func in(name string) syncer.Key { return syncer.Key{Namespace: "shop", Name: name} }

// aPod is a ready pod with the label app and an address of its own.
func aPod(name, app string, last byte) syncer.Pod {
	return syncer.Pod{Key: in(name), UID: "uid-" + name, Labels: map[string]string{"app": app}, Ready: true, ReadySince: int64(last),
		IPs: []syncer.PodIP{{Addr: netip.AddrFrom4([4]byte{10, 0, 0, last})}}}
}

func aService(name, app string) syncer.Service {
	return syncer.Service{Key: in(name), UID: "uid-" + name, Created: 1, Selector: map[string]string{"app": app},
		ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4},
		Ports: []syncer.ServicePort{{Protocol: "TCP", Port: 80, Target: syncer.TargetPort{Number: 8080}}}}
}

func (w *world) next() uint64 { w.rv++; return w.rv }

func (w *world) upsert(p syncer.Pod) []Dirty {
	return w.UpsertPod(Versioned[syncer.Pod]{Object: p, RV: w.next()})
}

func (w *world) serve(svc syncer.Service) []Dirty {
	return w.UpsertService(Versioned[syncer.Service]{Object: svc, RV: w.next()})
}

// addresses are the last octets of a replica's ready endpoints.
func (w *world) addresses(replica syncer.Key) []int {
	w.t.Helper()
	var found []int
	for _, c := range w.Peek(replica) {
		for _, e := range c.Endpoints {
			if e.Ready {
				found = append(found, int(e.Addr.As4()[3]))
			}
		}
	}
	slices.Sort(found)
	return found
}

func (w *world) expect(replica syncer.Key, want ...int) {
	w.t.Helper()
	if got := w.addresses(replica); !slices.Equal(got, want) {
		w.t.Errorf("%s has %v, want %v", replica, got, want)
	}
}

func (w *world) dirty(what string, got []Dirty, want ...Dirty) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: dirty %v, want %v", what, got, want)
	}
}

func change(name string, effect syncer.Effect) Dirty {
	return Dirty{Replica: in(name), Source: in(name), Effect: effect}
}

func TestPodsAndServicesInEitherOrder(t *testing.T) {
	w := newWorld(t)
	w.dirty("a pod that nobody selects", w.upsert(aPod("p1", "web", 1)))
	w.dirty("its Service", w.serve(aService("web", "web")), change("web", syncer.Addition))
	w.expect(in("web"), 1)
	w.dirty("a second pod", w.upsert(aPod("p2", "web", 2)), change("web", syncer.Addition))
	w.expect(in("web"), 1, 2)
	w.dirty("another namespace's pod", w.upsert(func() syncer.Pod { p := aPod("p1", "web", 3); p.Namespace = "else"; return p }()))
	w.dirty("a pod of another application", w.upsert(aPod("p4", "api", 4)))
	w.expect(in("web"), 1, 2)
}

func TestLabelsMoveAPodBetweenServices(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.serve(aService("api", "api"))
	w.upsert(aPod("p", "web", 1))
	w.dirty("relabelled", w.upsert(aPod("p", "api", 1)), change("web", syncer.Removal), change("api", syncer.Addition))
	w.expect(in("web"))
	w.expect(in("api"), 1)
	p := aPod("p", "api", 1)
	p.Labels["irrelevant"] = "label"
	w.dirty("a label that no selector asks for", w.upsert(p))
	w.expect(in("api"), 1)
}

func TestSelectorMovesAServiceBetweenPods(t *testing.T) {
	w := newWorld(t)
	w.upsert(aPod("p1", "web", 1))
	w.upsert(aPod("p2", "api", 2))
	w.serve(aService("s", "web"))
	w.dirty("another selector", w.serve(aService("s", "api")), change("s", syncer.Removal))
	w.expect(in("s"), 2)
	all := aService("s", "")
	all.Selector = map[string]string{}
	w.serve(all)
	w.expect(in("s"), 1, 2)
}

func TestRecreateHiddenInAnUpdateIsARemoval(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.upsert(aPod("p", "web", 1))
	p := aPod("p", "web", 1)
	p.UID = "another"
	w.dirty("another pod of that name", w.upsert(p), change("web", syncer.Removal))
	svc := aService("web", "web")
	svc.UID = "another"
	w.dirty("another Service of that name", w.serve(svc), change("web", syncer.Removal))
}

func TestServiceDeletedWithPodsLeft(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.upsert(aPod("p", "web", 1))
	w.dirty("deleted", w.deleteService(Versioned[syncer.Service]{Object: aService("web", "web"), RV: w.next()}), change("web", syncer.Removal))
	w.dirty("its pods go", w.deletePod(Versioned[syncer.Pod]{Object: aPod("p", "web", 1), RV: w.next()}))
	if got := w.Contributions(in("web")); got != nil {
		t.Errorf("%v contributes", got)
	}
}

// TestServiceEffects names the lane of each change of a Service.
func TestServiceEffects(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*syncer.Service)
		want   []Dirty
	}{
		{"nothing", func(*syncer.Service) {}, nil},
		{"labels", func(s *syncer.Service) { s.Labels = map[string]string{"a": "b"} }, []Dirty{change("s", syncer.Addition)}},
		{"annotations", func(s *syncer.Service) { s.Annotations = map[string]string{"a": "b"} }, []Dirty{change("s", syncer.Addition)}},
		{"creation", func(s *syncer.Service) { s.Created = 9 }, []Dirty{change("s", syncer.Addition)}},
		{"port", func(s *syncer.Service) { s.Ports[0].Port = 81 }, []Dirty{change("s", syncer.Removal)}},
		{"app protocol", func(s *syncer.Service) { s.Ports[0].AppProtocol = new("h2c") }, []Dirty{change("s", syncer.Removal)}},
		{"not-ready addresses", func(s *syncer.Service) { s.PublishNotReadyAddresses = true }, []Dirty{change("s", syncer.Removal)}},
		{"family", func(s *syncer.Service) { s.IPFamilies = nil }, []Dirty{change("s", syncer.Removal)}},
		{"cluster IP", func(s *syncer.Service) { s.ClusterIP = "None" }, []Dirty{change("s", syncer.Removal)}},
		{"external name", func(s *syncer.Service) { s.ExternalName = true }, []Dirty{change("s", syncer.Removal)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(aService("s", "web"))
			svc := aService("s", "web")
			test.change(&svc)
			w.dirty(test.name, w.serve(svc), test.want...)
			w.dirty("again", w.serve(svc))
		})
	}
}

func TestAppProtocolIsComparedByValue(t *testing.T) {
	w := newWorld(t)
	svc := aService("s", "web")
	svc.Ports[0].AppProtocol = new("h2c")
	w.serve(svc)
	svc.Ports = slices.Clone(svc.Ports)
	svc.Ports[0].AppProtocol = new("h2c")
	w.dirty("another pointer", w.serve(svc))
}

func TestOldAndRepeatedEventsAreIgnored(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	at := func(rv uint64, ready bool) Versioned[syncer.Pod] {
		p := aPod("p", "web", 1)
		p.Ready = ready
		return Versioned[syncer.Pod]{Object: p, RV: rv}
	}
	outdated := func(want bool, rv uint64) {
		t.Helper()
		if got := w.PodOutdated(at(rv, true)); got != want {
			t.Errorf("an event of revision %d is outdated: %v, want %v", rv, got, want)
		}
	}
	w.UpsertPod(at(200, true))
	outdated(false, 200)
	outdated(true, 199)
	w.dirty("repeated", w.UpsertPod(at(200, true)))
	w.dirty("older", w.UpsertPod(at(199, false)))
	w.dirty("an old deletion", w.deletePod(at(150, false)))
	w.expect(in("web"), 1)
	w.deletePod(at(210, true))
	outdated(true, 210)
	outdated(false, 211)
	outdated(false, 0)
	w.dirty("an old creation after the deletion", w.UpsertPod(at(200, true)))
	w.expect(in("web"))
	w.dirty("created again", w.UpsertPod(at(211, true)), change("web", syncer.Addition))
	w.dirty("revision that is no number", w.UpsertPod(at(0, false)), change("web", syncer.Removal))
	if got := w.Stats().OutdatedPods; got != 5 {
		t.Errorf("%d outdated events, want 5", got)
	}
}

// Where each namespace has a stream of its own, what one says of the past of its namespace
// says nothing of what another has yet to tell.
func TestStreamsOfNamespacesAreNotInStep(t *testing.T) {
	outdated := func(s *Store, namespace string, rv uint64) bool {
		pod := aPod("p", "web", 1)
		pod.Namespace = namespace
		svc := aService("web", "web")
		svc.Namespace = namespace
		old := s.PodOutdated(Versioned[syncer.Pod]{Object: pod, RV: rv})
		if s.ServiceOutdated(Versioned[syncer.Service]{Object: svc, RV: rv}) != old {
			t.Errorf("revision %d in %s: pods and Services differ", rv, namespace)
		}
		return old
	}
	remove := func(s *Store, namespace string, rv uint64) {
		key := syncer.Key{Namespace: namespace, Name: "gone"}
		s.DeletePod(Versioned[syncer.Pod]{Object: syncer.Pod{Key: key}, RV: rv})
		s.DeleteService(Versioned[syncer.Service]{Object: syncer.Service{Key: key}, RV: rv})
	}
	for _, test := range []struct {
		what string
		then func(s *Store)
		// east and west are the highest revisions that are old there.
		east, west uint64
	}{
		{"a deletion", func(*Store) {}, 200, 100},
		{"a list of both", func(s *Store) { s.BeginPods(150, false); s.BeginServices(150, false) }, 200, 150},
		{"a newer list", func(s *Store) { s.BeginPods(300, false); s.BeginServices(300, false) }, 300, 300},
		{"a restored store", func(s *Store) { s.BeginPods(50, true); s.BeginServices(50, true) }, 50, 50},
		{"deletions in more namespaces than have streams", func(s *Store) {
			for i := range uint64(mostDeleted) {
				remove(s, fmt.Sprint("ns-", i), 200+i)
			}
		}, 199 + mostDeleted, 199 + mostDeleted},
	} {
		t.Run(test.what, func(t *testing.T) {
			s := New(Options{})
			s.BeginPods(100, false)
			s.BeginServices(100, false)
			remove(s, "east", 200)
			test.then(s)
			for namespace, old := range map[string]uint64{"east": test.east, "west": test.west} {
				if !outdated(s, namespace, old) || outdated(s, namespace, old+1) {
					t.Errorf("%s: revisions up to %d must be old", namespace, old)
				}
			}
		})
	}
}

func TestPlacement(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.serve(aService("api", "web"))
	w.upsert(aPod("p", "web", 1))
	joint := in("joint")
	w.dirty("joined", w.SetPlacement(func(*syncer.Service) (syncer.Key, bool) { return joint, true }),
		change("api", syncer.Removal), change("web", syncer.Removal),
		Dirty{joint, in("api"), syncer.Addition}, Dirty{joint, in("web"), syncer.Addition})
	if got := w.Sources(joint); !slices.Equal(got, []syncer.Key{in("api"), in("web")}) {
		t.Errorf("sources %v", got)
	}
	if got := w.Contributions(joint); len(got) != 2 || got[0].Source != in("api") {
		t.Errorf("contributions %v", got)
	}
	if got := w.ReplicasOf(in("p")); !slices.Equal(got, []syncer.Key{joint}) {
		t.Errorf("replicas of the pod %v", got)
	}
	w.dirty("the same again", w.SetPlacement(func(*syncer.Service) (syncer.Key, bool) { return joint, true }))
	w.dirty("nowhere", w.SetPlacement(func(*syncer.Service) (syncer.Key, bool) { return syncer.Key{}, false }),
		Dirty{joint, in("api"), syncer.Removal}, Dirty{joint, in("web"), syncer.Removal})
	if got := w.Replicas(); len(got) != 0 {
		t.Errorf("replicas %v", got)
	}
	w.dirty("a pod of Services that are not placed", w.upsert(aPod("p2", "web", 2)))
}

func TestZones(t *testing.T) {
	w := newWorld(t)
	listed := func(nodes ...Versioned[Node]) []Dirty {
		dirty, _ := w.ReplaceNodes(nodes, true)
		return dirty
	}
	w.serve(aService("web", "web"))
	p := aPod("p", "web", 1)
	p.NodeName = "n1"
	w.upsert(p)
	zone := func() string { return w.Peek(in("web"))[0].Endpoints[0].Zone }
	w.dirty("a node without pods", w.SetNode(Node{"n2", "z"}))
	w.dirty("a zone", w.SetNode(Node{"n1", "z"}), change("web", syncer.Addition))
	w.dirty("the same zone", w.SetNode(Node{"n1", "z"}))
	if zone() != "z" {
		t.Errorf("zone %q", zone())
	}
	w.dirty("a list that says the same", listed(Versioned[Node]{Object: Node{"n1", "z"}}))
	w.dirty("a list without it, while its pods are there", listed())
	if zone() != "z" {
		t.Errorf("zone %q", zone())
	}
}

// TestHandedOutValuesStay checks that an update replaces what was handed out.
func TestHandedOutValuesStay(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.upsert(aPod("p", "web", 1))
	before, contribution := w.Pod(in("p")), w.Peek(in("web"))
	p := aPod("p", "web", 2)
	p.Labels = map[string]string{"app": "api"}
	w.upsert(p)
	if want := aPod("p", "web", 1); !before.Equal(&want) {
		t.Errorf("handed out pod is now %+v", before)
	}
	if contribution[0].Endpoints[0].Addr != netip.MustParseAddr("10.0.0.1") {
		t.Error("handed out contribution changed")
	}
	if w.Pod(in("none")) != nil || w.Service(in("none")) != nil || w.ReplicasOf(in("none")) != nil {
		t.Error("found what is not there")
	}
	if len(w.Pods()) != 1 || w.Service(in("web")).UID != "uid-web" {
		t.Error("did not find what is there")
	}
}

// TestNothingIsLeftBehind checks that all that is shared goes with its last user.
func TestNothingIsLeftBehind(t *testing.T) {
	s := filled(5, 5)
	for range 3 {
		for _, p := range s.Pods() {
			s.DeletePod(Versioned[syncer.Pod]{Object: *p})
		}
		for _, replica := range s.Replicas() {
			s.DeleteService(Versioned[syncer.Service]{Object: syncer.Service{Key: replica}})
		}
		left := []int{len(s.namespaces), len(s.replicas), len(s.nodes), len(s.strings), len(s.ports), s.Stats().Pods, s.Stats().Services}
		if !reflect.DeepEqual(left, make([]int, len(left))) {
			t.Fatalf("left: %v", left)
		}
		for n := range 5 {
			s.UpsertPod(Versioned[syncer.Pod]{Object: somePod(n, n)})
			s.UpsertService(Versioned[syncer.Service]{Object: someService(n)})
		}
	}
}

func TestServiceOfFewPairs(t *testing.T) {
	w := newWorld(t)
	const services = 300
	for i := range services {
		svc := aService(fmt.Sprint("s", i), "")
		svc.Selector = map[string]string{"a-part-of": "shop", "name": fmt.Sprint(i), "tier": "web"}
		w.serve(svc)
	}
	for _, ki := range w.namespaces["shop"].keys {
		for value, b := range ki.buckets {
			if len(b.services) > 2 {
				t.Errorf("%d Services are filed under the value %q, which does not tell them apart", len(b.services), value)
			}
		}
	}
	p := aPod("p", "", 1)
	p.Labels = map[string]string{"a-part-of": "shop", "name": "7", "tier": "web", "more": "x"}
	w.dirty("a pod of one of them", w.upsert(p), change("s7", syncer.Addition))
}

// TestGroupsOfOneHash checks the chain of groups that a hash does not tell apart.
func TestGroupsOfOneHash(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
		ns := newNamespace("shop")
		groups := make([]*group, 3)
		for i := range groups {
			groups[i] = &group{labels: map[string]string{"app": fmt.Sprint(i)}, hash: 7}
			ns.addGroup(groups[i])
		}
		for removed, i := range order {
			ns.removeGroup(groups[i])
			for _, g := range groups {
				want := g
				if slices.Contains(order[:removed+1], slices.Index(groups, g)) {
					want = nil
				}
				if ns.find(7, g.labels, nil) != want {
					t.Errorf("order %v: group %v is wrong after %d removals", order, g.labels, removed+1)
				}
			}
		}
		if len(ns.groups) != 0 {
			t.Errorf("order %v: groups are left", order)
		}
	}
}

func everywhere(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true }

// somePod is pod n of an application.
func somePod(app, n int) syncer.Pod {
	return syncer.Pod{
		Key: syncer.Key{Namespace: "shop", Name: fmt.Sprintf("app-%d-%d", app, n)}, UID: fmt.Sprintf("uid-%d-%d", app, n),
		Labels: map[string]string{"app": fmt.Sprint(app), "team": "payments"}, NodeName: fmt.Sprint("node-", n), Subdomain: "db", Ready: true,
		IPs:   []syncer.PodIP{{Addr: netip.AddrFrom4([4]byte{10, 0, byte(app), byte(n)})}},
		Ports: []syncer.ContainerPort{{Name: "http", Protocol: syncer.TCP, Port: 80}},
	}
}

func someService(app int) syncer.Service {
	return syncer.Service{Key: syncer.Key{Namespace: "shop", Name: fmt.Sprint("app-", app)}, Selector: map[string]string{"app": fmt.Sprint(app), "team": "payments"}}
}

// filled returns a store with apps applications of size pods in one namespace.
func filled(apps, size int) *Store {
	s := New(Options{Placement: everywhere})
	for app := range apps {
		s.UpsertService(Versioned[syncer.Service]{Object: someService(app)})
		for n := range size {
			s.UpsertPod(Versioned[syncer.Pod]{Object: somePod(app, n)})
		}
	}
	return s
}
