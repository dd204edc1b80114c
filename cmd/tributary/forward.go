// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// defaultNamespace is where the manifests put Tributary.
	defaultNamespace = "tributary-system"
	// podSelector is what its pods are labelled with there.
	podSelector = "app.kubernetes.io/name=tributary"
	// defaultPort is that of the pages.
	defaultPort = 9440
)

// forward finds the pod that leads and forwards a port of this machine to its pages.
func (f *instanceFlags) forward(ctx context.Context) (*instance, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	access, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if err != nil {
		return nil, misused(fmt.Errorf("--context: %w", err))
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, misused(fmt.Errorf("--context: %w", err))
	}
	pod, err := leadingPod(ctx, client, cmp.Or(f.namespace, defaultNamespace))
	if err != nil {
		return nil, failed(err)
	}
	return forwardTo(ctx, access, client, pod)
}

// leadingPod finds the pod that holds the Lease of its installation; where there is
// but one pod, it needs none.
func leadingPod(ctx context.Context, client kubernetes.Interface, namespace string) (*corev1.Pod, error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: podSelector})
	if err != nil {
		return nil, fmt.Errorf("list pods in namespace %s: %w", namespace, err)
	}
	running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil })
	switch len(running) {
	case 0:
		return nil, fmt.Errorf("namespace %s has no running pod with the label %s; name another with --namespace", namespace, podSelector)
	case 1:
		return &running[0], nil
	}
	leases, err := client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list leases in namespace %s, to find the pod that leads: %w", namespace, err)
	}
	var names []string
	for i := range running {
		for _, lease := range leases.Items {
			if holder := lease.Spec.HolderIdentity; holder != nil && *holder == running[i].Name {
				return &running[i], nil
			}
		}
		names = append(names, running[i].Name)
	}
	return nil, fmt.Errorf("none of the pods %s in namespace %s holds a Lease: nobody leads at the moment", strings.Join(names, ", "), namespace)
}

// forwardTo opens a port of this machine that leads to the pages of a pod.
func forwardTo(ctx context.Context, access *rest.Config, client *kubernetes.Clientset, pod *corev1.Pod) (*instance, error) {
	target := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(access)
	if err != nil {
		return nil, failedf("forward a port to pod %s: %w", pod.Name, err)
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	overWebsocket, err := portforward.NewSPDYOverWebsocketDialer(target, access)
	if err != nil {
		return nil, failedf("forward a port to pod %s: %w", pod.Name, err)
	}
	dialer := portforward.NewFallbackDialer(overWebsocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", defaultPort)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, failedf("forward a port to pod %s: %w", pod.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	end := func() {
		close(stop)
		<-ended
	}
	select {
	case err := <-ended:
		return nil, failedf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	case <-ctx.Done():
		end()
		return nil, failedf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, ctx.Err())
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		end()
		return nil, failedf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	out, err := newInstance(fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		end()
		return nil, err
	}
	out.stop = end
	return out, nil
}
