// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 v1 Endpoints are what members hold

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/syncer"
)

func manual(namespace, name string) *corev1.Service {
	s := newService(namespace, name)
	s.Spec.Selector = nil
	return s
}

func newEndpoints(namespace, name string, ips ...string) *corev1.Endpoints {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}}
	for _, ip := range ips {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: ip})
	}
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Subsets:    []corev1.EndpointSubset{subset},
	}
}

func newSlice(namespace, name, service, managedBy string, ips ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	if managedBy != "" {
		s.Labels[discoveryv1.LabelManagedBy] = managedBy
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	return s
}

func TestNoEndpointsAreWatchedWithoutNeed(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.put(newEndpoints("shop", "web", "10.1.0.1"))
		w.pass(time.Minute)
		if n := a.watches["endpoints"] + a.watches["endpointslices"]; n != 0 {
			t.Errorf("%d watches of derived endpoints", n)
		}
		w.wantDirty()
	})
}

func TestHandWrittenEndpoints(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.put(manual("shop", "db"), newEndpoints("shop", "db", "10.9.0.1"), newEndpoints("shop", "web", "10.1.0.1"))
		w.pass(time.Second)
		w.wantAddresses("shop", "db", "a 10.9.0.1")
		w.sink.take()
		a.put(newEndpoints("shop", "db", "10.9.0.1", "10.9.0.2"))
		w.pass(0)
		w.wantDirty("addition shop/db: Endpoints shop/db modified")
		a.put(newSlice("shop", "db-1", "db", "somebody", "10.9.0.3"), newSlice("shop", "db-k", "db", "endpointslicemirroring-controller.k8s.io", "10.9.0.8"))
		w.pass(0)
		w.wantDirty("addition shop/db: EndpointSlice shop/db-1 added")
		w.wantAddresses("shop", "db", "a 10.9.0.1", "a 10.9.0.2", "a 10.9.0.3")
		a.put(newSlice("shop", "db-1", "elsewhere", "somebody", "10.9.0.3"))
		w.pass(0)
		w.wantDirty("removal shop/db: EndpointSlice shop/db-1 modified")
		a.remove("endpoints", "shop", "db")
		w.pass(0)
		w.wantDirty("removal shop/db: Endpoints shop/db deleted")
		w.wantAddresses("shop", "db")
		a.remove("services", "shop", "db")
		w.pass(0)
		w.wantDirty("removal shop/db: Service shop/db deleted")
		if n := a.openWatches("endpoints"); n != 0 {
			t.Errorf("%d watches of Endpoints are still open", n)
		}
	})
}

func TestHandWrittenEndpointsThatMayNotBeRead(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() { a.deny["endpoints"] = http.StatusForbidden })
		a.put(manual("shop", "db"), newEndpoints("shop", "db", "10.9.0.1"))
		w.pass(10 * time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "db", "a pending")
		if remarks := w.status("a").Remarks; len(remarks) != 1 || !strings.HasPrefix(remarks[0], "endpoints may not be read") {
			t.Errorf("remarks %q", remarks)
		}
		a.with(func() { clear(a.deny) })
		w.pass(10 * time.Second)
		w.wantAddresses("shop", "db", "a 10.9.0.1")
		if remarks := w.status("a").Remarks; len(remarks) != 0 {
			t.Errorf("remarks %q", remarks)
		}
	})
}

func TestMemberWithoutSlices(t *testing.T) {
	for _, version := range []string{"v1.17.4", "v1.36.3"} { // the second is set up without them
		t.Run(version, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				a := w.api("uid-a")
				a.version, a.noSlices = version, true
				a.deny["endpointslices"] = http.StatusNotFound
				a.put(manual("shop", "db"), newEndpoints("shop", "db", "10.9.0.1"))
				w.reach("a", a.config(""), "1")
				w.pass(10 * time.Second)
				w.wantAddresses("shop", "db", "a 10.9.0.1")
			})
		})
	}
}

// TestSlicesAreAskedForAgain checks that an API which said it has no slices is
// believed for a while only.
func TestSlicesAreAskedForAgain(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.noSlices = true
		a.deny["endpointslices"] = http.StatusNotFound
		a.put(manual("shop", "db"), newEndpoints("shop", "db", "10.9.0.1"), newSlice("shop", "db-1", "db", "somebody", "10.9.0.3"))
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantAddresses("shop", "db", "a 10.9.0.1")
		a.with(func() { a.noSlices = false; clear(a.deny) })
		w.pass(slicesRetry)
		w.wantAddresses("shop", "db", "a 10.9.0.1", "a 10.9.0.3")
	})
}

// TestNotFoundIsNoAnswerWhereSlicesWere checks that slices which were listed stay
// when the API answers as if there was no such thing.
func TestNotFoundIsNoAnswerWhereSlicesWere(t *testing.T) {
	for name, c := range map[string]struct {
		reconnected bool // the answer comes through another session
		ips         int
	}{
		"watch opened anew":              {ips: 2},
		"new credential, few addresses":  {reconnected: true, ips: 2},
		"new credential, many addresses": {reconnected: true, ips: 40},
	} {
		t.Run(name, func(t *testing.T) {
			running(t, nil, func(w *world, a *fakeAPI) {
				a.put(manual("shop", "hand"), newSlice("shop", "hand-1", "hand", "somebody", handIPs(1, c.ips)...))
				w.pass(5 * time.Second)
				w.wantHand(c.ips)
				w.sink.take()
				a.with(func() { a.deny["endpointslices"] = http.StatusNotFound; a.closing++ })
				if c.reconnected {
					w.reach("a", a.config("new"), "2")
				}
				w.pass(2 * time.Second)
				w.wantHand(c.ips)
				w.wantDirty()
				a.with(func() { clear(a.deny) })
				w.pass(10 * time.Second)
				w.wantHand(c.ips)
				w.wantHolds()
				w.wantDirty()
				a.put(newSlice("shop", "hand-2", "hand", "somebody", handIPs(2, 1)...))
				w.pass(time.Second)
				w.wantHand(c.ips + 1) // and are followed
			})
		})
	}
}

// TestNotFoundIsNoAnswerOfAFront checks that something before the API, which answers for
// slices as if there were none, takes nothing, whatever session it answers through.
func TestNotFoundIsNoAnswerOfAFront(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		a.put(byHand(4, 2)...)
		w.pass(5 * time.Second)
		w.wantHand(6)
		w.sink.take()
		until := time.Now().Add(20 * time.Second)
		a.with(func() {
			a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				if time.Now().After(until) || !strings.Contains(r.URL.Path, "/endpointslices") {
					return false
				}
				http.Error(rw, "404 page not found", http.StatusNotFound)
				return true
			}
		})
		w.reach("a", a.config("another"), "2")
		w.pass(time.Second)
		a.with(func() { a.closing = a.opened })
		for range 20 {
			w.pass(3 * time.Second)
			w.wantHand(6)
		}
		w.wantDirty()
		a.put(newSlice("shop", "hand-9", "hand", "somebody", "10.9.9.9"))
		w.pass(time.Second)
		w.wantHand(7) // and they are followed
	})
}

// TestMemberLosesItsSlices checks that slices which an API has no more are judged
// like those that a list lacks.
func TestMemberLosesItsSlices(t *testing.T) {
	for ips, left := range map[int]int{2: 0, 40: 40} {
		t.Run(fmt.Sprint(ips), func(t *testing.T) {
			running(t, nil, func(w *world, a *fakeAPI) {
				a.put(manual("shop", "hand"), newSlice("shop", "hand-1", "hand", "somebody", handIPs(1, ips)...))
				w.pass(5 * time.Second)
				a.with(func() { a.noSlices, a.deny["endpointslices"] = true, http.StatusNotFound; a.closing++ })
				w.reach("a", a.config("new"), "2")
				w.pass(2 * time.Second)
				w.wantHand(ips)
				w.wantHolds("shop/hand list_shrank")
				w.pass(8 * time.Second)
				w.wantHand(left)
			})
		})
	}
}

// TestSlicesNotFoundAfterARestart checks that what stands of slices stays while
// the API answers, right from the start, as if it had none.
func TestSlicesNotFoundAfterARestart(t *testing.T) {
	for _, ips := range []int{5, 30} {
		t.Run(fmt.Sprint(ips), func(t *testing.T) {
			stands := func(o *Options) {
				o.Standing = stand(map[syncer.Key]int{hand: ips})
			}
			inWorld(t, stands, func(w *world) {
				a := w.api("uid-a")
				a.put(newService("shop", "web"), newPod("shop", "web", 1))
				a.put(manual("shop", "hand"), newSlice("shop", "hand-1", "hand", "somebody", handIPs(1, ips)...))
				a.noSlices, a.deny["endpointslices"] = true, http.StatusNotFound
				w.reach("a", a.config(""), "1")
				w.pass(2 * time.Second)
				w.wantHand(ips)
				w.wantHolds("shop/hand first_list_shrank")
				a.with(func() { clear(a.deny) })
				w.pass(10 * time.Second)
				w.wantHand(ips)
				w.wantHolds()
			})
		})
	}
}

func TestManyServicesWithoutSelector(t *testing.T) {
	running(t, nil, func(w *world, a *fakeAPI) {
		for i := range scopesPerNamespace + 3 {
			name := fmt.Sprintf("db-%d", i)
			a.put(newEndpoints("shop", name, fmt.Sprintf("10.9.0.%d", i+1)), manual("shop", name))
			w.pass(100 * time.Millisecond)
		}
		w.pass(10 * time.Second)
		for i := range scopesPerNamespace + 3 {
			w.wantAddresses("shop", fmt.Sprintf("db-%d", i), fmt.Sprintf("a 10.9.0.%d", i+1))
		}
		if n := a.openWatches("endpoints"); n != 1 {
			t.Errorf("%d watches, want one of the namespace", n)
		}
	})
}

func TestScopes(t *testing.T) {
	keys := func(namespace string, n int) []syncer.Key {
		var out []syncer.Key
		for i := range n {
			out = append(out, syncer.Key{Namespace: namespace, Name: fmt.Sprintf("s%02d", i)})
		}
		return out
	}
	var spread []syncer.Key
	for i := range scopesAtMost + 1 {
		spread = append(spread, syncer.Key{Namespace: fmt.Sprintf("n%03d", i), Name: "s"})
	}
	for name, tc := range map[string]struct {
		keys []syncer.Key
		want []scope
	}{
		"none":        {nil, nil},
		"few":         {keys("a", 2), []scope{{"a", "s00"}, {"a", "s01"}}},
		"many of one": {append(keys("a", scopesPerNamespace+1), keys("b", 1)...), []scope{{"a", ""}, {"b", "s00"}}},
		"everywhere":  {spread, []scope{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := scopesOf(tc.keys)
			if !slices.Equal(got, tc.want) {
				t.Errorf("scopes %v, want %v", got, tc.want)
			}
			for _, key := range tc.keys {
				if !slices.ContainsFunc(got, func(s scope) bool { return s.covers(key) }) {
					t.Errorf("%s is not covered", key)
				}
			}
		})
	}
}

func newNode(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
}

func (w *world) zones() []string {
	var zones []string
	for _, share := range w.set.Peek(syncer.Key{Namespace: "shop", Name: "web"}).Shares {
		for _, e := range share.Endpoints {
			zones = append(zones, e.Zone)
		}
	}
	return zones
}

func TestZones(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1), newNode("node-1", "z1"))
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		w.wantDirty("bulk addition shop/web: Cluster relist")
		if got := w.zones(); !slices.Equal(got, []string{"z1"}) {
			t.Errorf("zones %q", got)
		}
		a.put(newNode("node-1", "z2"))
		w.pass(0)
		w.wantDirty("bulk addition shop/web: Node node-1 modified")
		a.put(newNode("node-1", "z2"))
		w.pass(0)
		w.wantDirty()
	})
}

func TestNodesThatMayNotBeRead(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1), newNode("node-1", "z1"))
		a.deny["nodes"] = http.StatusForbidden
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
		if got := w.zones(); !slices.Equal(got, []string{""}) {
			t.Errorf("zones %q", got)
		}
		if n := len(w.status("a").Remarks); n != 1 {
			t.Errorf("%d remarks", n)
		}
		a.with(func() { clear(a.deny) })
		w.reach("a", a.config("new"), "2") // rights are looked at again with a new credential
		w.pass(time.Second)
		if got := w.zones(); !slices.Equal(got, []string{"z1"}) {
			t.Errorf("zones %q", got)
		}
	})
}
