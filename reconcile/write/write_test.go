// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
)

// Each answer has a meaning, and after one that says that the object is another now, Send returns
// that.
func TestAnswers(t *testing.T) {
	d, b := newValues(t), newBench(t, apitest.New(t))
	defer b.session.Close()
	create := d.action(plan.KindEndpointSlice)
	o, err := b.Send(t.Context(), create)
	if err != nil {
		t.Fatal(err)
	}
	old := plan.Action{Verb: plan.Delete, Kind: create.Kind, Replica: web, Name: create.Name, UID: o.UID, ResourceVersion: "1"}
	other, absent, homeless, fresh := old, old, create, create
	_, meta := current(o)
	other.UID, other.ResourceVersion = "uid-of-another", meta.ResourceVersion
	absent.Name, fresh.Name = "web-a-1", "web-a-2"
	homeless.Replica.Namespace = "nowhere"
	update := create
	update.Verb, update.UID, update.ResourceVersion = plan.Update, "uid-of-another", meta.ResourceVersion
	status := func(code int) func(apitest.Request) *apitest.Fault {
		return func(apitest.Request) *apitest.Fault { return &apitest.Fault{Status: code} }
	}
	refused := func(err error) func(apitest.Request) *apitest.Fault {
		return func(apitest.Request) *apitest.Fault {
			b.server.Refuse(func(apitest.Object) (field.ErrorList, error) { return nil, err })
			return nil
		}
	}
	later := apierrors.NewTooManyRequests("later", 7)
	busy := apierrors.NewServerTimeout(discoveryv1.Resource("endpointslices"), "create", 3)
	for _, c := range []struct {
		name   string
		action plan.Action
		fault  func(apitest.Request) *apitest.Fault
		want   metrics.WriteResult
		object string // by UID; "gone", or nothing is known
		after  time.Duration
	}{
		{"it exists already", create, nil, metrics.WriteExists, o.UID, 0},
		{"it has changed since", old, nil, metrics.WriteConflict, o.UID, 0},
		{"another is deleted", other, nil, metrics.WriteConflict, o.UID, 0},
		{"another is updated", update, nil, metrics.WriteConflict, o.UID, 0},
		{"it is not there", absent, nil, metrics.WriteNotFound, "gone", 0},
		{"its namespace is not there", homeless, nil, metrics.WriteNotFound, "", 0},
		{"too many", fresh, refused(later), metrics.WriteThrottled, "", 7 * time.Second},
		{"too many, for nobody knows how long", create, status(http.StatusTooManyRequests), metrics.WriteThrottled, "", time.Second},
		{"not allowed", create, status(http.StatusForbidden), metrics.WriteForbidden, "", 0},
		{"a webhook's code", create, status(http.StatusTeapot), metrics.WriteInvalid, "", 0},
		{"a webhook that is away", create, status(http.StatusInternalServerError), metrics.WriteFailed, "", 0},
		{"busy", fresh, refused(busy), metrics.WriteTimeout, "", 3 * time.Second},
		{"cut", create, func(apitest.Request) *apitest.Fault { return &apitest.Fault{Cut: true} }, metrics.WriteFailed, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.server.Intercept(c.fault)
			o, err := b.Send(t.Context(), c.action)
			if Meaning(err) != c.want || kube.RetryAfter(err) != c.after || !strings.Contains(err.Error(), c.action.Object().String()) {
				t.Fatalf("the error is %v (%s, after %v), want %s", err, Meaning(err), kube.RetryAfter(err), c.want)
			}
			object := ""
			if o != nil {
				if object = o.UID; o.Gone {
					object = "gone"
				}
			}
			if object != c.object {
				t.Errorf("the object is %q, want %q", object, c.object)
			}
			if less := TakesLess(c.want); less == slices.Contains([]metrics.WriteResult{metrics.WriteConflict, metrics.WriteExists, metrics.WriteNotFound, metrics.WriteThrottled}, c.want) {
				t.Errorf("after %s less is sent: %t", c.want, less)
			}
		})
	}
	b.server.Intercept(nil)
	b.server.Refuse(func(apitest.Object) (field.ErrorList, error) {
		return field.ErrorList{field.Invalid(field.NewPath("endpoints"), "10.0.0.1", "no")}, nil
	})
	if _, err := b.Send(t.Context(), fresh); Meaning(err) != metrics.WriteInvalid {
		t.Errorf("a refusal is %s: %v", Meaning(err), err)
	}
	if want := "create EndpointSlice invalid"; b.written[len(b.written)-1] != want {
		t.Errorf("counted is %q, want %q", b.written[len(b.written)-1], want)
	}
}

// Nothing that can hold up a removal hangs for longer than five seconds.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := newValues(t), newBench(t, apitest.NewInMemory(t))
		b.server.Intercept(func(req apitest.Request) *apitest.Fault { return &apitest.Fault{Hang: true} })
		service := d.action(plan.KindService)
		for _, c := range []struct {
			action plan.Action
			want   time.Duration
		}{
			{inLane(service, plan.Addition), otherDeadline},
			{inLane(service, plan.Removal), addressDeadline},
			{inLane(d.action(plan.KindEndpoints), plan.Addition), addressDeadline},
			{inLane(d.action(plan.KindEndpointSlice), plan.Bulk), addressDeadline},
		} {
			start := time.Now()
			_, err := b.Send(t.Context(), c.action)
			if took := time.Since(start); Meaning(err) != metrics.WriteTimeout || took < c.want || took > c.want+time.Second {
				t.Errorf("%s of %s hangs for %v (%v), want %v", c.action.Verb, c.action.Object(), took, err, c.want)
			}
			time.Sleep(time.Minute) // or the next shares the failure of a connection that is being made
		}
		b.session.Close()
		b.server.Close()
	})
}

func TestNamespaceIsMade(t *testing.T) {
	b := newBench(t, apitest.New(t))
	defer b.session.Close()
	a := plan.Action{Verb: plan.Create, Kind: plan.KindNamespace, Replica: web, Name: "new"}
	a.Replica.Namespace = "new"
	o, err := b.Send(t.Context(), a)
	if err != nil || o.State != plan.NamespaceActive || o.Object != a.Object() {
		t.Fatalf("made is %+v, %v", o, err)
	}
	ns, _ := apitest.Get[*corev1.Namespace](b.server, "", "new")
	if !metav1.HasLabel(ns.ObjectMeta, "tributary.dev/instance") {
		t.Errorf("its labels are %v", ns.Labels)
	}
	if o, err = b.Send(t.Context(), a); Meaning(err) != metrics.WriteExists || o == nil || o.State != plan.NamespaceActive {
		t.Errorf("another one found %+v, %v", o, err)
	}
}
