// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package main

import (
	"bytes"
	"io"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
)

// TestMigrate goes the way of docs/migrate.md, from Endpoints made by hand and back. What a route leads to has the pod's
// address all the time.
func TestMigrate(t *testing.T) {
	s := newSetting(t)
	hand := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	s.ingress.Create(t, &corev1.Service{ObjectMeta: hand, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}})
	s.ingress.Create(t, &corev1.Endpoints{ObjectMeta: hand, Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: podIP}}}}})
	s.config["clusterDefaults"] = map[string]any{"serviceSelector": "tributary.dev/migrated=true"}
	_, stop := s.start(s.files())
	defer stop()
	s.until("it runs, and replicates nothing", func() bool {
		return dispatch(t.Context(), []string{"status", "--server", s.config["listen"].(string), "--exit-code"}, io.Discard, io.Discard) == exitOK
	})

	first := s.part("clusters")
	second := maps.Clone(first)
	second["name"], second["mode"] = "idc-a-next", "separate"
	s.config["clusters"] = []any{first, second}
	s.files()
	label := func(value string) {
		apitest.Edit(t, s.member.Server, "shop", "web", func(v *corev1.Service) { v.Labels = map[string]string{"tributary.dev/migrated": value} })
	}
	label("true")
	has := func(name string) bool {
		e, stands := apitest.Get[*corev1.Endpoints](s.ingress.Server, "shop", name)
		return stands && len(e.Subsets) == 1 && len(e.Subsets[0].Addresses) == 1 && e.Subsets[0].Addresses[0].IP == podIP
	}
	s.until("the second name has the pod", func() bool { return has("web-idc-a-next") })
	if !has("web") {
		t.Fatal("what was made by hand was changed")
	}
	var said bytes.Buffer
	dispatch(t.Context(), []string{"explain", "shop/web", "--server", s.config["listen"].(string)}, &said, &said)
	if !strings.Contains(said.String(), "foreign_object") {
		t.Errorf("explain does not tell of the conflict:\n%s", &said)
	}

	apitest.Remove[*corev1.Endpoints](t, s.ingress.Server, "shop", "web")
	apitest.Remove[*corev1.Service](t, s.ingress.Server, "shop", "web")
	s.until("the first name is a replica", func() bool { return has("web") })
	if !has("web-idc-a-next") {
		t.Fatal("the second name lost the pod, to which routes lead")
	}

	second["drain"], second["force"] = true, true
	s.files()
	s.until("the second name is empty", func() bool { return !has("web-idc-a-next") })
	s.config["clusters"] = []any{first}
	s.files()
	s.until("one member is left, and all is well", func() bool { return has("web") && s.well() })

	label("false") // and back
	s.until("the replica goes", func() bool {
		_, stands := apitest.Get[*corev1.Service](s.ingress.Server, "shop", "web")
		return !stands
	})
}
