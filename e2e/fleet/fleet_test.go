// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// limit bounds each wait; it only has to be longer than a busy machine needs.
const limit = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFleet starts one fleet and tries on it what scenarios do.
func TestFleet(t *testing.T) {
	began := time.Now()
	f := fleettest.Start(t, fleet.Options{Members: []string{"idc-a", "idc-b"}, Audit: true})
	t.Logf("three clusters ready after %s", time.Since(began).Round(10*time.Millisecond))

	t.Run("Endpoints by the real controller", func(t *testing.T) { realController(t, f.Member("idc-a")) })
	t.Run("a pod's life", func(t *testing.T) { podLife(t, f.Member("idc-a")) })
	t.Run("product identity", func(t *testing.T) { productIdentity(t, f) })
	t.Run("one more member", func(t *testing.T) { growing(t, f) })
	t.Run("faults stay in their cluster", func(t *testing.T) { faults(t, f) })
	t.Run("bulk", func(t *testing.T) { bulk(t, f.Member("idc-b")) })
}

// addresses waits until the Endpoints have just these addresses, "!" in front of those that are not ready.
func addresses(t *testing.T, s *fleet.Site, namespace, name string, want ...string) {
	t.Helper()
	fleettest.Eventually(t, limit, func(ctx context.Context) error {
		endpoints, err := s.Client.CoreV1().Endpoints(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, subset := range endpoints.Subsets {
			for _, a := range subset.Addresses {
				got = append(got, a.IP)
			}
			for _, a := range subset.NotReadyAddresses {
				got = append(got, "!"+a.IP)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			return fmt.Errorf("addresses %v, want %v", got, want)
		}
		return nil
	})
}

func realController(t *testing.T, s *fleet.Site) {
	ctx := t.Context()
	m, err := s.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: []string{"endpoints-controller"}})
	must(t, err)
	must(t, s.CreateNamespaces(ctx, "shop", "shop"))
	must(t, s.Create(ctx, fleet.NewService("shop", "web")))
	pod := fleet.NewPod("shop", "web-0", "web")
	must(t, s.RunPods(ctx, pod))
	if pod.UID == "" || pod.Status.PodIP == "" || !s.PodCIDR.Contains(mustAddr(t, pod.Status.PodIP)) {
		t.Errorf("the pod was not filled in: uid %q, ip %q", pod.UID, pod.Status.PodIP)
	}
	addresses(t, s, "shop", "web", pod.Status.PodIP)
	must(t, s.MarkNotReady(ctx, "shop", "web-0"))
	addresses(t, s, "shop", "web", "!"+pod.Status.PodIP)
	must(t, s.MarkReady(ctx, "shop", "web-0"))
	addresses(t, s, "shop", "web", pod.Status.PodIP)
	must(t, s.Terminate(ctx, "shop", "web-0"))
	addresses(t, s, "shop", "web")
	if _, err := s.Client.CoreV1().Pods("shop").Get(ctx, "web-0", metav1.GetOptions{}); err != nil {
		t.Errorf("a terminating pod must stay until it is removed: %v", err)
	}
	must(t, s.Remove(ctx, "shop", "web-0"))
	must(t, m.Stop(ctx))
	writes, err := s.Writes(ctx)
	must(t, err)
	byController := func(w cluster.Write) bool {
		return w.User == cluster.ControllerManagerUser && w.Resource == "endpoints" && w.Namespace == "shop"
	}
	if n := cluster.CountWrites(writes, byController); n < 4 {
		t.Errorf("writes of the controller: %d, want one for each of 4 states at least", n)
	}
}

func podLife(t *testing.T, s *fleet.Site) {
	ctx := t.Context()
	must(t, s.CreateNamespaces(ctx, "life"))
	must(t, s.CreateNodes(ctx, fleet.NewNode("node-0", "zone-a")))
	pod := fleet.NewPod("life", "p", "web")
	must(t, s.StartPods(ctx, pod))
	if got := summary(pod); got != "Running ready=False ips=1 containers=false" {
		t.Errorf("started: %s", got)
	}
	get := func() *corev1.Pod {
		t.Helper()
		p, err := s.Client.CoreV1().Pods("life").Get(ctx, "p", metav1.GetOptions{})
		must(t, err)
		return p
	}
	must(t, s.MarkReady(ctx, "life", "p"))
	if got := summary(get()); !strings.HasPrefix(got, "Running ready=True ips=1") {
		t.Errorf("ready: %s", got)
	}
	must(t, s.SetPodIPs(ctx, "life", "p", "10.1.2.3", "fd00::3"))
	if p := get(); p.Status.PodIP != "10.1.2.3" || len(p.Status.PodIPs) != 2 || p.Status.PodIPs[1].IP != "fd00::3" {
		t.Errorf("addresses: %s, %v", p.Status.PodIP, p.Status.PodIPs)
	}
	must(t, s.SetPodIPs(ctx, "life", "p"))
	if p := get(); p.Status.PodIP != "" || len(p.Status.PodIPs) != 0 {
		t.Errorf("no addresses: %s, %v", p.Status.PodIP, p.Status.PodIPs)
	}
	must(t, s.SetPhase(ctx, "life", "p", corev1.PodFailed))
	if p := get(); p.Status.Phase != corev1.PodFailed {
		t.Errorf("phase: %s", p.Status.Phase)
	}
	must(t, s.Remove(ctx, "life", "p"))
	if _, err := s.Client.CoreV1().Pods("life").Get(ctx, "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after removal: %v", err)
	}
}

func summary(p *corev1.Pod) string {
	ready, containers := corev1.ConditionUnknown, len(p.Status.ContainerStatuses) > 0
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			ready = c.Status
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		containers = containers && c.Ready
	}
	return fmt.Sprintf("%s ready=%s ips=%d containers=%t", p.Status.Phase, ready, len(p.Status.PodIPs), containers)
}

// productIdentity uses the kubeconfigs that tributary gets.
func productIdentity(t *testing.T, f *fleet.Fleet) {
	ctx := t.Context()
	as := func(path string) kubernetes.Interface {
		t.Helper()
		text, err := os.ReadFile(path)
		must(t, err)
		for _, reference := range []string{"exec:", "client-certificate:", "client-key:", "certificate-authority:", "tokenFile:"} {
			if strings.Contains(string(text), reference) {
				t.Errorf("%s refers to a file or a program: %s", filepath.Base(path), reference)
			}
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(text)
		must(t, err)
		config.WarningHandler = rest.NoWarnings{}
		client, err := kubernetes.NewForConfig(config)
		must(t, err)
		return client
	}
	member := as(f.Members[1].Kubeconfig)
	_, err := member.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	must(t, err)
	if err := member.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("writing in a member: %v", err)
	}
	ingress := as(f.Ingress.Kubeconfig)
	_, err = ingress.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	must(t, err)
	service := fleet.NewService("shop", "web")
	_, err = ingress.CoreV1().Services("shop").Create(ctx, service, metav1.CreateOptions{})
	must(t, err)
	if _, err := ingress.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("reading secrets: %v", err)
	}
	writes, err := f.Ingress.Writes(ctx)
	must(t, err)
	created := func(w cluster.Write) bool {
		return w.User == fleet.ProductUser && w.Resource == "services" && w.Code == 201
	}
	if n := cluster.CountWrites(writes, created); n != 1 {
		t.Errorf("writes of tributary's identity: %d, want 1", n)
	}
	front, err := f.Ingress.PlayVersion("1.20")
	must(t, err)
	defer front.Close()
	old := as(f.Ingress.Kubeconfig)
	version, err := old.Discovery().ServerVersion()
	must(t, err)
	_, err = old.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	if version.Minor != "20" || !apierrors.IsNotFound(err) {
		t.Errorf("an ingress cluster of 1.20 says version %s, slices: %v", version.GitVersion, err)
	}
	_, err = old.CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{})
	must(t, err)
}

// growing adds a member to a running fleet.
func growing(t *testing.T, f *fleet.Fleet) {
	added, err := f.AddMember(t.Context(), "idc-c")
	must(t, err)
	if _, err := f.AddMember(t.Context(), "idc-c"); err == nil {
		t.Error("two members of one name")
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	must(t, f.WriteConfig(path, ""))
	text, err := os.ReadFile(path)
	must(t, err)
	if strings.Count(string(text), ".kubeconfig") != 4 || !strings.Contains(string(text), added.Kubeconfig) {
		t.Errorf("configuration for three members:\n%s", text)
	}
}

func faults(t *testing.T, f *fleet.Fleet) {
	a, b := f.Members[0], f.Members[1]
	list := func(s *fleet.Site, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := s.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		return err
	}
	must(t, a.APIServer().Freeze())
	if list(a, 200*time.Millisecond) == nil || list(b, limit) != nil {
		t.Error("freezing one apiserver: it answers, or the other does not")
	}
	must(t, a.APIServer().Thaw())
	must(t, list(a, limit))
	a.APIServer().Kill()
	if list(a, time.Second) == nil || list(b, limit) != nil {
		t.Error("killing one apiserver: it answers, or the other does not")
	}
	must(t, a.APIServer().Start(t.Context()))
	must(t, list(a, limit))
}

func bulk(t *testing.T, s *fleet.Site) {
	const services, podsEach = 200, 3
	ctx := t.Context()
	must(t, s.CreateNamespaces(ctx, "bulk"))
	var objects []metav1.Object
	var pods []*corev1.Pod
	for i := range services {
		name := fmt.Sprintf("s-%d", i)
		objects = append(objects, fleet.NewService("bulk", name))
		for j := range podsEach {
			pods = append(pods, fleet.NewPod("bulk", fmt.Sprintf("%s-%d", name, j), name))
		}
	}
	began := time.Now()
	must(t, s.Create(ctx, objects...))
	created := time.Now()
	must(t, s.RunPods(ctx, pods...))
	t.Logf("%d services in %s, %d running pods in %s", services, created.Sub(began).Round(time.Millisecond),
		len(pods), time.Since(created).Round(time.Millisecond))
	seen := map[string]bool{}
	for _, p := range pods {
		seen[p.Status.PodIP] = true
	}
	if len(seen) != len(pods) {
		t.Errorf("%d addresses for %d pods", len(seen), len(pods))
	}
}
