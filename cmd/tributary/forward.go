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
	// defaultPort is that of the pages in its pods.
	defaultPort = 9440
)

// loading reads a context of the user's kubeconfig, as kubectl does.
func loading(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// forward finds the pod that leads and forwards a port of this machine to its pages.
func (f *instanceFlags) forward(ctx context.Context) (*instance, error) {
	logLibraries(slog.DiscardHandler) // what they say of a connection that ends is no fault of the command
	access, err := loading(f.kubeconfig, f.context).ClientConfig()
	if err != nil {
		return nil, usage{fmt.Errorf("--context: %w", err)}
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, usage{fmt.Errorf("--context: %w", err)}
	}
	namespace := cmp.Or(f.namespace, defaultNamespace)
	holder, err := leader(ctx, client, namespace, cmp.Or(f.instance, defaultInstance))
	if err != nil {
		return nil, err
	}
	out, err := forwardTo(ctx, access, client, namespace, holder)
	if err != nil {
		return nil, fmt.Errorf("forward a port to pod %s/%s, which holds the Lease: %w; if it has just gone, another will lead in some seconds, "+
			"and if this is no pod but a process elsewhere, give its address with --server", namespace, holder, err)
	}
	return out, nil
}

// leader is who holds the Lease of an installation: a pod, by its name.
func leader(ctx context.Context, client kubernetes.Interface, namespace, instance string) (string, error) {
	name := app.LeasePrefix + instance
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("namespace %s has no Lease %s: name another with --namespace or --instance; "+
			"an instance without leader election is asked through kubectl port-forward, with --server", namespace, name)
	case err != nil:
		return "", fmt.Errorf("read the Lease that names the pod that leads: %w", err)
	case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "":
		return "", fmt.Errorf("nobody holds the Lease %s/%s: no pod leads at the moment; kubectl get pods -n %[1]s says why", namespace, name)
	}
	return *lease.Spec.HolderIdentity, nil
}

// forwardTo opens a port of this machine that leads to the pages of a pod.
func forwardTo(ctx context.Context, access *rest.Config, client *kubernetes.Clientset, namespace, pod string) (*instance, error) {
	target := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
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
	var out *instance
	ports, err := forwarder.GetPorts()
	if err == nil {
		out, err = newInstance(fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	}
	if err != nil {
		close(stop)
		<-ended
		return nil, err
	}
	out.stop = func() { close(stop); <-ended }
	return out, nil
}
