// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store with helpers for what happens to it.
type world struct {
	*Store
	t        *testing.T
	revision uint64
	now      time.Time
}

func newWorld(t *testing.T, o Options) *world {
	w := &world{Store: New(o), t: t, revision: 100}
	t.Cleanup(func() {
		if err := w.check(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func in(name string) syncer.Key { return syncer.Key{Namespace: "shop", Name: name} }

func podUID(n byte) string { return fmt.Sprintf("%08d-1b4e-4c2a-9f3d-0123456789ab", n) }

// aPod is a ready pod with the label app and an address of its own.
func aPod(name, app string, last byte) syncer.Pod {
	return syncer.Pod{Key: in(name), UID: podUID(last), Labels: syncer.Labels("app=" + app), Ready: true, ReadySince: int64(last),
		IPs: []syncer.PodIP{{Addr: netip.AddrFrom4([4]byte{10, 0, 0, last})}}}
}

func aService(name, app string) syncer.Service {
	return syncer.Service{Key: in(name), UID: "uid-" + name, Created: 1, Selector: map[string]string{"app": app},
		ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4},
		Ports: []syncer.ServicePort{{Protocol: "TCP", Port: 80, Target: syncer.TargetPort{Number: 8080}}}}
}

func handMade(name string) syncer.Service {
	svc := aService(name, "")
	svc.Selector = nil
	return svc
}

func (w *world) next() uint64 { w.revision++; return w.revision }

func (w *world) pod(p syncer.Pod) []Dirty {
	return w.SetPod(Versioned[syncer.Pod]{Object: p, Revision: w.next()})
}

func (w *world) serve(svc syncer.Service) []Dirty {
	return w.SetService(Versioned[syncer.Service]{Object: svc, Revision: w.next()})
}

// expect compares a replica's endpoints: the last octet of the address, and the grade unless
// it is ready.
func (w *world) expect(name, want string) {
	w.t.Helper()
	c, _ := w.Contribution(in(name), w.now)
	var found []string
	for _, e := range c.Endpoints {
		text := fmt.Sprint(e.Addr.As4()[3])
		if e.Grade != syncer.Ready {
			text += " " + e.Grade.String()
		}
		found = append(found, text)
	}
	if got := strings.Join(found, ", "); got != want {
		w.t.Errorf("%s has %q, want %q", name, got, want)
	}
}

func (w *world) dirty(what string, got []Dirty, want ...Dirty) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: dirty %v, want %v", what, got, want)
	}
}

func change(name string, effect syncer.Effect) Dirty { return Dirty{in(name), effect} }

func TestPodsAndServicesInEitherOrder(t *testing.T) {
	w := newWorld(t, Options{})
	w.dirty("a pod that nobody selects", w.pod(aPod("p1", "web", 1)))
	w.dirty("its Service", w.serve(aService("web", "web")), change("web", syncer.Addition))
	w.expect("web", "1")
	w.dirty("a second pod", w.pod(aPod("p2", "web", 2)), change("web", syncer.Addition))
	elsewhere := aPod("p1", "web", 3)
	elsewhere.Namespace = "else"
	w.dirty("another namespace's pod", w.pod(elsewhere))
	w.dirty("a pod of another application", w.pod(aPod("p4", "api", 4)))
	w.expect("web", "1, 2")
	w.dirty("the Service goes", w.RemoveService(in("web")), change("web", syncer.Removal))
	w.dirty("a pod goes", w.RemovePod(in("p1")))
	if _, ok := w.Contribution(in("web"), w.now); ok {
		t.Error("a Service that is gone contributes")
	}
}

func TestLabelsMoveAPodBetweenServices(t *testing.T) {
	w := newWorld(t, Options{})
	w.serve(aService("web", "web"))
	w.serve(aService("api", "api"))
	w.pod(aPod("p", "web", 1))
	w.dirty("relabelled", w.pod(aPod("p", "api", 1)), change("web", syncer.Removal), change("api", syncer.Addition))
	w.expect("web", "")
	w.expect("api", "1")
	p := aPod("p", "api", 1)
	p.Labels += ",irrelevant=label"
	w.dirty("a label that no selector asks for", w.pod(p))
	w.expect("api", "1")
}

func TestAnotherObjectOfANameIsARemoval(t *testing.T) {
	w := newWorld(t, Options{})
	w.serve(aService("web", "web"))
	w.pod(aPod("p", "web", 1))
	p := aPod("p", "web", 1)
	p.UID = "another"
	w.dirty("another pod of that name", w.pod(p), change("web", syncer.Removal))
	svc := aService("web", "web")
	svc.UID = "another"
	w.dirty("another Service of that name", w.serve(svc), change("web", syncer.Removal))
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
		{"app protocol", func(s *syncer.Service) { s.Ports[0].AppProtocol = syncer.AppProtocol{} }, []Dirty{change("s", syncer.Removal)}},
		{"not-ready addresses", func(s *syncer.Service) { s.PublishNotReadyAddresses = true }, []Dirty{change("s", syncer.Removal)}},
		{"family", func(s *syncer.Service) { s.IPFamilies = nil }, []Dirty{change("s", syncer.Removal)}},
		{"cluster IP", func(s *syncer.Service) { s.ClusterIP = "None" }, []Dirty{change("s", syncer.Removal)}},
		{"selector", func(s *syncer.Service) { s.Selector = map[string]string{"app": "api"} }, []Dirty{change("s", syncer.Removal)}},
		{"no selector", func(s *syncer.Service) { s.Selector = nil }, []Dirty{change("s", syncer.Removal)}},
		{"external name", func(s *syncer.Service) { s.ExternalName = true }, []Dirty{change("s", syncer.Removal)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, Options{})
			made := func() syncer.Service {
				svc := aService("s", "web")
				svc.Ports[0].AppProtocol = syncer.AppProtocol{Value: "h2c", Set: true}
				return svc
			}
			w.serve(made())
			svc := made()
			test.change(&svc)
			w.dirty(test.name, w.serve(svc), test.want...)
			w.dirty("again", w.serve(svc))
		})
	}
}

// TestRevisionsAreNotCompared: what is set is stored, at its revision.
func TestRevisionsAreNotCompared(t *testing.T) {
	w := newWorld(t, Options{})
	for _, want := range []uint64{300, 20, 0} {
		w.SetPod(Versioned[syncer.Pod]{Object: aPod("p", "web", byte(want)), Revision: want})
		w.SetService(Versioned[syncer.Service]{Object: handMade("db"), Revision: want})
		w.SetEndpoints(written("db", want, byte(want)))
		w.SetSlice(writtenSlice("db", "db-x", want))
		held := func(kind string, revision uint64, ok bool) {
			t.Helper()
			if revision != want || !ok {
				t.Errorf("%s is stored at %d, want %d", kind, revision, want)
			}
		}
		_, at, ok := w.Endpoints(in("db"))
		held("Endpoints", at, ok)
		_, at, ok = w.Slice(in("db-x"))
		held("slice", at, ok)
		_, at, ok = w.Pod(in("p"))
		held("pod", at, ok)
		_, at, ok = w.Service(in("db"))
		held("Service", at, ok)
		w.expect("db", fmt.Sprint(byte(want)))
	}
	if !w.HasService(in("db")) || w.HasService(in("p")) {
		t.Error("another Service is there")
	}
}

// TestWasReady: a pod that became not ready is in doubt when it is ready again, as long as its
// UID is the same.
func TestWasReady(t *testing.T) {
	w := newWorld(t, Options{Syncer: syncer.Options{StableFor: 30 * time.Second}})
	w.serve(aService("web", "web"))
	at := func(second int64, ready bool, uid string) {
		p := aPod("p", "web", 1)
		p.Ready, p.ReadySince, p.UID = ready, second, uid
		w.pod(p)
		w.now = time.Unix(second, 0)
	}
	at(1000, false, "a")
	at(1010, true, "a")
	w.expect("web", "1") // its first time
	at(1020, false, "a")
	w.expect("web", "1 not_ready")
	at(1030, true, "a")
	w.expect("web", "1 reserve")
	c, _ := w.Contribution(in("web"), w.now)
	if want := time.Unix(1060, 0); !c.Next.Equal(want) {
		t.Errorf("changes at %v, want %v", c.Next, want)
	}
	w.now = c.Next
	w.expect("web", "1")
	at(1070, true, "a")
	w.expect("web", "1 reserve") // that it was not ready in between was not seen
	at(1080, true, "b")
	w.expect("web", "1") // another pod
	at(1090, false, "b")
	w.RemovePod(in("p"))
	at(1100, true, "b")
	w.expect("web", "1")
	p := aPod("q", "web", 2)
	p.WasReady = true
	w.pod(p)
	if held, _, _ := w.Pod(in("q")); !held.WasReady {
		t.Error("what the caller knows is lost")
	}
}

func TestConfigure(t *testing.T) {
	w := newWorld(t, Options{})
	w.serve(aService("web", "web"))
	w.serve(aService("api", "web"))
	p := aPod("p", "web", 1)
	p.Matches = 1
	w.pod(p)
	only := Options{Replicate: func(svc *syncer.Service) bool { return svc.Name == "web" },
		Rules: func(*syncer.Service) syncer.Rules {
			return syncer.Rules{Applies: 1, Then: []syncer.Then{syncer.ThenNotReady}}
		}}
	w.Configure(only)
	w.expect("api", "")
	w.expect("web", "1 reserve")
	w.Configure(Options{})
	w.expect("api", "1")
	contributes := func(replica, pod, addr string) bool {
		e := syncer.Endpoint{Addr: netip.MustParseAddr(addr), Target: syncer.TargetRef{Kind: "Pod", Key: in(pod), UID: p.UID}}
		return w.Contributes(in(replica), &e, w.now)
	}
	addr := p.IPs[0].Addr.String()
	if !contributes("api", "p", addr) || contributes("api", "p", "fd00::1") || contributes("api", "q", addr) || contributes("other", "p", addr) {
		t.Error("it contributes something else")
	}
}

// TestEndpoint: what is asked for when it is missing.
func TestEndpoint(t *testing.T) {
	absent := func(svc *syncer.Service) syncer.Rules {
		return syncer.Rules{Applies: 1, Then: []syncer.Then{syncer.ThenAbsent}}
	}
	w := newWorld(t, Options{Rules: absent})
	w.serve(aService("web", "web"))
	all := aService("all", "db")
	all.PublishNotReadyAddresses = true
	w.serve(all)
	for i, test := range []struct {
		name   string
		app    string
		change func(*syncer.Pod)
		want   bool
	}{
		{"ready", "web", func(*syncer.Pod) {}, true},
		{"not ready", "web", func(p *syncer.Pod) { p.Ready = false }, false},
		{"not ready, and published", "db", func(p *syncer.Pod) { p.Ready = false }, true},
		{"silent", "web", func(p *syncer.Pod) { p.Ready, p.NodeSilent = false, true }, true},
		{"terminating", "web", func(p *syncer.Pod) { p.Terminating = true }, false},
		{"terminal", "web", func(p *syncer.Pod) { p.Terminal = true }, false},
		{"without address", "web", func(p *syncer.Pod) { p.IPs = nil }, false},
		{"absent by a rule", "web", func(p *syncer.Pod) { p.Matches = 1 }, false},
		{"of no Service", "none", func(*syncer.Pod) {}, false},
	} {
		p := aPod("p", test.app, byte(i))
		test.change(&p)
		if w.pod(p); w.Endpoint(p.Key) != test.want {
			t.Errorf("%s: %v, want %v", test.name, !test.want, test.want)
		}
	}
	if w.Endpoint(in("unknown")) {
		t.Error("a pod that is not there is an endpoint")
	}
}

func TestWalks(t *testing.T) {
	w := newWorld(t, Options{})
	w.serve(handMade("db"))
	w.serve(aService("web", "web"))
	w.pod(aPod("p", "web", 1))
	elsewhere := aPod("q", "web", 2)
	elsewhere.Namespace = "else"
	w.pod(elsewhere)
	w.SetEndpoints(written("db", 7, 1))
	w.SetSlice(writtenSlice("db", "db-x", 8, 2))
	for name, walk := range map[string]struct {
		got  map[syncer.Key]uint64
		want string
	}{
		"all pods":         {maps.Collect(w.Pods("")), "map[else/q:104 shop/p:103]"},
		"pods":             {maps.Collect(w.Pods("shop")), "map[shop/p:103]"},
		"pods of nowhere":  {maps.Collect(w.Pods("nowhere")), "map[]"},
		"all Services":     {maps.Collect(w.Services("")), "map[shop/db:101 shop/web:102]"},
		"all Endpoints":    {maps.Collect(w.EndpointsKeys("")), "map[shop/db:7]"},
		"Endpoints":        {maps.Collect(w.EndpointsKeys("else")), "map[]"},
		"slices":           {maps.Collect(w.SliceKeys("shop")), "map[shop/db-x:8]"},
		"slices elsewhere": {maps.Collect(w.SliceKeys("else")), "map[]"},
	} {
		if got := fmt.Sprint(walk.got); got != walk.want {
			t.Errorf("%s: %s, want %s", name, got, walk.want)
		}
	}
	if !w.ByHand(in("db")) || w.ByHand(in("web")) {
		t.Error("another Service is written by hand")
	}
	e, revision, ok := w.Endpoints(in("db"))
	if !ok || revision != 7 || len(e.Subsets) != 1 {
		t.Errorf("Endpoints %v %d %v", e, revision, ok)
	}
	slice, revision, ok := w.Slice(in("db-x"))
	if !ok || revision != 8 || slice.Service != "db" {
		t.Errorf("slice %v %d %v", slice, revision, ok)
	}
	for what, found := range map[string]bool{
		"pod": second(w.Pod(in("none"))), "Service": second(w.Service(in("none"))), "Endpoints": second(w.Endpoints(in("web"))),
		"slice": second(w.Slice(in("none"))),
	} {
		if found {
			t.Errorf("found a %s that is not there", what)
		}
	}
}

func second[T any](_ T, _ uint64, ok bool) bool { return ok }

// TestHandedOutValuesStay checks that later changes do not touch what was returned.
func TestHandedOutValuesStay(t *testing.T) {
	w := newWorld(t, Options{})
	w.serve(aService("web", "web"))
	w.pod(aPod("p", "web", 1))
	before, _, _ := w.Pod(in("p"))
	c, _ := w.Contribution(in("web"), w.now)
	w.pod(aPod("p", "web", 2))
	want := aPod("p", "web", 1)
	if !before.Equal(&want) || c.Endpoints[0].Addr != want.IPs[0].Addr || c.Endpoints[0].Target.UID != want.UID {
		t.Errorf("what was returned is now %+v, %+v", before, c.Endpoints)
	}
}

// TestNothingIsLeftBehind checks that what is shared is dropped with its last user.
func TestNothingIsLeftBehind(t *testing.T) {
	s := New(Options{})
	for range 3 {
		for n := range byte(30) {
			p := aPod(fmt.Sprint("p", n), fmt.Sprint(n%5), n)
			p.NodeName, p.Ports = fmt.Sprint("n", n%3), []syncer.ContainerPort{{Name: fmt.Sprint(n % 2), Port: 80}}
			s.SetPod(Versioned[syncer.Pod]{Object: p})
			s.SetService(Versioned[syncer.Service]{Object: aService(fmt.Sprint("s", n%5), fmt.Sprint(n%5))})
		}
		s.SetService(Versioned[syncer.Service]{Object: handMade("db")})
		s.SetSlice(writtenSlice("db", "x", 1, 1))
		s.RemoveSlice(in("x"))
		for key := range maps.Collect(s.Pods("")) {
			s.RemovePod(key)
		}
		for key := range maps.Collect(s.Services("")) {
			s.RemoveService(key)
		}
		left := []int{len(s.namespaces), len(s.templates), len(s.endpoints), len(s.slices)}
		if slices.Max(left) > 0 {
			t.Fatalf("left: %v", left)
		}
	}
}

// TestServicesAreFiledUnderWhatTellsThemApart: a pair that all selectors have in common is
// not chosen.
func TestServicesAreFiledUnderWhatTellsThemApart(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 300 {
		svc := aService(fmt.Sprint("s", i), "")
		svc.Selector = map[string]string{"a-part-of": "shop", "name": fmt.Sprint(i), "tier": "web"}
		w.serve(svc)
	}
	for pair, b := range w.namespaces["shop"].buckets {
		if len(b.services) > 2 {
			t.Errorf("%d Services are filed under %q, which does not tell them apart", len(b.services), pair)
		}
	}
	p := aPod("p", "", 1)
	p.Labels = syncer.LabelsOf(map[string]string{"a-part-of": "shop", "name": "7", "tier": "web", "more": "x"})
	w.dirty("a pod of one of them", w.pod(p), change("s7", syncer.Addition))
}

func TestSetsLargeAndSmall(t *testing.T) {
	var s set[int]
	for _, n := range []int{5, 100} {
		for i := range n {
			s.add(i)
		}
		for i := n - 1; i >= 0; i -= 2 {
			s.remove(i)
		}
		for i := range n {
			if want := (n-i)%2 == 0; slices.Contains(s, i) != want {
				t.Fatalf("%d of %d: %v", i, n, !want)
			}
		}
		for _, i := range slices.Clone(s) {
			s.remove(i)
		}
		if len(s) != 0 || cap(s) > 8 {
			t.Fatalf("left of %d: %v", n, s)
		}
	}
}

// TestAPodIsSmall: a field more of every pod of every member is a decision.
func TestAPodIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(record{}); got > 96 {
		t.Errorf("a pod's record has %d bytes, which are allocated as more than 96", got)
	}
}
