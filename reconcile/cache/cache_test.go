// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package cache

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// ours is the metadata of an object of ours.
func ours(name, replica string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
		Labels:      map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: "test"},
		Annotations: map[string]string{syncer.AnnotationReplica: "shop/" + replica},
	}
}

func sliceOf(name, replica, member string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: ours(name, replica), AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(80))}}}
	s.Labels[syncer.LabelSourceCluster], s.Labels[syncer.LabelServiceName] = member, replica
	return s
}

func endpointAt(address string, ready bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(ready), Serving: new(ready), Terminating: new(false)}}
}

// bench is a cache that counts its news.
type bench struct {
	*Cache
	news []string
}

func newBench() *bench {
	b := &bench{}
	b.Cache = New("test", func(replica syncer.Key, o plan.Object, _ time.Time) {
		b.news = append(b.news, o.String()+" → "+replica.String())
	})
	for kind := range Kinds {
		b.Sink(plan.Kind(kind)).Listed(nil, 1)
	}
	return b
}

func (b *bench) seen(in runtime.Object) *Object {
	o := Decode(in, "test")
	key := syncer.Key{Namespace: o.Namespace, Name: o.Name}
	b.Sink(o.Kind).Event(kube.Versioned[Object]{Object: o, Key: key, UID: o.UID, Revision: o.Revision}, time.Now())
	return o
}

func TestCurrentIsWhatStandsUnderAName(t *testing.T) {
	b := newBench()
	b.seen(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", ResourceVersion: "2", UID: "n"}})
	before := b.Current(syncer.Key{Namespace: "shop", Name: "web"})
	b.seen(&corev1.Service{ObjectMeta: ours("web", "web"), Spec: corev1.ServiceSpec{ClusterIP: "None"}})
	b.seen(sliceOf("web-b-0", "web", "b", endpointAt("10.0.0.2", false)))
	b.seen(sliceOf("web-a-0", "web", "a", endpointAt("10.0.0.1", true)))
	foreign := sliceOf("web-x", "web", "a", endpointAt("10.0.0.9", true))
	foreign.Labels[syncer.LabelInstance] = "other"
	b.seen(foreign)
	computed := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-abcde", UID: "c", ResourceVersion: "3",
		Labels: map[string]string{syncer.LabelServiceName: "web", syncer.LabelSliceManagedBy: syncer.SliceComputed}}}
	b.seen(computed) // as a read shows it, the stream never does
	now := b.Current(syncer.Key{Namespace: "shop", Name: "web"})

	if before.Service != nil || before.Namespace != plan.NamespaceActive || len(before.Slices) != 0 {
		t.Errorf("what was handed out has changed: %+v", before)
	}
	if now.Service == nil || !now.Service.Owned || now.Service.ClusterIP != "None" || now.Endpoints != nil {
		t.Errorf("the Service is %+v, the Endpoints %+v", now.Service, now.Endpoints)
	}
	var names []string
	for _, s := range now.Slices {
		names = append(names, s.Name)
	}
	if want := []string{"web-a-0", "web-b-0", "web-x"}; !reflect.DeepEqual(names, want) || now.Slices[2].Owned || len(now.Slices[2].Endpoints) > 0 ||
		now.Slices[2].Labels.Get(syncer.LabelInstance) != "other" {
		t.Errorf("the slices are %v, want %v, and the last of another installation: %+v", names, want, now.Slices)
	}
	if got := b.Published("a", func(string) int { return 0 }); len(got) != 1 || len(got[now.Key]) != 1 || got[now.Key][0].Grade != syncer.Ready {
		t.Errorf("published of a is %+v", got)
	}
	if got := b.Keys(); len(got) != 1 {
		t.Errorf("ours are %v", got)
	}
}

// A namespace concerns all in it, an object that moves to another replica both replicas.
func TestNews(t *testing.T) {
	b := newBench()
	b.seen(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", ResourceVersion: "2", UID: "n"}})
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "u", ResourceVersion: "3"}}
	b.seen(theirs)
	b.seen(theirs) // no news
	b.seen(sliceOf("web-a-0", "web", "a"))
	moved := sliceOf("web-a-0", "api", "a")
	moved.ResourceVersion = "8"
	b.seen(moved)
	b.Sink(plan.KindEndpointSlice).Event(kube.Versioned[Object]{Key: syncer.Key{Namespace: "shop", Name: "web-a-0"}, UID: "uid-web-a-0", Revision: 9}, time.Now())
	want := []string{"Namespace shop → shop/", "Service shop/db → shop/db", "EndpointSlice shop/web-a-0 → shop/web",
		"EndpointSlice shop/web-a-0 → shop/web", "EndpointSlice shop/web-a-0 → shop/api", "EndpointSlice shop/web-a-0 → shop/api"}
	if !reflect.DeepEqual(b.news, want) {
		t.Errorf("the news is\n%q, want\n%q", b.news, want)
	}
}

// What we deleted does not come back by a late event, but does by an answer; what others
// deleted does not by an answer that is older.
func TestDeletedComesBackByAnAnswer(t *testing.T) {
	b := newBench()
	k := syncer.Key{Namespace: "shop", Name: "web"}
	object := &corev1.Endpoints{ObjectMeta: ours("web", "web")}
	o := b.seen(object)
	b.Take(&Object{Object: o.Object, UID: o.UID, Gone: true}, 0)
	if b.seen(object); b.Current(k).Endpoints != nil {
		t.Error("a late event brings back what we deleted")
	}
	if b.Take(Decode(object, "test"), 0); b.Current(k).Endpoints == nil {
		t.Error("an answer does not show the current object")
	}
	object.ResourceVersion = "8"
	late := Decode(object, "test")
	b.seen(object)
	b.Sink(plan.KindEndpoints).Event(kube.Versioned[Object]{Key: k, UID: o.UID, Revision: 9}, time.Now())
	if b.Take(late, 0); b.Current(k).Endpoints != nil {
		t.Error("a late answer brings back what others deleted")
	}
	object.ResourceVersion = "10"
	o = b.seen(object)
	b.Take(&Object{Object: o.Object, UID: o.UID, Gone: true}, 0)
	restored := Decode(object, "test") // by a store whose revisions were raised
	b.Sink(plan.KindEndpoints).Listed([]kube.Versioned[Object]{{Object: restored, Key: k, UID: o.UID, Revision: 10}}, 1000)
	if b.Current(k).Endpoints == nil || !strings.HasSuffix(b.news[len(b.news)-1], "shop/web") {
		t.Error("what a restored store has brought back goes unseen")
	}
}

func TestSyncedOnceAllIsListed(t *testing.T) {
	c := New("test", func(syncer.Key, plan.Object, time.Time) { t.Error("a first list is no news") })
	for i := range Kinds {
		s := c.Sink(plan.Kind(i))
		if c.HasSynced() {
			t.Fatalf("synced before %s", plan.Kind(i))
		}
		s.Following(false, errTest)
		if c.Trouble() == nil {
			t.Error("a stream is refused, and there is no trouble")
		}
		s.Following(true, nil)
		var all []kube.Versioned[Object]
		if i == 1 {
			o := Decode(&corev1.Service{ObjectMeta: ours("web", "web")}, "test")
			all = append(all, kube.Versioned[Object]{Object: o, UID: o.UID, Revision: o.Revision})
		}
		s.Listed(all, 9)
	}
	if !c.HasSynced() || c.Trouble() != nil || len(c.Keys()) != 1 {
		t.Errorf("trouble: %v, ours: %v", c.Trouble(), c.Keys())
	}
}

func TestMalformedSlicesAreNoticed(t *testing.T) {
	good := func() *discoveryv1.EndpointSlice { return sliceOf("web-a-0", "web", "a", endpointAt("10.0.0.1", true)) }
	if Decode(good(), "test").slice().Malformed {
		t.Fatal("what we write counts as malformed")
	}
	for name, damage := range map[string]func(*discoveryv1.EndpointSlice){
		"no port name":     func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = nil },
		"no port protocol": func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = nil },
		"no port number":   func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil },
		"no ready":         func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = nil },
		"no serving":       func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Serving = nil },
		"no terminating":   func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Terminating = nil },
		"no address":       func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = nil },
		"two addresses":    func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.0.0.1", "10.0.0.2"} },
		"a name":           func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"example.com"} },
		"not canonical":    func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"fd00:0::1"} },
		"hints":            func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints = &discoveryv1.EndpointHints{} },
		"topology":         func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].DeprecatedTopology = map[string]string{"a": "b"} },
	} {
		s := good()
		if damage(s); !Decode(s, "test").slice().Malformed {
			t.Errorf("%s goes unnoticed", name)
		}
	}
}

func TestReserveIsReadFromTheAnnotation(t *testing.T) {
	for annotation, want := range map[string][3]syncer.Grade{
		"":                  {syncer.Ready, syncer.NotReady, syncer.NotReady},
		"all":               {syncer.Reserve, syncer.Reserve, syncer.NotReady},
		"10.0.0.2":          {syncer.Ready, syncer.Reserve, syncer.NotReady},
		"10.0.0.1,10.0.0.3": {syncer.Reserve, syncer.NotReady, syncer.NotReady},
	} {
		last := endpointAt("10.0.0.3", true)
		last.Conditions.Terminating = new(true)
		s := sliceOf("web-a-0", "web", "a", endpointAt("10.0.0.1", true), endpointAt("10.0.0.2", false), last)
		s.Annotations[syncer.AnnotationReserve] = annotation
		for i, e := range Decode(s, "test").slice().Endpoints {
			if e.Grade != want[i] {
				t.Errorf("%q: %s is %s, want %s", annotation, e.Addr, e.Grade, want[i])
			}
		}
	}
}

// A target is read back as it was written, whatever it is.
func TestTargetsAreReadBack(t *testing.T) {
	const uuid = "0b9a4c1e-62f7-4d0b-9c5e-0123456789ab"
	for _, target := range []*corev1.ObjectReference{
		nil, {}, {Kind: "Pod", Namespace: "shop", Name: "p", UID: uuid}, {Kind: "Pod", Namespace: "shop", UID: uuid, APIVersion: shortened},
		{Kind: "Pod", Namespace: "shop", Name: "p"}, {Kind: "Pod", Namespace: "shop", UID: "0123456789abcdef", APIVersion: shortened},
		{Kind: "Pod", Namespace: "other", UID: uuid}, {Kind: "VM", Namespace: "shop", UID: uuid}, {Kind: "Pod", Namespace: "shop", UID: "0B9A4C1E-62f7-4d0b-9c5e-0123456789ab"},
	} {
		var want syncer.TargetRef
		if target != nil {
			want = syncer.TargetRef{Kind: target.Kind, Key: syncer.Key{Namespace: target.Namespace, Name: target.Name}, UID: string(target.UID)}
		}
		at := endpointAt("10.0.0.1", true)
		at.TargetRef = target
		addresses := []corev1.EndpointAddress{{IP: "10.0.0.1", TargetRef: target}}
		e := &corev1.Endpoints{ObjectMeta: ours("web", "web"), Subsets: []corev1.EndpointSubset{{Addresses: addresses, NotReadyAddresses: addresses}}}
		subset := Decode(e, "test").endpoints().Subsets[0]
		for _, got := range []syncer.TargetRef{Decode(sliceOf("web-a-0", "web", "a", at), "test").slice().Endpoints[0].Target, subset.Ready[0].Target, subset.NotReady[0].Target} {
			if got != want {
				t.Errorf("read back as %+v, want %+v", got, want)
			}
		}
	}
}

// An object of somebody else costs its identity and nothing else, and a clone of ours is
// nobody's.
func TestForeignObjectsAreStoredSmall(t *testing.T) {
	clone := ours("copy", "web")
	for _, in := range []runtime.Object{
		&corev1.Service{ObjectMeta: clone, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Port: 1}}}},
		&corev1.Endpoints{ObjectMeta: clone, Subsets: []corev1.EndpointSubset{{}}},
	} {
		o := Decode(in, "test")
		meta := plan.Meta{UID: "uid-copy", ResourceVersion: "7", Labels: syncer.LabelInstance + "=test"}
		got, _ := o.read(&corev1.Service{}) // the metadata of all kinds is alike
		got.Rest = nil
		if o.Owned || o.Replica.Name != "copy" || len(o.content) > 100 || !reflect.DeepEqual(got, meta) {
			t.Errorf("%T is stored as %+v %q", in, got, o.content)
		}
	}
	if Decode(&corev1.Pod{}, "test") != nil {
		t.Error("a pod is stored")
	}
}

type testError string

func (e testError) Error() string { return string(e) }

const errTest = testError("refused")
