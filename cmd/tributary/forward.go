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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics"
)

const (
	// defaultNamespace is where the manifests put Tributary.
	defaultNamespace = "tributary-system"
	// podSelector is what its pods are labelled with there; it finds one that holds no Lease.
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
	wanted := cmp.Or(f.instance, config.DefaultInstance)
	pod, holds, err := leadingPod(ctx, client, cmp.Or(f.namespace, defaultNamespace), wanted)
	if err != nil {
		return nil, failed(err)
	}
	out, err := forwardTo(ctx, access, client, pod, cmp.Or(f.port, defaultPort))
	if err != nil || holds {
		return out, err
	}
	if err := out.isOf(ctx, wanted); err != nil {
		out.close()
		return nil, failedf("pod %s in namespace %s: %w", pod.Name, pod.Namespace, err)
	}
	return out, nil
}

// isOf asks an instance that was found by no Lease of whose installation it is.
func (i *instance) isOf(ctx context.Context, wanted string) error {
	status, err := decodeAnswer[metrics.Status](i.get(ctx, "/debug/status", nil))
	if err == nil && status.Instance != "" && status.Instance != wanted {
		err = fmt.Errorf("is of instance %s, not of %s; name the instance with --instance, or another namespace with --namespace", clean(status.Instance), wanted)
	}
	return err
}

// leadingPod finds the pod that holds the Lease of an installation. Where no other installation has a Lease, and there is
// but one pod, it needs none: one without leader election writes alone. It may be another installation's all the same.
func leadingPod(ctx context.Context, client kubernetes.Interface, namespace, instance string) (pod *corev1.Pod, holds bool, err error) {
	leases, err := client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("list leases in namespace %s, to find the pod that leads: %w", namespace, err)
	}
	holder, found := "", false
	var others []string
	for _, lease := range leases.Items {
		switch name, ok := strings.CutPrefix(lease.Name, app.LeasePrefix); {
		case ok && name == instance:
			found = true
			if lease.Spec.HolderIdentity != nil {
				holder = *lease.Spec.HolderIdentity
			}
		case ok:
			others = append(others, name)
		}
	}
	if holder != "" {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, holder, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, false, fmt.Errorf("pod %s in namespace %s: %w", holder, namespace, err)
		}
		if err == nil && running(pod) {
			return pod, true, nil
		}
	}
	if len(others) > 0 {
		if found {
			return nil, false, fmt.Errorf("no running pod holds the Lease %s%s in namespace %s: nobody leads instance %s at the moment", app.LeasePrefix, instance, namespace, instance)
		}
		return nil, false, fmt.Errorf("namespace %s has no Lease of instance %s; name one with --instance: %s", namespace, instance, strings.Join(others, ", "))
	}
	pod, err = onlyPod(ctx, client, namespace)
	return pod, false, err
}

func running(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
}

// onlyPod is the one pod of a namespace in which nobody leads.
func onlyPod(ctx context.Context, client kubernetes.Interface, namespace string) (*corev1.Pod, error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: podSelector})
	if err != nil {
		return nil, fmt.Errorf("list pods in namespace %s: %w", namespace, err)
	}
	left := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !running(&p) })
	switch len(left) {
	case 0:
		return nil, fmt.Errorf("namespace %s has no pod that leads, and no running pod with the label %s; name another with --namespace", namespace, podSelector)
	case 1:
		return &left[0], nil
	}
	return nil, fmt.Errorf("none of the %d pods in namespace %s holds a Lease: nobody leads at the moment", len(left), namespace)
}

// forwardTo opens a port of this machine that leads to the pages of a pod.
func forwardTo(ctx context.Context, access *rest.Config, client *kubernetes.Clientset, pod *corev1.Pod, port uint16) (*instance, error) {
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
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
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
