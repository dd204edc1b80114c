// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reality checks the models of package simulation: the same random requests go to a model
// and to a real kube-apiserver, and the answers are compared.
package reality

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/e2e/cluster"
	api "tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/internal/dice"
)

var requests = flag.Int("requests", 1500, "how many requests are compared")

// both is a model and a real server, with the versions that each object had in both, which are used
// in preconditions.
type both struct {
	*testing.T
	*rand.Rand
	model    *api.Server
	real     kubernetes.Interface
	versions map[api.ID][]pair
}

// pair is one version of an object, in the model and in reality.
type pair struct{ model, real api.Object }

func TestModelsAnswerAsServersDo(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Name: "reality", Dir: t.TempDir(), APIServerFlags: []string{"--watch-cache=false", "--etcd-compaction-interval=1s"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &both{T: t, Rand: dice.New(t), model: api.NewServer(1, time.Now), real: c.Client(), versions: map[api.ID][]pair{}}
	for _, name := range []string{"open", "closing"} {
		b.compare("create namespace "+name, func() (runtime.Object, error) {
			return b.model.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: nil}})
		}, func() (runtime.Object, error) {
			return b.real.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		})
	}
	watches := b.watch()
	for n := range *requests {
		if n == *requests*3/4 { // from here on one namespace is terminating
			b.compare("delete namespace closing", func() (runtime.Object, error) {
				_, err := b.model.Delete(api.ID{Kind: api.Namespaces, Name: "closing"}, nil)
				return nil, err
			}, func() (runtime.Object, error) {
				return nil, b.real.CoreV1().Namespaces().Delete(t.Context(), "closing", metav1.DeleteOptions{})
			})
		}
		b.request()
		if n%50 == 0 {
			b.list()
		}
		if t.Failed() {
			return
		}
	}
	watches()
	b.expired()
}

var kinds = []api.Kind{api.Services, api.Endpoints, api.EndpointSlices}

// request sends one random request to both.
func (b *both) request() {
	id := api.ID{Kind: kinds[b.IntN(3)], Namespace: []string{"open", "closing"}[b.IntN(2)], Name: fmt.Sprintf("o%d", b.IntN(4))}
	known := b.versions[id]
	var at pair
	if len(known) > 0 { // mostly the latest
		at = known[len(known)-1-min(b.IntN(6)/4*b.IntN(len(known)), len(known)-1)]
	}
	switch b.IntN(4) {
	case 0:
		o := b.object(id)
		b.take(id, "create "+id.String(), func() (runtime.Object, error) { return b.model.Create(o.DeepCopyObject().(api.Object)) }, func() (runtime.Object, error) { return b.send("POST", id, o) })
	case 1, 2:
		o, conditional := b.object(id), b.IntN(4)
		with := func(of api.Object) api.Object {
			copied := o.DeepCopyObject().(api.Object)
			if of != nil && conditional > 0 {
				copied.SetUID(of.GetUID())
			}
			if of != nil && conditional > 1 {
				copied.SetResourceVersion(of.GetResourceVersion())
			}
			return copied
		}
		b.take(id, fmt.Sprintf("update %s, condition %d", id, conditional),
			func() (runtime.Object, error) { return b.model.Update(with(at.model)) }, func() (runtime.Object, error) { return b.send("PUT", id, with(at.real)) })
	default:
		conditional := b.IntN(4)
		with := func(of api.Object) *metav1.Preconditions {
			p := &metav1.Preconditions{}
			if of != nil && conditional > 0 {
				p.UID = new(of.GetUID())
			}
			if of != nil && conditional > 1 {
				p.ResourceVersion = new(of.GetResourceVersion())
			}
			return p
		}
		b.compare(fmt.Sprintf("delete %s, condition %d", id, conditional), func() (runtime.Object, error) {
			_, err := b.model.Delete(id, with(at.model))
			return nil, err
		}, func() (runtime.Object, error) {
			return nil, b.client(id).Delete().Namespace(id.Namespace).Resource(resource(id)).Name(id.Name).
				Body(&metav1.DeleteOptions{Preconditions: with(at.real)}).Do(context.Background()).Error()
		})
	}
	other := api.ID{Kind: kinds[b.IntN(3)], Namespace: id.Namespace, Name: id.Name} // deleting a Service deletes its Endpoints
	b.take(other, "get "+other.String(), func() (runtime.Object, error) { return b.model.Get(other) }, func() (runtime.Object, error) { return b.send("GET", other, nil) })
}

// object returns a random object of a name.
func (b *both) object(id api.ID) api.Object {
	m := metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, Labels: map[string]string{"n": strconv.Itoa(b.IntN(3))},
		ManagedFields: []metav1.ManagedFieldsEntry{{}}} // as Tributary does, to have no field managers
	if b.IntN(8) == 0 {
		m.Finalizers = []string{"example.com/wait"}
	}
	switch id.Kind {
	case api.Services:
		svc := &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: []string{"None", "None", "None", ""}[b.IntN(4)],
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80 + int32(b.IntN(2))}}}}
		svc.Spec.Ports[0].TargetPort.IntVal = 8080
		if b.IntN(8) == 0 { // allowed only for a headless one
			svc.Spec.Ports = nil
		}
		return svc
	case api.Endpoints:
		e := &corev1.Endpoints{ObjectMeta: m, Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: b.address()}}, Ports: []corev1.EndpointPort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}}
		if b.IntN(8) == 0 {
			e.Subsets[0].Addresses = nil
		}
		return e
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: m, AddressType: []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}[b.IntN(3)],
		Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP)}}}
	if slice.AddressType == discoveryv1.AddressTypeIPv4 && b.IntN(2) == 0 {
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{b.address()}}}
	} else if b.IntN(8) == 0 {
		slice.AddressType = ""
	}
	return slice
}

// address returns a valid or invalid address.
func (b *both) address() string {
	return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.1", "10.0.0.2", "127.0.0.1", "0.0.0.0", "169.254.1.1", "here"}[b.IntN(9)]
}

func resource(id api.ID) string { return strings.Fields(id.String())[0] }

func (b *both) client(id api.ID) rest.Interface {
	if id.Kind == api.EndpointSlices {
		return b.real.DiscoveryV1().RESTClient()
	}
	return b.real.CoreV1().RESTClient()
}

// send sends a request to the real server.
func (b *both) send(verb string, id api.ID, o api.Object) (runtime.Object, error) {
	r := b.client(id).Verb(verb).Namespace(id.Namespace).Resource(resource(id)).MaxRetries(0)
	if verb != "POST" {
		r = r.Name(id.Name)
	}
	if o != nil {
		r = r.Body(o)
	}
	return r.Do(context.Background()).Get()
}

// compare sends a request to both, and compares the answers.
func (b *both) compare(what string, model, real func() (runtime.Object, error)) (m, r runtime.Object) {
	m, no := model()
	r, none := real()
	if of, is := apierrors.ReasonForError(no), apierrors.ReasonForError(none); of != is {
		b.Errorf("%s: the model answers %q (%v), a server %q (%v)", what, of, no, is, none)
	}
	if no != nil || none != nil {
		return nil, nil
	}
	return m, r
}

// take compares a request whose answer is an object, and stores that.
func (b *both) take(id api.ID, what string, model, real func() (runtime.Object, error)) {
	m, r := b.compare(what, model, real)
	if m == nil || r == nil {
		return
	}
	is := pair{m.(api.Object), r.(api.Object)}
	last := is.real.GetDeletionTimestamp() != nil && len(is.real.GetFinalizers()) == 0 // that deleted it
	if known := b.versions[id]; len(known) > 0 && !last {
		was := known[len(known)-1]
		changed := func(a, b api.Object) bool {
			return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
		}
		if changed(was.model, is.model) != changed(was.real, is.real) {
			b.Errorf("%s: in the model the version changed: %t, in reality %t", what, !changed(was.model, is.model), !changed(was.real, is.real))
		}
	}
	if of, is := plain(is.model), plain(is.real); !reflect.DeepEqual(of, is) {
		b.Errorf("%s: the model has\n%+v\na server\n%+v", what, of, is)
	}
	b.versions[id] = append(b.versions[id], is)
}

// plain returns an object without what legitimately differs between servers.
func plain(o api.Object) runtime.Object {
	c := o.DeepCopyObject().(api.Object)
	m := metav1.ObjectMeta{Namespace: c.GetNamespace(), Name: c.GetName(), Labels: c.GetLabels(), Finalizers: c.GetFinalizers()}
	if c.GetDeletionTimestamp() != nil {
		m.Annotations = map[string]string{"deleting": "yes"}
	}
	switch o := c.(type) {
	case *corev1.Service:
		o.TypeMeta, o.ObjectMeta = metav1.TypeMeta{}, m
		if o.Spec.ClusterIP != "None" {
			o.Spec.ClusterIP, o.Spec.ClusterIPs = "an address", nil
		}
	case *corev1.Endpoints:
		o.TypeMeta, o.ObjectMeta = metav1.TypeMeta{}, m
	case *discoveryv1.EndpointSlice:
		o.TypeMeta, o.ObjectMeta = metav1.TypeMeta{}, m
		if len(o.Endpoints) == 0 {
			o.Endpoints = nil
		}
	}
	return c
}

// list compares complete lists, read in pages.
func (b *both) list() {
	for _, kind := range kinds {
		id := api.ID{Kind: kind, Namespace: "open"}
		var model, real []string
		page, next, err := b.model.List(api.Query{Kind: kind, Namespace: "open", Labels: "n notin (1)"}, 2, nil)
		for ; err == nil; page, next, err = b.model.List(api.Query{Kind: kind, Namespace: "open", Labels: "n notin (1)"}, 2, next) {
			for _, o := range page.Items {
				model = append(model, o.GetName())
			}
			if next == nil {
				break
			}
		}
		options := metav1.ListOptions{LabelSelector: "n notin (1)", Limit: 2}
		for more := true; more; more = options.Continue != "" {
			list, err := b.client(id).Get().Namespace("open").Resource(resource(id)).VersionedParams(&options, scheme.ParameterCodec).Do(context.Background()).Get()
			if err != nil {
				b.Fatal(err)
			}
			_ = meta.EachListItem(list, func(o runtime.Object) error {
				real = append(real, o.(api.Object).GetName())
				return nil
			})
			l, _ := meta.ListAccessor(list)
			options.Continue = l.GetContinue()
		}
		if err != nil || !reflect.DeepEqual(model, real) {
			b.Errorf("%s: the model lists %v (%v), a server %v", resource(id), model, err, real)
		}
	}
}

// watch watches both, with a selector that objects stop and start to match. The returned function
// compares the events.
func (b *both) watch() (compare func()) {
	text := func(kind watch.EventType, o metav1.Object) string {
		return fmt.Sprint(kind, " ", o.GetNamespace(), "/", o.GetName(), " ", o.GetLabels()["n"])
	}
	var model []string
	b.model.Watch(api.Query{Kind: api.Services, Labels: "n notin (1)"}, ^uint64(0)>>1, func(api.Event) {}) // of the future: silent
	page, _, _ := b.model.List(api.Query{Kind: api.Services}, 0, nil)
	b.model.Watch(api.Query{Kind: api.Services, Labels: "n notin (1)"}, page.Revision, func(e api.Event) { model = append(model, text(e.Type, e.Object)) })
	list, err := b.real.CoreV1().Services("").List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	real, err := b.real.CoreV1().Services("").Watch(b.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "n notin (1)"})
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		for n, want := range model {
			e, open := <-real.ResultChan()
			if !open {
				b.Fatalf("the watch has ended after %d events", n)
			}
			if got := text(e.Type, e.Object.(metav1.Object)); got != want {
				b.Fatalf("event %d: the model shows %q, a server %q", n, want, got)
			}
		}
	}
}

// expired asks both for a watch from a compacted revision. The real server compacts every second.
func (b *both) expired() {
	b.model.Compact()
	var model error
	b.model.Watch(api.Query{Kind: api.Services}, 1, func(e api.Event) { model = e.Err })
	for {
		stream, err := b.real.CoreV1().Services("").Watch(b.Context(), metav1.ListOptions{ResourceVersion: "1"})
		if err == nil {
			err = apierrors.FromObject((<-stream.ResultChan()).Object)
			stream.Stop()
		}
		if of, is := apierrors.ReasonForError(model), apierrors.ReasonForError(err); of == is {
			return
		} else if b.Context().Err() != nil {
			b.Fatalf("to a watch from revision 1 the model answers %q, a server %q", of, is)
		}
		b.request() // time passes
	}
}
