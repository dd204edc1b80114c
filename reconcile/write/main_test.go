// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package write

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var web = syncer.Key{Namespace: "shop", Name: "web"}

// bench is a writer with its server.
type bench struct {
	*testing.T
	*Writer
	server  *apitest.Server
	session *kube.Session
	written []string
}

// newBench starts a server in which the namespace exists.
func newBench(t *testing.T, server *apitest.Server) *bench {
	server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	session, err := kube.Open(t.Context(), server.Config(""), kube.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, server: server, session: session}
	b.Writer = New(func(context.Context) (*kube.Session, error) { return session, nil }, "test", func(kind, verb string, result metrics.WriteResult) {
		b.written = append(b.written, fmt.Sprint(verb, " ", kind, " ", result))
	})
	return b
}

// inLane is the action with another lane, which only package plan chooses.
func inLane(a plan.Action, lane plan.Lane) plan.Action {
	field, ok := reflect.TypeFor[plan.Action]().FieldByName("lane")
	if !ok || field.Type != reflect.TypeFor[plan.Lane]() {
		panic("plan.Action has no lane")
	}
	*(*plan.Lane)(unsafe.Add(unsafe.Pointer(&a), field.Offset)) = lane
	return a
}

// values draws what the API accepts.
type values struct{ *rand.Rand }

func newValues(t *testing.T) values { return values{dice.New(t)} }

func (d values) one(values ...string) string { return values[d.IntN(len(values))] }

func (d values) addr(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n), byte(d.IntN(256)), byte(1 + d.IntN(254))})
}

func (d values) target() syncer.TargetRef {
	if d.IntN(3) == 0 {
		return syncer.TargetRef{}
	}
	return syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: "shop", Name: fmt.Sprint("p", d.IntN(99))}, UID: fmt.Sprint("u", d.IntN(99))}
}

func (d values) ports() (out []syncer.Port) {
	for i := range 1 + d.IntN(3) {
		p := syncer.Port{Name: fmt.Sprint("port-", i), Protocol: d.one("TCP", "UDP", "SCTP"), Number: int32(1 + d.IntN(65535))}
		if d.IntN(2) == 0 {
			p.AppProtocol = syncer.AppProtocol{Value: d.one("kubernetes.io/h2c", "http"), Set: true}
		}
		out = append(out, p)
	}
	return out
}

func (d values) addresses(subset, least int) (out []syncer.Address) {
	for i := range least + d.IntN(4) {
		out = append(out, syncer.Address{Addr: d.addr(8*subset + i), Hostname: d.one("", "web-0"), NodeName: d.one("", "n1"), Target: d.target()})
	}
	return out
}

// action is a creation of a kind with contents.
func (d values) action(kind plan.Kind) plan.Action {
	a := plan.Action{
		Verb: plan.Create, Kind: kind, Replica: web, Name: web.Name,
		Labels:      map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: "test", "tier": d.one("", "front")},
		Annotations: map[string]string{syncer.AnnotationReplica: web.String(), "a": d.one("b", "c")},
	}
	switch kind {
	case plan.KindService:
		a.Service = &plan.ServiceSpec{Ports: []syncer.ServicePort{}}
		for _, p := range d.ports() {
			port := syncer.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Number, Target: syncer.TargetPort{Number: 1 + int32(d.IntN(65535))}, AppProtocol: p.AppProtocol}
			if d.IntN(2) == 0 {
				port.Target = syncer.TargetPort{Name: "web"}
			}
			a.Service.Ports = append(a.Service.Ports, port)
		}
	case plan.KindEndpoints:
		a.Endpoints = &plan.EndpointsSpec{Subsets: []syncer.Subset{}}
		for i := range d.IntN(4) {
			a.Endpoints.Subsets = append(a.Endpoints.Subsets, syncer.Subset{Ready: d.addresses(2*i, 1), NotReady: d.addresses(2*i+1, 0), Ports: d.ports()})
		}
	case plan.KindEndpointSlice:
		a.Name, a.Owner = "web-a-0", "uid-1"
		a.Labels[syncer.LabelSliceManagedBy], a.Labels[syncer.LabelServiceName], a.Labels[syncer.LabelSourceCluster] = syncer.SliceManagedBy, web.Name, "a"
		a.Slice = &syncer.Slice{Name: a.Name, Family: syncer.IPv4, Ports: d.ports(), Endpoints: []syncer.Endpoint{}}
		for i := range d.IntN(5) {
			e := syncer.Endpoint{
				Addr: d.addr(i), Ready: d.IntN(2) == 0, Serving: d.IntN(2) == 0, Terminating: d.IntN(3) == 0,
				Hostname: d.one("", "web-0"), NodeName: d.one("", "n1"), Zone: d.one("", "z"), Target: d.target(),
			}
			e.Grade = e.PublishedGrade(false)
			a.Slice.Endpoints = append(a.Slice.Endpoints, e)
		}
	}
	return a
}
