// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/syncer"
)

// slowed is a ground with the backoff of the product.
func slowed(t *testing.T, clusters ...string) *ground {
	g := newGroundOn(t, apitest.NewInMemory(t), clusters...)
	g.options.Queue.Backoff = lanes.Backoff{}
	g.start()
	return g
}

// lose is loseOf of a.
func (g *ground) lose(ip string, within time.Duration, inEndpoints, inSlices bool, left *syncer.Service, pods ...*syncer.Pod) {
	g.t.Helper()
	g.loseOf("a", ip, within, inEndpoints, inSlices, left, pods...)
}

// loseOf tells that a pod of a member is gone, and fails unless its address is gone in time
// from the kinds that may be written.
func (g *ground) loseOf(member, ip string, within time.Duration, inEndpoints, inSlices bool, left *syncer.Service, pods ...*syncer.Pod) {
	g.t.Helper()
	g.source.set(member, left, pods...)
	g.rec.Dirty(left.Key, lanes.Removal, liveCause(member, left.Key))
	time.Sleep(within)
	endpoints, sliced := g.addresses(left.Key)
	if inEndpoints && slices.Contains(endpoints, ip) || inSlices && slices.Contains(sliced, ip) {
		g.t.Errorf("%s stands after %v: %v and %v", ip, within, endpoints, sliced)
	}
}

// One write takes an address away and brings another, and a server does not take the other,
// with whatever code a webhook chooses. What is to go goes without it.
func TestRemovalDoesWithoutTheAdditionBesideIt(t *testing.T) {
	for _, code := range []int{403, 404, 408, 409, 422, 429, 500, 503, 504} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprint(code, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := slowed(t, "a", "b")
					g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2"})...)
					g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
					g.settle()
					g.server.Refuse(func(o apitest.Object) (field.ErrorList, error) {
						if !holds(o, "10.0.0.9", "10.1.0.9") {
							return nil, nil
						}
						reason := map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 422: metav1.StatusReasonInvalid}[code]
						return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: `admission webhook "w" denied the request`}}
					})
					if before {
						g.set("b", service(web, 2, 8080), podsOf([]string{"10.1.0.1", "10.1.0.9"})...)
						time.Sleep(2 * time.Minute)
						g.lose("10.0.0.1", 200*time.Millisecond, true, true, service(web, 1, 8080), pod(web, "10.0.0.2", true))
					} else {
						g.lose("10.0.0.1", 200*time.Millisecond, true, true, service(web, 1, 8080), podsOf([]string{"10.0.0.2", "10.0.0.9"})...)
					}
				})
			})
		}
	}
}

func holds(o apitest.Object, ips ...string) (any bool) {
	switch o := o.(type) {
	case *corev1.Endpoints:
		for _, s := range o.Subsets {
			any = any || slices.ContainsFunc(s.Addresses, func(a corev1.EndpointAddress) bool { return slices.Contains(ips, a.IP) })
		}
	case *discoveryv1.EndpointSlice:
		any = slices.ContainsFunc(o.Endpoints, func(e discoveryv1.Endpoint) bool { return slices.Contains(ips, e.Addresses[0]) })
	}
	return any
}

// Writes of one kind have no answer. Removals leave the other at once, one after the other;
// those that hang are ended by their own limit, and what is wanted stands when they are
// answered again.
func TestRemovalsWaitForNoOtherKind(t *testing.T) {
	for _, resource := range []string{"endpointslices", "endpoints", "services"} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := slowed(t, "a")
				all := podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"})
				svc := service(web, 1, 8080)
				g.set("a", svc, all...)
				g.settle()
				g.faultWrites(1<<30, apitest.Fault{Hang: true}, of(resource))
				if resource == "services" {
					svc = service(web, 1, 8080)
					svc.Ports = append(svc.Ports, syncer.ServicePort{Name: "more", Protocol: syncer.TCP, Port: 81, Target: syncer.TargetPort{Number: 8081}})
					g.set("a", svc, all...)
					time.Sleep(time.Second)
				}
				for n := range 6 {
					g.lose(fmt.Sprint("10.0.0.", n+1), 2*patience, resource != "endpoints", resource != "endpointslices", svc, all[n+1:]...)
				}
				g.server.Intercept(nil)
				time.Sleep(time.Minute)
				g.settle()
				endpoints, sliced := g.addresses(web)
				if endpoints, sliced = slices.Compact(endpoints), slices.Compact(sliced); !slices.Equal(endpoints, []string{"10.0.0.7"}) || !slices.Equal(sliced, endpoints) {
					t.Errorf("%v and %v stand at the end", endpoints, sliced)
				}
			})
		})
	}
}

// A server asks for a pause with one object. Removals from the others do not wait, and that
// object is left alone.
func TestPausesAreOfTheirObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowed(t, "a")
		svc := service(web, 1, 8080)
		g.set("a", svc, podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})...)
		g.settle()
		asked := 0
		g.server.Refuse(func(o apitest.Object) (field.ErrorList, error) {
			if _, is := o.(*corev1.Service); !is {
				return nil, nil
			}
			asked++
			return nil, apierrors.NewTooManyRequests("later", 60)
		})
		svc = service(web, 1, 8080)
		svc.Labels = map[string]string{"team": "blue"}
		g.set("a", svc, podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})...)
		time.Sleep(time.Second)
		g.lose("10.0.0.1", 200*time.Millisecond, true, true, svc, podsOf([]string{"10.0.0.2", "10.0.0.3"})...)
		g.lose("10.0.0.2", 200*time.Millisecond, true, true, svc, pod(web, "10.0.0.3", true))
		if time.Sleep(50 * time.Second); asked != 1 {
			t.Errorf("the Service was written %d times in a minute, which the server had asked to wait for", asked)
		}
		g.server.Refuse(nil)
		time.Sleep(time.Minute)
		if s, _ := apitest.Get[*corev1.Service](g.server, "shop", "web"); s.Labels["team"] != "blue" {
			t.Errorf("labels %v", s.Labels)
		}
	})
}

// Endpoints are refused for addresses that stand and that nobody names, by a slow webhook:
// the search takes long, and removals from slices do not wait for it.
func TestRemovalsPassASearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowed(t, "a")
		var ips []string
		for i := range 120 {
			ips = append(ips, fmt.Sprint("10.0.1.", i+1))
		}
		g.set("a", service(web, 1, 8080), podsOf(ips)...)
		g.settle()
		g.server.Refuse(func(o apitest.Object) (field.ErrorList, error) {
			if _, is := o.(*corev1.Endpoints); is && holds(o, ips[20], ips[40], ips[60], ips[80]) {
				return nil, apierrors.NewForbidden(corev1.Resource("endpoints"), "web", errors.New("ValidatingAdmissionPolicy 'p' denied request: no"))
			}
			return nil, nil
		})
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			if r.Resource == "endpoints" && r.Verb == "update" {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		})
		for n := range 4 {
			g.lose(ips[n], time.Second, false, true, service(web, 1, 8080), podsOf(ips[n+1:])...)
		}
		time.Sleep(time.Minute)
		if endpoints, _ := g.addresses(web); len(endpoints) != len(ips)-8 {
			t.Errorf("%d addresses are left in Endpoints, want %d", len(endpoints), len(ips)-8)
		}
		g.server.Intercept(nil)
		g.server.Refuse(nil)
	})
}

// Two pods on the network of one node, with ports of their own: what is gone of the one
// goes first, though the other has the address, while the Service cannot be written.
func TestRemovalOfOneOfTwoPodsWithAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowed(t, "a")
		labelled := func(team string) *syncer.Service {
			s := service(web, 1, 0)
			s.Ports[0].Target, s.Labels = syncer.TargetPort{Name: "http"}, map[string]string{"team": team}
			return s
		}
		host := func(name string, port int32) *syncer.Pod {
			p := pod(web, "10.0.0.1", true)
			p.Key.Name, p.UID, p.Ports = name, name, []syncer.ContainerPort{{Name: "http", Protocol: syncer.TCP, Port: port}}
			return p
		}
		g.set("a", labelled("red"), host("x", 8080), host("y", 8081))
		g.settle()
		g.faultWrites(1<<30, apitest.Fault{Hang: true}, of("services"))
		g.set("a", labelled("blue"), host("y", 8081))
		time.Sleep(time.Second)
		g.server.Intercept(nil)
		if e, _ := apitest.Get[*corev1.Endpoints](g.server, "shop", "web"); len(e.Subsets) != 1 || e.Subsets[0].Ports[0].Port != 8081 {
			t.Errorf("subsets %+v", e.Subsets)
		}
		for _, s := range apitest.List[*discoveryv1.EndpointSlice](g.server, "shop") {
			if *s.Ports[0].Port != 8081 && len(s.Endpoints) > 0 {
				t.Errorf("slice of port %d has %v", *s.Ports[0].Port, s.Endpoints)
			}
		}
	})
}

// However many slices of other members hang, those of one that is written lose what is gone.
func TestHangingSlicesHoldNoOther(t *testing.T) {
	for range 5 { // which go first is left to chance
		synctest.Test(t, hangingSlicesHoldNoOther)
	}
}

func hangingSlicesHoldNoOther(t *testing.T) {
	g := newGroundOn(t, apitest.NewInMemory(t), "b", "c", "d")
	g.options.Queue.Backoff = lanes.Backoff{}
	g.source.settings.MaxEndpointsPerSlice = 10
	g.start()
	all, left := map[string][]string{}, map[string][]string{}
	others := []string{"b", "d"}
	for n, member := range others {
		for i := range 120 {
			ip := fmt.Sprintf("10.%d.%d.%d", n, i/10, i%10+1)
			if all[member] = append(all[member], ip); i%10 != 3 {
				left[member] = append(left[member], ip)
			}
		}
		g.set(member, service(web, 1, 8080), podsOf(all[member])...)
	}
	g.set("c", service(web, 2, 8080), podsOf([]string{"10.9.0.1", "10.9.0.2"})...)
	g.settle()
	g.faultWrites(1<<30, apitest.Fault{Hang: true}, func(r apitest.Request) bool {
		return r.Resource == "endpointslices" && !strings.HasPrefix(r.Name, "web-c")
	})
	for _, member := range others {
		g.source.set(member, service(web, 1, 8080), podsOf(left[member])...)
	}
	g.loseOf("c", "10.9.0.2", time.Second, true, true, service(web, 2, 8080), podsOf([]string{"10.9.0.1"})...)
}

// Endpoints hang. The next removal meets an error in slices once, and does not wait for them.
func TestErrorBesideAHangingWriteIsTriedAgain(t *testing.T) {
	for _, code := range []int{404, 409, 422, 429, 500, 503} {
		synctest.Test(t, func(t *testing.T) {
			g := slowed(t, "a")
			all := podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})
			g.set("a", service(web, 1, 8080), all...)
			g.settle()
			var n atomic.Int32
			g.server.Intercept(func(r apitest.Request) *apitest.Fault {
				switch {
				case r.Verb != "update" || r.UserAgent != product:
				case r.Resource == "endpoints":
					return &apitest.Fault{Hang: true}
				case n.Add(1) == 2:
					return &apitest.Fault{Status: code}
				}
				return nil
			})
			g.lose("10.0.0.1", time.Second, false, true, service(web, 1, 8080), all[1:]...)
			g.lose("10.0.0.2", 2*time.Second, false, true, service(web, 1, 8080), all[2:]...)
			g.server.Intercept(nil)
		})
	}
}

// Many replicas of a tenant are searched for the standing address that is refused of each, by
// a limit on requests: the first removal elsewhere waits for none of that.
func TestSearchesTakeNothingFromRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroundOn(t, apitest.NewInMemory(t), "a")
		g.options.Queue.QPS, g.options.Queue.Burst = 20, 40
		g.source.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
		var tenant []syncer.Key
		var ips []string
		for i := range 40 {
			ips = append(ips, fmt.Sprintf("10.9.0.%d", i+1))
		}
		for i := range 20 {
			tenant = append(tenant, syncer.Key{Namespace: "tenant", Name: fmt.Sprint("web", i)})
			g.source.set("a", service(tenant[i], 1, 8080), podsOf(ips)...)
		}
		g.start()
		time.Sleep(time.Minute)
		g.server.Refuse(func(o apitest.Object) (field.ErrorList, error) {
			if hasAny(o, ips[13], ips[27]) {
				return nil, apierrors.NewForbidden(corev1.Resource("endpoints"), o.GetName(), errors.New("not here"))
			}
			return nil, nil
		})
		for _, key := range tenant {
			g.source.set("a", service(key, 1, 8080), podsOf(ips[1:])...)
			g.rec.Dirty(key, lanes.Removal, liveCause("a", key))
		}
		time.Sleep(5 * time.Second)
		g.lose("10.0.0.1", 300*time.Millisecond, true, true, service(web, 1, 8080), pod(web, "10.0.0.2", true))
		time.Sleep(10 * time.Minute)
		for _, key := range tenant {
			if endpoints, _ := g.addresses(key); slices.Contains(endpoints, ips[0]) {
				t.Errorf("%s has what is dead", key)
			}
		}
	})
}
