// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"tributary.dev/tributary/cmd/tributary/internal/app"
)

const (
	// defaultNamespace is where the manifests put Tributary, and defaultInstance the
	// installation that the default configuration names.
	defaultNamespace, defaultInstance = "tributary-system", "default"
	// container is that of Tributary in its pods, whatever these are called and labelled,
	// and defaultPort that of its pages.
	container, defaultPort = "tributary", 9440
)

// forward finds the pod that leads and forwards a port of this machine to its pages.
func (f *instanceFlags) forward(ctx context.Context) (*instance, error) {
	bridge.Do(func() { bridgeTo(slog.DiscardHandler) }) // what the library says of a connection that ends is no fault of the command
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
	pod, err := leadingPod(ctx, client, cmp.Or(f.namespace, defaultNamespace), cmp.Or(f.instance, defaultInstance))
	if err != nil {
		return nil, failed(err)
	}
	out, err := forwardTo(ctx, access, client, pod)
	if err != nil {
		return nil, failedf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return out, nil
}

// leadingPod is the pod that holds the Lease of an installation. Where nobody holds it, as
// without leader election, it is the only pod of Tributary in the namespace.
func leadingPod(ctx context.Context, client kubernetes.Interface, namespace, instance string) (*corev1.Pod, error) {
	holder := ""
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, app.LeasePrefix+instance, metav1.GetOptions{})
	switch {
	case err == nil && lease.Spec.HolderIdentity != nil:
		holder = *lease.Spec.HolderIdentity
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read the Lease that names the pod that leads: %w", err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods in namespace %s: %w", namespace, err)
	}
	ours := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || !slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	})
	if i := slices.IndexFunc(ours, func(p corev1.Pod) bool { return p.Name == holder }); i >= 0 {
		return &ours[i], nil
	}
	switch {
	case len(ours) == 0:
		return nil, fmt.Errorf("namespace %s has no running pod of tributary; name another with --namespace", namespace)
	case len(ours) == 1 && holder == "":
		return &ours[0], nil
	}
	return nil, fmt.Errorf("no pod in namespace %s leads instance %s at the moment (its Lease is held by %q); name another with --namespace or --instance", namespace, instance, holder)
}

// forwardTo opens a port of this machine that leads to the pages of a pod.
func forwardTo(ctx context.Context, access *rest.Config, client *kubernetes.Clientset, pod *corev1.Pod) (*instance, error) {
	target := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(access)
	if err != nil {
		return nil, err
	}
	overWebsocket, err := portforward.NewSPDYOverWebsocketDialer(target, access)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	dialer := portforward.NewFallbackDialer(overWebsocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", defaultPort)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		close(stop) // it ends once the API server has answered
		return nil, ctx.Err()
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err == nil {
		var out *instance
		if out, err = newInstance(fmt.Sprintf("127.0.0.1:%d", ports[0].Local)); err == nil {
			out.stop = func() { close(stop); <-ended }
			return out, nil
		}
	}
	close(stop)
	<-ended
	return nil, err
}
