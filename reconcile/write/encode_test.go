// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package write

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// content is what an action writes, or what an object has of it.
type content struct {
	Ports       []syncer.ServicePort
	Subsets     []syncer.Subset
	Slice       syncer.Slice
	Owner       string
	Labels      syncer.Labels
	Annotations map[string]string
}

func asked(a *plan.Action) content {
	c := content{Owner: a.Owner, Labels: syncer.LabelsOf(a.Labels), Annotations: a.Annotations}
	switch a.Kind {
	case plan.KindService:
		c.Ports = a.Service.Ports
	case plan.KindEndpoints:
		c.Subsets = a.Endpoints.Subsets
	case plan.KindEndpointSlice:
		c.Slice = *a.Slice
	}
	return c
}

// current is what the cache shows of an object that it took.
func current(o *cache.Object) (c content, m plan.Meta) {
	all := cache.New("test", nil)
	all.Take(o, 0)
	switch now := all.Current(web); o.Kind {
	case plan.KindService:
		c.Ports, m = now.Service.Ports, now.Service.Meta
	case plan.KindEndpoints:
		c.Subsets, m = now.Endpoints.Subsets, now.Endpoints.Meta
	case plan.KindEndpointSlice:
		c.Slice, c.Owner, m = now.Slices[0].Slice, now.Slices[0].Owner, now.Slices[0].Meta
	}
	c.Labels, c.Annotations = m.Labels, m.Annotations
	return c, m
}

// What is created, updated and deleted through a server is as it was asked for, and an update
// carries on what others put on it.
func TestRoundTrip(t *testing.T) {
	d, b := newValues(t), newBench(t, apitest.New(t))
	defer b.session.Close()
	for range 60 {
		for _, kind := range []plan.Kind{plan.KindService, plan.KindEndpoints, plan.KindEndpointSlice} {
			a := d.action(kind)
			o, err := b.Send(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			got, meta := current(o)
			if !o.Owned || !reflect.DeepEqual(got, asked(&a)) {
				t.Fatalf("asked for was\n%+v, current is\n%+v", asked(&a), got)
			}
			edit(b, kind, a.Name)
			o, _ = b.Send(t.Context(), a) // it exists already: a read shows the edit
			_, meta = current(o)
			next := d.action(kind)
			next.Verb, next.UID, next.ResourceVersion, next.Rest = plan.Update, meta.UID, meta.ResourceVersion, meta.Rest
			if o, err = b.Send(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			if got, meta = current(o); !reflect.DeepEqual(got, asked(&next)) {
				t.Fatalf("asked for was\n%+v, current is\n%+v", asked(&next), got)
			}
			unmanaged(b, kind, a.Name)
			next.ResourceVersion, next.Rest = meta.ResourceVersion, nil // or it would stay for its finalizer
			if o, err = b.Send(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			_, meta = current(o)
			remove := plan.Action{Verb: plan.Delete, Kind: kind, Replica: web, Name: a.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion}
			if o, err = b.Send(t.Context(), remove); err != nil || !o.Gone || o.UID != meta.UID || o.Object != a.Object() {
				t.Fatalf("deleted is %+v, %v", o, err)
			}
		}
	}
}

// edit is what somebody else puts on an object of ours.
func edit(b *bench, kind plan.Kind, name string) {
	change := func(m *metav1.ObjectMeta) {
		m.Finalizers = []string{"example.com/wait"}
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "uid-2"})
	}
	switch kind {
	case plan.KindService:
		apitest.Edit(b, b.server, "shop", name, func(o *corev1.Service) {
			change(&o.ObjectMeta)
			o.Spec.IPFamilies, o.Spec.Selector = []corev1.IPFamily{corev1.IPv6Protocol}, map[string]string{"app": "web"}
		})
	case plan.KindEndpoints:
		apitest.Edit(b, b.server, "shop", name, func(o *corev1.Endpoints) { change(&o.ObjectMeta) })
	case plan.KindEndpointSlice:
		apitest.Edit(b, b.server, "shop", name, func(o *discoveryv1.EndpointSlice) { change(&o.ObjectMeta) })
	}
}

// unmanaged fails unless an update retained what others put on the object, but for their record in
// managedFields and what no replica has.
func unmanaged(b *bench, kind plan.Kind, name string) {
	b.Helper()
	var m metav1.ObjectMeta
	owners := 1
	switch kind {
	case plan.KindService:
		o, _ := apitest.Get[*corev1.Service](b.server, "shop", name)
		if m = o.ObjectMeta; len(o.Spec.IPFamilies) != 1 || o.Spec.Selector != nil || o.Spec.ClusterIP != corev1.ClusterIPNone {
			b.Errorf("the Service's spec is %+v", o.Spec)
		}
	case plan.KindEndpoints:
		o, _ := apitest.Get[*corev1.Endpoints](b.server, "shop", name)
		m = o.ObjectMeta
	case plan.KindEndpointSlice:
		o, _ := apitest.Get[*discoveryv1.EndpointSlice](b.server, "shop", name)
		m, owners = o.ObjectMeta, 2
	}
	if len(m.Finalizers) != 1 || len(m.OwnerReferences) != owners || len(m.ManagedFields) != 0 {
		b.Errorf("%s has finalizers %v, owners %v, managed fields %v", kind, m.Finalizers, m.OwnerReferences, m.ManagedFields)
	}
}
