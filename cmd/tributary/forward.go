// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	// container is that of Tributary in its pods, whatever these are called and labelled.
	container = "tributary"
	// defaultPort is that of the pages.
	defaultPort = 9440
	// podTimeout is how long one of several pods may take to say whether it leads.
	podTimeout = 5 * time.Second
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
	l := leaderSearch{
		namespace: cmp.Or(f.namespace, defaultNamespace), instance: cmp.Or(f.instance, config.DefaultInstance),
		open: func(ctx context.Context, pod *corev1.Pod) (*instance, error) {
			return forwardTo(ctx, access, client, pod, cmp.Or(f.port, defaultPort))
		},
	}
	out, err := l.find(ctx, client)
	return out, failed(err)
}

// leaderSearch finds the pod of a namespace that leads an installation: the holder of its Lease or, where that is in
// another namespace or is not held, the pod that says so of itself.
type leaderSearch struct {
	namespace, instance string
	open                func(context.Context, *corev1.Pod) (*instance, error)
}

func (l leaderSearch) find(ctx context.Context, client kubernetes.Interface) (*instance, error) {
	pods, err := client.CoreV1().Pods(l.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods in namespace %s: %w", l.namespace, err)
	}
	left := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !ofTributary(&p) })
	if len(left) == 0 {
		return nil, fmt.Errorf("namespace %s has no running pod of tributary; name another with --namespace", l.namespace)
	}
	leases, err := client.CoordinationV1().Leases(l.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list leases in namespace %s, to find the pod that leads: %w", l.namespace, err)
	}
	alone, others := len(left) == 1, []string(nil)
	for _, lease := range leases.Items {
		name, ok := strings.CutPrefix(lease.Name, app.LeasePrefix)
		i := slices.IndexFunc(left, func(p corev1.Pod) bool {
			return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == p.Name
		})
		switch {
		case !ok || i < 0:
		case name == l.instance:
			return l.open(ctx, &left[i])
		default:
			others, left = append(others, name), slices.Delete(left, i, i+1)
		}
	}
	return l.ask(ctx, left, alone, others)
}

func ofTributary(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil &&
		slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
}

// ask asks pods which of them leads; one that is alone need not. others are the installations known to be beside this one.
func (l leaderSearch) ask(ctx context.Context, pods []corev1.Pod, alone bool, others []string) (*instance, error) {
	holder := ""
	var problems error
	for i := range pods {
		pod, status, err := l.askOne(ctx, &pods[i])
		switch {
		case err != nil:
			problems = errors.Join(problems, fmt.Errorf("pod %s: %w", pods[i].Name, err))
			continue
		case status.Instance != "" && status.Instance != l.instance:
			others = append(others, clean(status.Instance))
		case alone || status.Leader.Writes():
			return pod, nil
		default:
			holder = clean(status.Leader.Holder)
		}
		pod.close()
	}
	switch {
	case problems != nil:
		return nil, problems
	case holder != "":
		return nil, fmt.Errorf("no pod in namespace %s leads instance %s at the moment; its Lease is held by %s", l.namespace, l.instance, holder)
	case len(others) > 0:
		slices.Sort(others)
		return nil, fmt.Errorf("no pod in namespace %s leads instance %s; name another namespace with --namespace, or another instance with --instance: %s",
			l.namespace, l.instance, strings.Join(slices.Compact(others), ", "))
	}
	return nil, fmt.Errorf("no pod in namespace %s leads instance %s at the moment", l.namespace, l.instance)
}

// askOne asks one pod for its state. The caller closes the instance where there is no error.
func (l leaderSearch) askOne(ctx context.Context, of *corev1.Pod) (*instance, *metrics.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	pod, err := l.open(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	status, err := decodeAnswer[metrics.Status](pod.get(ctx, "/debug/status", nil))
	if err != nil {
		pod.close()
		return nil, nil, err
	}
	return pod, status, nil
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
		close(stop) // it ends once the API server has answered
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
