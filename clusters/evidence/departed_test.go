// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// TestDeparted: what a process saw to go, and nobody may have written, stays away from what
// stands when it begins anew: what can come back if it was seen since a moment and has not.
func TestDeparted(t *testing.T) {
	web, db := syncer.Key{Namespace: namespace, Name: "web"}, syncer.Key{Namespace: namespace, Name: "db"}
	pod := func(n string, change func(*syncer.Pod)) podVersion {
		p, _, err := podNamed("web-" + n + " 10.0.0." + n + " web")
		if err != nil {
			t.Fatal(err)
		}
		p.Ready = true
		if change != nil {
			change(&p)
		}
		return podVersion{Object: p, RV: 11}
	}
	down := func(p *syncer.Pod) { p.Ready = false }
	other := func(p *syncer.Pod) { p.Labels = map[string]string{"app": "other"} }
	moved := func(p *syncer.Pod) { p.IPs = []syncer.PodIP{{Addr: netip.MustParseAddr("10.0.0.99")}} }
	sliceOf := func(service string, rv uint64) sliceVersion {
		return sliceVersion{RV: rv, Object: store.Slice{Key: syncer.Key{Namespace: namespace, Name: "db-1"}, UID: "db-1", Service: service,
			Content: syncer.Slice{Family: syncer.IPv4, Endpoints: []syncer.Endpoint{{Addr: netip.MustParseAddr("10.1.0.3"), Ready: true}}}}}
	}
	written := func(addrs ...string) endpointsVersion {
		e := endpointsVersion{Object: store.Endpoints{Key: db}, RV: 11}
		var ready []syncer.Address
		for _, addr := range addrs {
			ready = append(ready, syncer.Address{Addr: netip.MustParseAddr(addr)})
		}
		e.Object.Subsets = []syncer.Subset{{Ready: ready}}
		return e
	}
	webService := store.Versioned[syncer.Service]{RV: 10, Object: syncer.Service{Key: web, UID: "web", Selector: map[string]string{"app": "web"}, ClusterIP: "None"}}
	reselected := webService
	reselected.RV, reselected.Object.Selector = 11, map[string]string{"app": "other"}
	dbService := store.Versioned[syncer.Service]{RV: 10, Object: syncer.Service{Key: db, UID: "db", ClusterIP: "None"}}
	serviceAs := func(svc store.Versioned[syncer.Service], rv uint64, external, publishes bool) *Seen[syncer.Service] {
		svc.RV, svc.Object.ExternalName, svc.Object.PublishNotReadyAddresses = rv, external, publishes
		return &Seen[syncer.Service]{Versioned: svc}
	}
	first := written("10.1.0.1", "10.1.0.2")
	first.RV = 10
	takenBack := []Event{serviceAs(webService, 11, false, true), &Seen[syncer.Pod]{Versioned: pod("1", down)}, serviceAs(webService, 12, false, false)}
	all := []string{"10.0.0.1", "10.0.0.2", "10.1.0.1", "10.1.0.2", "10.1.0.3"}
	without := func(addrs ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(a string) bool { return slices.Contains(addrs, a) })
	}
	for name, c := range map[string]struct {
		before []Event // long ago
		events []Event
		// publishes is true where what stands of web is on record as published.
		publishes bool
		// beside is true where a Service of another namespace feeds the replica of web, too.
		beside bool
		want   []string
	}{
		"nothing":          {want: all},
		"a pod is deleted": {events: []Event{&Gone[syncer.Pod]{pod("1", nil)}}, want: without("10.0.0.1")},
		"long ago":         {before: []Event{&Gone[syncer.Pod]{pod("1", nil)}}, want: without("10.0.0.1")},
		"a pod terminates": {events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", func(p *syncer.Pod) { p.Deleted = 1 })}}, want: without("10.0.0.1")},
		"a published pod terminates": {publishes: true, want: all,
			events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", func(p *syncer.Pod) { p.Deleted = 1 })}}},
		"a published pod is deleted":       {publishes: true, events: []Event{&Gone[syncer.Pod]{pod("1", nil)}}, want: without("10.0.0.1")},
		"a pod has finished":               {events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", func(p *syncer.Pod) { p.Terminal = true })}}, want: without("10.0.0.1")},
		"a pod turns not ready":            {events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", down)}}, want: without("10.0.0.1")},
		"long ago: others may see it well": {before: []Event{&Seen[syncer.Pod]{Versioned: pod("1", down)}}, want: all},
		"a pod gets other labels":          {events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", other)}}, want: without("10.0.0.1")},
		"and its own again": {events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", other)},
			&Seen[syncer.Pod]{Versioned: podVersion{Object: pod("1", nil).Object, RV: 12}}}, want: all},
		"a pod gets another address":                       {events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", moved)}}, want: without("10.0.0.1")},
		"a Service selects other pods":                     {events: []Event{&Seen[syncer.Service]{Versioned: reselected}}, want: without("10.0.0.1", "10.0.0.2")},
		"a slice goes over":                                {events: []Event{&Seen[store.Slice]{Versioned: sliceOf("web", 11)}}, want: without("10.1.0.3")},
		"a Service is not replicated any more":             {events: []Event{serviceAs(webService, 11, true, false)}, want: without("10.0.0.1", "10.0.0.2")},
		"and is replicated again":                          {events: []Event{serviceAs(webService, 11, true, false), serviceAs(webService, 12, false, false)}, want: all},
		"one of hand-written endpoints is not":             {events: []Event{serviceAs(dbService, 11, true, false)}, want: without("10.1.0.1", "10.1.0.2", "10.1.0.3")},
		"a Service does not publish its pods any more":     {publishes: true, want: without("10.0.0.1"), events: takenBack},
		"and one of them is ready by then":                 {publishes: true, want: all, events: append(takenBack, &Seen[syncer.Pod]{Versioned: podVersion{Object: pod("1", nil).Object, RV: 13}})},
		"a pod of one of two namespaces gets other labels": {beside: true, events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", other)}}, want: without("10.0.0.1")},
		"a Service of one of two namespaces is deleted":    {beside: true, events: []Event{&Gone[syncer.Service]{webService}}, want: without("10.0.0.1", "10.0.0.2")},
		"in a list": {events: []Event{Listed[syncer.Pod]{Items: []podVersion{pod("1", down), pod("2", nil)}, Revision: 20}}, want: without("10.0.0.1")},
		"and is ready again": {events: []Event{&Seen[syncer.Pod]{Versioned: pod("1", down)},
			&Seen[syncer.Pod]{Versioned: podVersion{Object: pod("1", nil).Object, RV: 12}}}, want: all},
		"a Service is deleted":                {events: []Event{&Gone[syncer.Service]{webService}}, want: without("10.0.0.1", "10.0.0.2")},
		"long ago: others may see it anew":    {before: []Event{&Gone[syncer.Service]{webService}}, want: all},
		"a Service of hand-written endpoints": {events: []Event{&Gone[syncer.Service]{dbService}}, want: without("10.1.0.1", "10.1.0.2", "10.1.0.3")},
		"an address written by hand goes":     {events: []Event{&Seen[store.Endpoints]{Versioned: written("10.1.0.2")}}, want: without("10.1.0.1")},
		"all of them go":                      {events: []Event{&Gone[store.Endpoints]{written("10.1.0.1", "10.1.0.2")}}, want: without("10.1.0.1", "10.1.0.2")},
		"the store went back":                 {events: []Event{&Gone[syncer.Pod]{pod("1", nil)}, Restored{errCut}}, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			place := func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, !svc.ExternalName }
			s := New(start, Config{Placement: place}, 1)
			events := append([]Event{Connected{}, Listed[store.Node]{Revision: 10},
				Listed[syncer.Service]{Items: []store.Versioned[syncer.Service]{webService, dbService}, Revision: 10},
				Listed[syncer.Pod]{Items: []podVersion{pod("1", nil), pod("2", nil)}, Revision: 10},
				Listed[store.Endpoints]{Items: []endpointsVersion{first}, Revision: 10, Services: []syncer.Key{db}},
				Listed[store.Slice]{Items: []sliceVersion{sliceOf("db", 10)}, Revision: 10, Services: []syncer.Key{db}}}, c.before...)
			step := func(at time.Time, events []Event) {
				for _, e := range events {
					for e != nil {
						e = s.Step(at, e).Next
					}
				}
			}
			step(start, events)
			step(start.Add(time.Minute), c.events)
			endpoint := func(addr, pod string) syncer.Endpoint {
				e := syncer.Endpoint{Addr: netip.MustParseAddr(addr), Ready: true}
				if pod != "" {
					e.Target = syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: namespace, Name: pod}, UID: s.store.Pod(syncer.Key{Namespace: namespace, Name: "web-2"}).UID}
				}
				return e
			}
			one := endpoint("10.0.0.1", "web-1")
			one.Target.UID = pod("1", nil).Object.UID
			stands := map[syncer.Key]Standing{
				web: {Sources: []syncer.Key{web}, Endpoints: []syncer.Endpoint{one, endpoint("10.0.0.2", "web-2")}},
				db:  {Sources: []syncer.Key{db}, HandWritten: map[syncer.Key][]string{db: {"Endpoints"}}, Endpoints: []syncer.Endpoint{endpoint("10.1.0.1", ""), endpoint("10.1.0.2", ""), endpoint("10.1.0.3", "")}},
			}
			if web := stands[web]; c.publishes {
				web.Publishing = web.Sources
				stands[web.Sources[0]] = web
			}
			if web := stands[web]; c.beside {
				web.Sources = append(web.Sources, syncer.Key{Namespace: besideNamespace, Name: "web"})
				stands[web.Sources[0]] = web
			}
			next := New(start, Config{Placement: place}, 2)
			next.Step(start.Add(2*time.Minute), Baseline{Replicas: stands, Gone: s.SeenGone(start.Add(30 * time.Second))})
			left := map[string]bool{}
			for replica := range stands {
				share := next.Share(replica)
				for _, e := range stands[replica].Endpoints {
					if share.Unseen && !slices.Contains(share.Gone, e.Addr) {
						left[e.Addr.String()] = true
					}
				}
			}
			if got := slices.Sorted(maps.Keys(left)); !slices.Equal(got, c.want) {
				t.Errorf("%v stay, want %v", got, c.want)
			}
		})
	}
}
