// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
)

// kubelet is an API server that knows pods and Leases and forwards ports to pages.
type kubelet struct {
	pods, leases string
	// pages are those of every pod, but for the one called tributary-leads.
	pages, leading string
	// asked are the pods that a port was forwarded to, and ports the ports.
	asked, ports []string
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/portforward") {
		k.asked = append(k.asked, r.URL.Path)
		k.forward(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/leases"):
		io.WriteString(w, k.leases)
	case strings.HasSuffix(path, "/pods"):
		io.WriteString(w, k.pods)
	default: // one pod
		var list corev1.PodList
		_ = json.Unmarshal([]byte(k.pods), &list)
		for _, pod := range list.Items {
			if strings.HasSuffix(path, "/pods/"+pod.Name) {
				pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
				_ = json.NewEncoder(w).Encode(pod)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	}
}

// forward copies each data stream to and from the pages, until the client goes.
func (k *kubelet) forward(w http.ResponseWriter, r *http.Request) {
	pages := k.pages
	if strings.Contains(r.URL.Path, "tributary-leads") {
		pages = k.leading
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return // the client tries websockets first
	}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		go func() {
			<-replied
			defer s.Close()
			if s.Headers().Get(corev1.StreamType) != corev1.StreamTypeData {
				return
			}
			k.ports = append(k.ports, s.Headers().Get(corev1.PortHeader))
			to, err := net.Dial("tcp", pages)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(to, s); to.Close() }()
			_, _ = io.Copy(s, to)
		}()
		return nil
	})
	if connection != nil {
		<-connection.CloseChan()
	}
}

func encoded(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func podsNamed(t *testing.T, names ...string) string {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, name := range names {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
	}
	return encoded(t, list)
}

// leasesOf are Leases by name, each with its holder.
func leasesOf(t *testing.T, nameHolder ...string) string {
	list := coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}}
	for pair := range slices.Chunk(nameHolder, 2) {
		holder := pair[1]
		list.Items = append(list.Items, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: pair[0]}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}})
	}
	return encoded(t, list)
}

// TestContextFindsTheLeadingPod: and asks it through a forwarded port.
func TestContextFindsTheLeadingPod(t *testing.T) {
	of := "" // a process of a version that does not tell its instance
	serve := func(state string) string {
		pages := httptest.NewServer(page.Handler(metrics.New(metrics.Options{Status: func() metrics.Status {
			s := troubledStatus()
			s.Instance, s.Leader.State = of, state
			return s
		}}), nil))
		t.Cleanup(pages.Close)
		return strings.TrimPrefix(pages.URL, "http://")
	}
	pages, leading := serve("standby"), serve("leading")
	const lease, second = "tributary-leader.default", "tributary-leader.second"
	two := podsNamed(t, "tributary-1", "tributary-2")
	for name, test := range map[string]struct {
		pods, leases string
		flags        []string
		code         int
		asked, says  string
	}{
		"one pod, no Lease":          {podsNamed(t, "tributary-1"), leasesOf(t), nil, exitOK, "tributary-1", "idc-a"},
		"one pod, an old Lease":      {podsNamed(t, "tributary-1"), leasesOf(t, lease, "gone"), nil, exitOK, "tributary-1", "idc-a"},
		"two pods":                   {two, leasesOf(t, "other", "tributary-1", lease, "tributary-2"), nil, exitOK, "tributary-2", "idc-a"},
		"another port":               {two, leasesOf(t, lease, "tributary-2"), []string{"--port", "9550"}, exitOK, "tributary-2", "idc-a"},
		"no pod":                     {podsNamed(t), leasesOf(t), nil, exitFailed, "", "no running pod"},
		"nobody leads":               {two, leasesOf(t, "other", "tributary-1"), nil, exitFailed, "tributary-2", "no pod in namespace edge leads instance default at the moment"},
		"the Lease is elsewhere":     {podsNamed(t, "tributary-1", "tributary-leads"), leasesOf(t), nil, exitOK, "tributary-leads", "idc-a"},
		"the first of two":           {two, leasesOf(t, second, "tributary-1", lease, "tributary-2"), nil, exitOK, "tributary-2", "idc-a"},
		"the second of two":          {two, leasesOf(t, second, "tributary-1", lease, "tributary-2"), []string{"--instance", "second"}, exitOK, "tributary-1", "idc-a"},
		"only the other leads":       {two, leasesOf(t, second, "tributary-1", lease, ""), nil, exitFailed, "tributary-2", "no pod in namespace edge leads instance default"},
		"one of the other, no Lease": {podsNamed(t, "tributary-second"), leasesOf(t), nil, exitFailed, "tributary-second", "another instance with --instance: second"},
		"the other is meant":         {podsNamed(t, "tributary-second"), leasesOf(t), []string{"--instance", "second"}, exitOK, "tributary-second", "idc-a"},
		"only the other is there":    {podsNamed(t, "tributary-1"), leasesOf(t, second, "tributary-1"), nil, exitFailed, "", "--instance: second"},
	} {
		t.Run(name, func(t *testing.T) {
			if of = ""; strings.Contains(test.pods, "second") {
				of = "second"
			}
			k := &kubelet{pods: test.pods, leases: test.leases, pages: pages, leading: leading}
			server := httptest.NewServer(k)
			defer server.Close()
			path := filepath.Join(t.TempDir(), "kubeconfig")
			text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: %q}}], users: [{name: x, user: {token: t}}]}", server.URL)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			code := dispatch(t.Context(), append([]string{"status", "--kubeconfig", path, "--namespace", "edge"}, test.flags...), &out, &out)
			if code != test.code || !strings.Contains(out.String(), test.says) {
				t.Errorf("exit %d:\n%s", code, out.String())
			}
			if asked := strings.Join(k.asked, " "); !strings.Contains(asked, test.asked) || (asked == "") != (test.asked == "") {
				t.Errorf("ports were forwarded to %q", asked)
			}
			want := "9440"
			if slices.Contains(test.flags, "--port") {
				want = "9550"
			}
			for _, port := range k.ports {
				if port != want {
					t.Errorf("port %s was forwarded, want %s", port, want)
				}
			}
		})
	}
}

func TestServerAndContextExcludeEachOther(t *testing.T) {
	var out strings.Builder
	if code := dispatch(t.Context(), []string{"status", "--server", "x", "--context", "y"}, &out, &out); code != exitUsage || !strings.Contains(out.String(), "--server excludes") {
		t.Errorf("exit %d: %s", code, out.String())
	}
}
