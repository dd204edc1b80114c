// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package cache

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// All objects are followed except those that controllers make.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewInMemory(t)
		for _, name := range []string{"kube-system", "shop"} {
			server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		computed := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-abcde",
			Labels: map[string]string{syncer.LabelServiceName: "web", syncer.LabelSliceManagedBy: syncer.SliceComputed}}}
		server.Create(t, &corev1.Service{ObjectMeta: ours("web", "web"), Spec: corev1.ServiceSpec{ClusterIP: "None"}}, computed,
			&corev1.Endpoints{ObjectMeta: ours("web", "web")}, sliceOf("web-a-0", "web", "a", endpointAt("10.0.0.1", true)))

		ctx, cancel := context.WithCancel(t.Context())
		access := kube.NewAccess(func(ctx context.Context) (*kube.Session, error) {
			return kube.Open(ctx, server.Config(""), kube.Options{Version: "test"})
		})
		var mu sync.Mutex
		var news []string
		c := New("test", func(_ syncer.Key, o plan.Object, _ time.Time) {
			mu.Lock()
			defer mu.Unlock()
			news = append(news, o.String())
		})
		var group sync.WaitGroup
		group.Go(func() { c.Follow(ctx, access, func(err error) { t.Error(err) }) })
		if err := c.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		web := syncer.Key{Namespace: "shop", Name: "web"}
		now := c.Current(web)
		if now.Service == nil || now.Endpoints == nil || len(now.Slices) != 1 || now.Namespace != plan.NamespaceActive {
			t.Errorf("the current objects are %+v", now)
		}
		synctest.Wait()
		apitest.Edit(t, server, "shop", "web", func(e *corev1.Endpoints) { e.Subsets = []corev1.EndpointSubset{{}} })
		apitest.Edit(t, server, "shop", "web-abcde", func(s *discoveryv1.EndpointSlice) { s.Labels["a"] = "b" })
		apitest.Remove[*discoveryv1.EndpointSlice](t, server, "shop", "web-a-0")
		time.Sleep(time.Second)
		synctest.Wait()
		if now = c.Current(web); len(now.Endpoints.Subsets) != 1 || len(now.Slices) != 0 {
			t.Errorf("the current objects then are %+v", now)
		}
		mu.Lock()
		slices.Sort(news)
		if want := []string{"EndpointSlice shop/web-a-0", "Endpoints shop/web"}; !reflect.DeepEqual(news, want) {
			t.Errorf("the news is %q, want %q", news, want)
		}
		mu.Unlock()
		cancel()
		group.Wait()
		access.Close()
		server.Close()
	})
}
