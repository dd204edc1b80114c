// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

func TestOwned(t *testing.T) {
	marks := map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: "default"}
	without := func(key string) map[string]string {
		out := maps.Clone(marks)
		delete(out, key)
		return out
	}
	of := func(replica string) map[string]string { return map[string]string{syncer.AnnotationReplica: replica} }
	for _, c := range []struct {
		name                string
		kind                Kind
		object              string
		labels, annotations map[string]string
		instance            string
		want                bool
	}{
		{"ours", KindService, "web", marks, of("shop/web"), "default", true},
		{"a slice of ours", KindEndpointSlice, "web-a-x-0", marks, of("shop/web"), "default", true},
		{"a clone", KindService, "web2", marks, of("shop/web"), "default", false},
		{"a clone of Endpoints", KindEndpoints, "web2", marks, of("shop/web"), "default", false},
		{"in another namespace", KindEndpointSlice, "web-a-x-0", marks, of("else/web"), "default", false},
		{"no mark", KindService, "web", without(syncer.LabelManagedBy), of("shop/web"), "default", false},
		{"no instance", KindService, "web", without(syncer.LabelInstance), of("shop/web"), "default", false},
		{"no instance anywhere", KindService, "web", without(syncer.LabelInstance), of("shop/web"), "", false},
		{"another instance", KindService, "web", marks, of("shop/web"), "other", false},
		{"no annotation", KindService, "web", marks, nil, "default", false},
		{"no key", KindService, "web", marks, of("web"), "default", false},
	} {
		replica, ours := Owned(c.kind, syncer.Key{Namespace: "shop", Name: c.object}, c.labels, c.annotations, c.instance)
		if ours != c.want || ours && replica != shopWeb {
			t.Errorf("%s: %v %t, want %t", c.name, replica, ours, c.want)
		}
	}
}

// byHand is a share of endpoints that somebody wrote, in an order of his own and one twice.
func byHand() syncer.Share {
	svc := source("a", 1, "http:80>8080")
	svc.Selector = nil
	address := func(text string) syncer.Address { return syncer.Address{Addr: netip.MustParseAddr(text)} }
	ports := []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 8080}}
	subsets := []syncer.Subset{
		{Ready: []syncer.Address{address("10.1.0.9"), address("10.1.0.1")}, Ports: ports},
		{NotReady: []syncer.Address{address("10.1.0.2")}, Ports: ports},
	}
	return syncer.Share{Member: "a", Listed: true, Given: syncer.HandWritten(svc, subsets, nil, false, syncer.Options{})}
}

func TestHandWrittenIsPublishedVerbatim(t *testing.T) {
	w, share, s := newWorld(t), byHand(), settings()
	s.Capacity = 2 // which is not for what is written by hand
	w.settle([]syncer.Share{share}, s)
	if got := w.now.Endpoints.Subsets; !reflect.DeepEqual(got, share.Given.Subsets) {
		t.Errorf("Endpoints are %v", got)
	}
	if actions, _ := Actions(w.now, Merge(shopWeb, w.now, []syncer.Share{{Member: "a", SourceOpen: true}}, s)); len(actions) > 0 {
		t.Errorf("a restart writes %s: %s", actions[0].Object(), actions[0].Why)
	}
	share.Listed, share.SourceOpen = false, true
	if actions, _ := Actions(w.now, Merge(shopWeb, w.now, []syncer.Share{share, none("b")}, settings())); len(actions) > 0 {
		t.Errorf("a restart writes %s: %s", actions[0].Object(), actions[0].Why)
	}
	share.Listed, share.SourceOpen = true, false
	w.settle([]syncer.Share{share, listed("b", 2, "http:80>8080", "10.2.0.1")}, settings())
	if sliced, whole := states(w.endpoints()); len(whole) != 4 || !maps.Equal(sliced, whole) {
		t.Errorf("slices have %v, Endpoints %v", sliced, whole)
	}
}

// TestEndpointsOfOneMember: they are upstream's, cut to the same size, with the same marks.
func TestEndpointsOfOneMember(t *testing.T) {
	var addrs []string
	for i := range 1200 {
		addrs = append(addrs, fmt.Sprintf("10.1.%d.%d%s", i/250, i%250, []string{"", "", "!"}[i%3]))
	}
	share := listed("a", 1, "http:80>8080 metrics:90>9090", addrs...)
	share.Given.Trigger = time.Unix(1700000000, 0)
	w := newWorld(t)
	w.settle([]syncer.Share{share}, settings())
	upstream, truncated := syncer.Truncate(syncer.Subsets(share.Given.Endpoints), syncer.EndpointsCapacity)
	e := w.now.Endpoints
	if !truncated || !reflect.DeepEqual(e.Subsets, upstream) {
		t.Errorf("%d subsets, want %d", len(e.Subsets), len(upstream))
	}
	if e.Annotations[syncer.AnnotationOverCapacity] != "truncated" || e.Annotations[syncer.AnnotationTriggerTime] != "2023-11-14T22:13:20Z" {
		t.Errorf("annotations %v", e.Annotations)
	}
	if sliced, _ := states(w.endpoints()); len(sliced) != 1200 || len(w.now.Slices) != 12 {
		t.Errorf("%d addresses in %d slices", len(sliced), len(w.now.Slices))
	}
	for _, unlisted := range []bool{false, true} { // the trigger time is no difference
		share.Given.Trigger, share.Listed = time.Time{}, !unlisted
		if actions, _ := Actions(w.now, Merge(shopWeb, w.now, []syncer.Share{share}, settings())); len(actions) > 0 {
			t.Errorf("unlisted %t: %s %s", unlisted, actions[0].Object(), actions[0].Why)
		}
	}
}

func TestBothFamilies(t *testing.T) {
	share := listed("a", 1, "http:80>8080", "10.1.0.1", "fd00::1")
	share.Given.Families = []syncer.Family{syncer.IPv4, syncer.IPv6}
	share.Given.Endpoints[1].Only = syncer.KindEndpointSlices
	w := newWorld(t)
	w.settle([]syncer.Share{share}, settings())
	sliced, whole := states(w.endpoints())
	if len(sliced) != 2 || len(whole) != 1 || len(w.now.Slices) != 2 {
		t.Errorf("slices have %v, Endpoints %v", sliced, whole)
	}
	share.Listed, share.SourceOpen = false, true
	if actions, _ := Actions(w.now, Merge(shopWeb, w.now, []syncer.Share{share}, settings())); len(actions) > 0 {
		t.Errorf("a restart writes %s: %s", actions[0].Object(), actions[0].Why)
	}
}

// TestDesired: what others read of it.
func TestDesired(t *testing.T) {
	w := newWorld(t)
	a, b := listed("a", 1, "http:80>8080", "10.1.0.1", "10.1.0.2!"), listed("b", 2, "http:80>8080", "10.2.0.1")
	w.settle([]syncer.Share{a, b}, settings())
	want := Merge(shopWeb, w.now, []syncer.Share{a}, settings())
	if !maps.Equal(want.Labels, map[string]string{"app": "web"}) || !slices.Equal(want.Orphans, []Orphan{{"b", 1}}) {
		t.Errorf("labels %v, orphans %v", want.Labels, want.Orphans)
	}
	var got []string
	for _, backend := range want.Backends() {
		got = append(got, backend.Member+" "+textOf(&backend.Endpoint))
	}
	if !slices.Equal(got, []string{"a 10.1.0.1", "a 10.1.0.2!", "b 10.2.0.1!"}) {
		t.Errorf("backends %v", got)
	}
}

// TestAtOnce: a plan shows all that a run would write.
func TestAtOnce(t *testing.T) {
	now := Current{Key: shopWeb, AtOnce: true}
	actions, waiting := Actions(now, Merge(shopWeb, now, []syncer.Share{listed("a", 1, "http:80>8080", "10.1.0.1")}, settings()))
	var got []string
	for _, a := range actions {
		got = append(got, a.Verb.String()+" "+a.Kind.String())
	}
	delta := Change(now, actions)
	if !slices.Equal(got, []string{"create Namespace", "create Service", "create EndpointSlice", "create Endpoints"}) ||
		!slices.Equal(delta.Added, []string{"10.1.0.1:8080"}) || len(waiting.Conflicts) > 0 || now.Service != nil {
		t.Errorf("%v, %+v, %+v", got, delta, waiting)
	}
}

// TestMergeLeavesItsInputs: neither shares nor current objects are changed.
func TestMergeLeavesItsInputs(t *testing.T) {
	w := newWorld(t)
	build := func() []syncer.Share {
		a := listed("a", 1, "http:80>8080", "10.1.0.1", "10.1.0.2?")
		a.Place, a.Reserve = 1, "drained"
		a.Keep = func(e syncer.Endpoint) (syncer.Endpoint, bool) { return e, true }
		return []syncer.Share{a, listed("b", 2, "web:80>8080", "10.2.0.1")}
	}
	w.settle(build(), settings())
	shares, before := build(), w.now.after(nil)
	Actions(w.now, Merge(shopWeb, w.now, shares, settings()))
	again := build()
	for i := range shares {
		shares[i].Keep, again[i].Keep = nil, nil
	}
	if !reflect.DeepEqual(shares, again) || !reflect.DeepEqual(before, w.now) {
		t.Errorf("they changed")
	}
}

// TestNotReadyIsPublished: an address that is published though it does not serve loses nothing, so
// that an addition is no reason to write Endpoints from which one may only remove.
func TestNotReadyIsPublished(t *testing.T) {
	share := listed("a", 1, "http:80>8080", "10.1.0.1", "10.1.0.2")
	for i := range share.Given.Endpoints {
		share.Given.Endpoints[i].Serving = false
	}
	less := share
	less.Given.Endpoints = share.Given.Endpoints[:1]
	w := newWorld(t)
	w.settle([]syncer.Share{less}, settings())
	w.now.Namespace = NamespaceTerminating
	if actions, _ := Actions(w.now, Merge(shopWeb, w.now, []syncer.Share{share}, settings())); len(actions) > 0 {
		t.Errorf("%s %s (%s): %+v", actions[0].Verb, actions[0].Object(), actions[0].Why, actions[0].Delta)
	}
}

// TestReadyInSlices: of what is ready in both kinds, slices tell Keep whether it serves or terminates.
func TestReadyInSlices(t *testing.T) {
	share := listed("a", 1, "http:80>8080", "10.1.0.1", "10.1.0.2~")
	of := share.Given.Endpoints
	of[0].Serving, of[1].Ready = false, true // the Service publishes not-ready addresses
	w := newWorld(t)
	w.settle([]syncer.Share{share}, settings())
	share.Listed, share.SourceOpen, share.Keep = false, true, func(e syncer.Endpoint) (syncer.Endpoint, bool) {
		if is := of[e.Target.UID[len(e.Target.UID)-1]-'1']; e.Grade != is.Grade || e.Ready != is.Ready || e.Serving != is.Serving || e.Terminating != is.Terminating {
			t.Errorf("kind %d: %+v, want %+v", e.Only, e, is)
		}
		return e, true
	}
	if actions, _ := Actions(w.now, Merge(shopWeb, w.now, []syncer.Share{share}, settings())); len(actions) > 0 {
		t.Errorf("a restart writes %s: %s", actions[0].Object(), actions[0].Why)
	}
}

// BenchmarkCompare is a comparison that finds nothing, and one that finds a pod gone.
func BenchmarkCompare(b *testing.B) {
	for _, pods := range []int{10, 5000} {
		var addrs []string
		for i := range pods {
			addrs = append(addrs, fmt.Sprintf("10.1.%d.%d", i/250, i%250))
		}
		w := newWorld(b)
		shares := []syncer.Share{listed("a", 1, "http:80>8080", addrs...), none("b")}
		w.settle(shares, settings())
		less := []syncer.Share{listed("a", 1, "http:80>8080", addrs[1:]...), none("b")}
		for name, shares := range map[string][]syncer.Share{"equal": shares, "removal": less} {
			b.Run(fmt.Sprintf("%s/pods=%d", name, pods), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Actions(w.now, Merge(shopWeb, w.now, shares, settings()))
				}
			})
		}
	}
}

// A later place alone does not make a reserve that serves doubtful.
func TestGradeAt(t *testing.T) {
	for _, c := range []struct {
		place int
		ready bool
		grade syncer.Grade
		want  syncer.Grade
	}{
		{0, true, syncer.Reserve, syncer.Reserve},
		{1, true, syncer.Reserve, syncer.Ready},
		{1, false, syncer.Reserve, syncer.Reserve},
		{1, true, syncer.NotReady, syncer.NotReady},
	} {
		if got := GradeAt(c.place, &syncer.Endpoint{Ready: c.ready, Grade: c.grade}); got != c.want {
			t.Errorf("%+v: the grade is %v", c, got)
		}
	}
}
