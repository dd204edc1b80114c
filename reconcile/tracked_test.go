// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/cache"
)

// The server is told to forget who set which field where that was only us, and is
// left to it where somebody else is on record.
func TestServersNeedNotTrackOurFields(t *testing.T) {
	now := metav1.NewTime(time.Unix(1700000000, 0))
	entry := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time: &now, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{}}`)}}
	}
	for _, test := range []struct {
		name     string
		managers []string
		left     int
	}{
		{"only us", []string{cache.FieldManager}, 0},
		{"us twice, once for a subresource", []string{cache.FieldManager, cache.FieldManager}, 0},
		{"somebody else too", []string{cache.FieldManager, "kubectl-client-side-apply"}, 2},
		{"nobody", nil, 0},
	} {
		for _, streamed := range []bool{true, false} {
			t.Run(test.name, func(t *testing.T) {
				g := running(t)
				entries := []metav1.ManagedFieldsEntry{} // nobody is not the same as nothing said
				for _, m := range test.managers {
					entries = append(entries, entry(m))
				}
				slice := g.sliceName("a")
				apitest.Edit(t, g.server, "shop", "web", func(ep *corev1.Endpoints) { ep.ManagedFields = entries })
				apitest.Edit(t, g.server, "shop", slice, func(es *discoveryv1.EndpointSlice) { es.ManagedFields = entries })
				if streamed { // seen by a list instead of a watch event
					g.stop()
					g.start()
				}
				g.wait("the edit is seen", func() bool {
					ep, _ := apitest.Get[*corev1.Endpoints](g.server, "shop", "web")
					seen := g.rec.cache.Lookup(cache.Decoder{}.Endpoints(ep).ID)
					es, _ := apitest.Get[*discoveryv1.EndpointSlice](g.server, "shop", slice)
					seenSlice := g.rec.cache.Lookup(cache.Decoder{}.Slice(es).ID)
					return seen != nil && seen.Version() == ep.ResourceVersion && seenSlice != nil && seenSlice.Version() == es.ResourceVersion
				})
				g.settle()
				g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
				g.settle()
				g.expect(web, "10.0.0.2")
				ep, _ := apitest.Get[*corev1.Endpoints](g.server, "shop", "web")
				es, _ := apitest.Get[*discoveryv1.EndpointSlice](g.server, "shop", slice)
				if len(ep.ManagedFields) != test.left || len(es.ManagedFields) != test.left {
					t.Errorf("managed fields %+v and %+v, want %d entries", ep.ManagedFields, es.ManagedFields, test.left)
				}
			})
		}
	}
}
