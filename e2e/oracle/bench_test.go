// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/endpoint"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

const benchNamespace = "shop"

// crowd is a namespace of many pods, ten for each Service.
func crowd(pods int) (services []*corev1.Service, list []*corev1.Pod) {
	for i := range pods {
		app := fmt.Sprintf("app-%d", i/10)
		if i%10 == 0 {
			services = append(services, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: app, CreationTimestamp: metav1.Unix(1_700_000_000, 0)},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app}, ClusterIP: "10.96.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
					Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}}})
			services[len(services)-1].Spec.Ports[0].TargetPort.IntVal = 8080
		}
		ip := fmt.Sprintf("10.%d.%d.%d", 1+i/62500, i/250%250, i%250+1)
		list = append(list, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: fmt.Sprintf("pod-%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i)),
				ResourceVersion: "1", Labels: map[string]string{"app": app, "pod-template-hash": "5d8f7c", "team": "web"}},
			Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%100)},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1_700_000_100, 0)}}}})
	}
	return services, list
}

var crowdSizes = []int{10, 1000, 10_000}

// BenchmarkUpstreamSyncService is one sync of a Service with ten pods in
// upstream's endpoints controller, which lists the pods of the namespace.
func BenchmarkUpstreamSyncService(b *testing.B) {
	for _, size := range crowdSizes {
		b.Run(fmt.Sprintf("pods=%d", size), func(b *testing.B) {
			controller, stop := upstreamController(b, size)
			defer stop()
			b.ReportAllocs()
			for b.Loop() {
				if err := syncService(controller, b.Context(), benchNamespace+"/app-0"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func upstreamController(b *testing.B, size int) (c *endpoint.Controller, stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	client := fake.NewSimpleClientset()
	client.PrependReactor("create", "endpoints", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	// The stores are filled directly, so that no event handler of the controller
	// runs beside the measurement.
	services, pods := crowd(size)
	for _, s := range services {
		must(b, core.Services().Informer().GetStore().Add(s))
	}
	for _, p := range pods {
		must(b, core.Pods().Informer().GetStore().Add(p))
	}
	c = endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
	return c, func() {
		cancel()
		c.Run(ctx, 0) // ends its queues
	}
}

// BenchmarkOurs does the same work with our store and rules: gather the Service's
// pods, compute, and build the Endpoints' subsets.
func BenchmarkOurs(b *testing.B) {
	for _, size := range crowdSizes {
		b.Run(fmt.Sprintf("pods=%d", size), func(b *testing.B) {
			s := store.New(store.Options{})
			decoder := decode.New(decode.Options{})
			services, pods := crowd(size)
			for _, svc := range services {
				s.SetService(decoder.Service(svc))
			}
			for _, p := range pods {
				s.SetPod(decoder.Pod(p))
			}
			key := syncer.Key{Namespace: benchNamespace, Name: "app-0"}
			b.ReportAllocs()
			for b.Loop() {
				c, _ := s.Contribution(key, time.Time{})
				subsets, _ := syncer.Truncate(syncer.Subsets(c.Endpoints), syncer.EndpointsCapacity)
				if len(subsets) != 1 || len(subsets[0].Ready) != 10 {
					b.Fatalf("%+v", subsets)
				}
			}
		})
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
