// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"tributary.dev/tributary/clusters/kube"
)

func TestNoteExpiry(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, test := range []struct {
		left          time.Duration
		note, problem string
	}{
		{8 * 24 * time.Hour, "", ""},
		{26 * time.Hour, "the credential ends in 26h0m", ""},
		{-time.Minute, "", "ended 60s ago"},
	} {
		c := checked{Result: resultOK, Expires: now.Add(test.left)}
		c.noteExpiry(now)
		if notes, problems := strings.Join(c.Notes, ""), strings.Join(c.Problems, ""); notes != test.note || !strings.Contains(problems, test.problem) || (problems == "") != (test.problem == "") {
			t.Errorf("%v: notes %q, problems %q", test.left, notes, problems)
		}
		if (c.Result == resultFailed) != (test.problem != "") {
			t.Errorf("%v: the result is %q", test.left, c.Result)
		}
	}
}

func TestClockSkew(t *testing.T) {
	for ahead, want := range map[time.Duration]string{0: "", time.Hour: "ahead", -time.Hour: "behind"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		}))
		var clock kube.Clock
		client := &http.Client{Transport: clock.Wrap(server.Client().Transport)}
		response, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		server.Close()
		var c checked
		c.noteSkew(&clock)
		if got := strings.Join(c.Notes, ""); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q", ahead, got)
		}
	}
}

func TestNoteOverlaps(t *testing.T) {
	of := func(name, identity string, networks ...string) checked {
		c := checked{Cluster: name, identity: identity}
		for _, text := range networks {
			c.networks = append(c.networks, netip.MustParsePrefix(text))
		}
		return c
	}
	results := []checked{of("ingress", "1", "10.0.0.0/16"), of("a", "2", "10.1.0.0/24", "fd00::/64"), of("b", "3", "10.2.0.0/24", "10.1.0.0/16"), of("b-again", "3", "10.2.0.0/24")}
	noteOverlaps(results)
	want := []string{"", "", "pods of a have addresses in 10.1.0.0/16 as well", ""}
	for i := range results {
		if got := strings.Join(results[i].Notes, "; "); got != want[i] {
			t.Errorf("%s: %q; want %q", results[i].Cluster, got, want[i])
		}
	}
}

func TestDialPod(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := net.SplitHostPort(listener.Addr().String())
	port, _ := strconv.Atoi(text)
	pod := func(name string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: int32(port)}}}}},
			Status:     corev1.PodStatus{PodIP: "127.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	try := func(pods ...*corev1.Pod) string {
		client := fake.NewClientset()
		for _, p := range pods {
			if _, err := client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var c checked
		c.dialPod(t.Context(), client, nil)
		return strings.Join(c.Notes, "; ")
	}
	if got := try(pod("web-0", corev1.ConditionFalse)); got != "no pod was tried: none is ready and names a TCP port" {
		t.Error(got)
	}
	if got := try(pod("web-1", corev1.ConditionTrue)); !strings.HasPrefix(got, "pod shop/web-1 is reached from here at 127.0.0.1:") {
		t.Error(got)
	}
	listener.Close()
	if got := try(pod("web-1", corev1.ConditionTrue)); !strings.Contains(got, "where nothing listens") {
		t.Error(got)
	}
}
