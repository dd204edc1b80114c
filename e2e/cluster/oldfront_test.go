// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"tributary.dev/tributary/e2e/cluster"
)

const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf"
)

// through returns the configuration of a client that talks to the front.
func through(t *testing.T, f *cluster.OldFront, u cluster.User, contentType string) *rest.Config {
	t.Helper()
	text, err := f.Kubeconfig(u)
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	must(t, err)
	config.ContentType, config.AcceptContentTypes, config.QPS = contentType, contentType, -1
	return config
}

func TestOldFront(t *testing.T) {
	c, user := getShared(t), sharedUser
	f, err := cluster.StartOldFront(c, "1.17")
	must(t, err)
	t.Cleanup(f.Close)

	t.Run("discovery", func(t *testing.T) { oldDiscovery(t, kubernetes.NewForConfigOrDie(through(t, f, user, asJSON))) })
	for _, contentType := range []string{asJSON, asProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			oldObjects(t, c, kubernetes.NewForConfigOrDie(through(t, f, user, contentType)))
		})
	}
	if got := f.Refused(); !slices.Contains(got, "?sendInitialEvents") || !slices.Contains(got, "/apis/discovery.k8s.io/v1/endpointslices") {
		t.Errorf("refused: %v", got)
	}
	if _, err := f.Kubeconfig(cluster.User{Name: "certificate"}); err == nil {
		t.Error("a user without a token got a kubeconfig for the front")
	}
	if _, err := cluster.StartOldFront(c, "1.2"); err == nil {
		t.Error("a front of an unknown version started")
	}
}

func oldDiscovery(t *testing.T, client kubernetes.Interface) {
	ctx := timeout(t, limit)
	version, err := client.Discovery().ServerVersion()
	must(t, err)
	if version.GitVersion != "v1.17.17" || version.Major+"."+version.Minor != "1.17" || version.EmulationMinor != "" {
		t.Errorf("version %+v", version)
	}
	groups, err := client.Discovery().ServerGroups()
	must(t, err)
	var names []string
	for _, g := range groups.Groups {
		names = append(names, g.Name)
	}
	for _, absent := range []string{"discovery.k8s.io", "policy", "flowcontrol.apiserver.k8s.io"} {
		if slices.Contains(names, absent) {
			t.Errorf("group %s is listed", absent)
		}
	}
	if !slices.Contains(names, "apps") || !slices.Contains(names, "coordination.k8s.io") {
		t.Errorf("groups %v", names)
	}
	if _, err := client.Discovery().ServerResourcesForGroupVersion("discovery.k8s.io/v1"); !apierrors.IsNotFound(err) {
		t.Errorf("resources of discovery.k8s.io/v1: %v", err)
	}
	if _, err := client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("list of slices: %v", err)
	}
}

// oldObjects compares what a client gets through the front, in a list and in a watch, with what is stored.
func oldObjects(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	ctx := timeout(t, limit)
	// As a current client asks: an old server ignores sendInitialEvents and begins with the existing objects.
	w, err := client.CoreV1().Services("default").Watch(ctx, metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	must(t, err)
	defer w.Stop()
	if event := nextEvent(t, ctx, w); event.Type != watch.Added || event.Object.(*corev1.Service).Name != "kubernetes" {
		t.Errorf("first event %v %v", event.Type, event.Object)
	}
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "front"}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80, AppProtocol: new("http")}}, TrafficDistribution: new("PreferClose"),
	}}
	created, err := c.Client().CoreV1().Services("default").Create(ctx, object, metav1.CreateOptions{})
	must(t, err)
	defer func() {
		must(t, c.Client().CoreV1().Services("default").Delete(ctx, "front", metav1.DeleteOptions{}))
	}()
	if len(created.Spec.ClusterIPs) == 0 || len(created.ManagedFields) == 0 {
		t.Fatal("the server behind has no newer fields: nothing is tested")
	}
	event := nextEvent(t, ctx, w)
	if event.Type != watch.Added {
		t.Fatalf("event %v %v", event.Type, event.Object)
	}
	checkOldService(t, event.Object.(*corev1.Service), created)
	list, err := client.CoreV1().Services("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=front"})
	must(t, err)
	checkOldService(t, &list.Items[0], created)
	got, err := client.CoreV1().Services("default").Patch(ctx, "front", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	must(t, err)
	checkOldService(t, got, created)
	if event := nextEvent(t, ctx, w); event.Type != watch.Modified || event.Object.(*corev1.Service).Labels["a"] != "b" {
		t.Errorf("event %v %v", event.Type, event.Object)
	}
	checkOldPod(t, c, client)
}

func nextEvent(t *testing.T, ctx context.Context, w watch.Interface) watch.Event {
	t.Helper()
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				t.Fatal("the watch has ended")
			}
			if event.Type != watch.Bookmark {
				return event
			}
		case <-ctx.Done():
			t.Fatal("no event in time")
		}
	}
}

// checkOldService checks that fields of 1.17 are as they are stored, and newer fields are absent.
func checkOldService(t *testing.T, got, stored *corev1.Service) {
	t.Helper()
	if got.UID != stored.UID || got.Spec.ClusterIP != stored.Spec.ClusterIP || got.Spec.Ports[0].Port != 80 {
		t.Errorf("service %+v is not what is stored", got.Spec)
	}
	text, err := json.Marshal(got)
	must(t, err)
	for _, field := range []string{"ipFamil", "clusterIPs", "internalTrafficPolicy", "trafficDistribution", "appProtocol", "managedFields"} {
		if strings.Contains(string(text), field) {
			t.Errorf("field %s is in %s", field, text)
		}
	}
}

func checkOldPod(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	t.Helper()
	ctx := timeout(t, limit)
	pods := c.Client().CoreV1().Pods("default")
	_, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		NodeName: "n", HostUsers: new(true), Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}, metav1.CreateOptions{})
	must(t, err)
	defer func() { must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})) }()
	status := `{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"hostIPs":[{"ip":"192.168.0.1"}],"hostIP":"192.168.0.1"}}`
	_, err = pods.Patch(ctx, "p", types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	must(t, err)
	got, err := client.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
	must(t, err)
	if got.Status.PodIP != "10.0.0.1" || len(got.Status.PodIPs) != 1 {
		t.Errorf("addresses %s %v: 1.17 knows both fields", got.Status.PodIP, got.Status.PodIPs)
	}
	if got.Status.HostIPs != nil || got.Spec.HostUsers != nil {
		t.Error("the pod has fields that came after 1.17")
	}
}
