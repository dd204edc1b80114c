// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

// former is what a former version left in the ingress cluster: replicas of two members, one of which gives a Service alone.
type former struct {
	Services  []*corev1.Service
	Endpoints []*corev1.Endpoints
	Slices    []*discoveryv1.EndpointSlice
}

func readFormer(t *testing.T, version string) former {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/versions", version+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var f former
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// stand puts it into an ingress cluster, which gives everything a UID of its own.
func (f former) stand(t *testing.T, server *apitest.Server) {
	t.Helper()
	owners := map[string]*corev1.Service{}
	for _, svc := range f.Services {
		was := string(svc.UID)
		server.Create(t, svc)
		owners[was], _ = apitest.Get[*corev1.Service](server, svc.Namespace, svc.Name)
	}
	for _, ep := range f.Endpoints {
		server.Create(t, ep)
	}
	for _, es := range f.Slices {
		for i := range es.OwnerReferences {
			es.OwnerReferences[i].UID = owners[string(es.OwnerReferences[i].UID)].UID
		}
		server.Create(t, es)
	}
}

// TestFormerVersionsAreTakenOver: what version N−1 wrote is ours, and no address moves while it is. The version before the
// label of the installation is rewritten once, each object in place; a later one not at all.
func TestFormerVersionsAreTakenOver(t *testing.T) {
	api := syncer.Key{Namespace: "shop", Name: "api"}
	for _, version := range []struct {
		commit string
		writes int
	}{{"3fac2f0", 7}, {"e7ef860", 0}, {"1c131de", 0}} {
		t.Run(version.commit, func(t *testing.T) {
			f := readFormer(t, version.commit)
			if len(f.Services) != 2 || len(f.Endpoints) != 2 || len(f.Slices) < 3 {
				t.Fatalf("the fixture has %d Services, %d Endpoints, %d slices", len(f.Services), len(f.Endpoints), len(f.Slices))
			}
			g := newGround(t, "idc-a", "idc-b")
			g.source.settings.Instance = "default"
			f.stand(t, g.server)
			terminating := pod(web, "10.0.0.2", true)
			terminating.Deleted = 1700000000
			set := func() {
				g.source.set("idc-a", service(web, 1700000000, 8080), pod(web, "10.0.0.1", true), terminating)
				g.source.set("idc-b", service(web, 1700000001, 8080), pod(web, "10.1.0.1", true), pod(web, "10.1.0.2", false), pod(web, "fd00::2", true))
				g.source.set("idc-b", service(api, 1700000002, 9090), pod(api, "10.1.0.9", true))
			}
			set()
			g.start()
			g.rec.Resync("", "resync")
			g.settle()
			writes := g.writes()
			if len(writes) != version.writes {
				t.Errorf("%d writes, want %d: %q", len(writes), version.writes, writes)
			}
			for _, w := range writes {
				if len(w) < 7 || w[:7] != "update " {
					t.Errorf("more than an update in place: %s", w)
				}
			}
			g.expect(web, "10.0.0.1", "10.1.0.1")
			g.expect(api, "10.1.0.9")
			if conflicts := g.seen.all(); slices.ContainsFunc(conflicts, func(r record.Change) bool { return r.Error != "" }) {
				t.Errorf("%+v", conflicts)
			}
		})
	}
}
