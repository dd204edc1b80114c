// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// kubelet is what the API server of the ingress cluster connects to for forwarding ports to pods. No pods are started:
// processes of this machine represent them.
type kubelet struct {
	mu sync.Mutex
	// serves has the address of the process that represents a pod, by the pod's name.
	serves map[string]string
}

const (
	nodeName = "node-1"
	// listens is the port of a pod's pages in the chart's configuration.
	listens = 9440
)

// startKubelet creates a Node with this test as its kubelet.
func (s *site) startKubelet() {
	s.Helper()
	s.kubelet = &kubelet{serves: map[string]string{}}
	server := httptest.NewTLSServer(s.kubelet)
	s.Cleanup(server.CloseClientConnections)
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	s.must(err)
	port, err := strconv.ParseInt(text, 10, 32)
	s.must(err)
	s.must(s.fleet.Ingress.CreateNodes(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}}))
}

// ServeHTTP forwards ports as a kubelet does: /portForward/NAMESPACE/POD.
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	to := k.serves[path.Base(r.URL.Path)]
	k.mu.Unlock()
	if path.Dir(r.URL.Path) != "/portForward/"+own || to == "" {
		http.NotFound(w, r)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, replied <-chan struct{}) error {
		if port := stream.Headers().Get(corev1.PortHeader); port != strconv.Itoa(listens) {
			return fmt.Errorf("nothing listens at port %s", port)
		}
		go func() {
			<-replied
			forward(stream, to)
		}()
		return nil
	})
	if connection != nil {
		<-connection.CloseChan()
	}
}

// forward copies a data stream to and from an address, until the client goes. The stream of errors stays empty.
func forward(stream httpstream.Stream, to string) {
	defer stream.Close()
	if stream.Headers().Get(corev1.StreamType) != corev1.StreamTypeData {
		return
	}
	connection, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(connection, stream); connection.Close() }()
	_, _ = io.Copy(stream, connection)
}

// serve makes a process of this machine represent a pod.
func (k *kubelet) serve(pod, address string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.serves[pod] = address
}

// newPod creates a pod as the chart's Deployment would, and returns the kubeconfig of its account, with a token that is
// bound to the pod.
func (s *site) newPod() (pod *corev1.Pod, kubeconfig []byte) {
	s.Helper()
	client := s.fleet.Ingress.Client
	deployment, err := client.AppsV1().Deployments(own).Get(s.Context(), "tributary", metav1.GetOptions{})
	s.must(err)
	s.started++
	template := deployment.Spec.Template
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: fmt.Sprintf("tributary-%d", s.started), Labels: template.Labels}, Spec: template.Spec}
	pod.Spec.NodeName = nodeName
	s.must(s.fleet.Ingress.RunPods(s.Context(), pod))
	granted, err := client.CoreV1().ServiceAccounts(own).CreateToken(s.Context(), pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}, metav1.CreateOptions{})
	s.must(err)
	kubeconfig, err = s.fleet.Ingress.Cluster.Kubeconfig(cluster.User{Name: "tributary", Token: granted.Status.Token})
	s.must(err)
	return pod, kubeconfig
}

// stop ends the process, and its pod with it.
func (s *site) stop() {
	s.Helper()
	s.must(s.proc.Stop(s.Context()))
	s.must(s.fleet.Ingress.Remove(s.Context(), own, s.pod))
}

// leads waits until the Lease names the pod that was started last, where commands look for it.
func (s *site) leads() {
	s.Helper()
	fleettest.Eventually(s.T, soon, func(ctx context.Context) error {
		lease, err := s.fleet.Ingress.Client.CoordinationV1().Leases(own).Get(ctx, "tributary-leader.default", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != s.pod) {
			err = fmt.Errorf("the Lease is not held by %s: %s", s.pod, strings.TrimSpace(lease.String()))
		}
		return err
	})
}
