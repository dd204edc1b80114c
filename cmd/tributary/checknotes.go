// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters/kube"
)

const (
	// expiresSoon is when the end of a credential is worth a note.
	expiresSoon = 7 * 24 * time.Hour
	// skewAllowed is how far clocks may differ; servers tell whole seconds.
	skewAllowed = 5 * time.Second
	// sample bounds how many nodes and pods are asked for.
	sample = 500
	// dialTimeout is how long a pod may take to answer.
	dialTimeout = 3 * time.Second
)

// problem notes what keeps run from working; the result says so from then on.
func (c *checked) problem(err error) {
	if c.Result == resultOK {
		c.Result = resultFailed
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w; a longer --timeout helps if the cluster is only slow", err)
	}
	c.Problems = append(c.Problems, err.Error())
}

func (c *checked) note(text string) { c.Notes = append(c.Notes, text) }

// noteExpiry tells of a credential that ends soon; one that has ended is a problem.
func (c *checked) noteExpiry(now time.Time) {
	switch left := c.Expires.Sub(now); {
	case left <= 0:
		c.problem(fmt.Errorf("the credential of the kubeconfig ended %s ago; put a new one in its place", span(-left)))
	case left < expiresSoon:
		c.note(fmt.Sprintf("the credential ends in %s", span(left)))
	}
}

// noteSkew tells of a server's clock that is wrong, or ours is.
func (c *checked) noteSkew(clock *kube.Clock) {
	behind, _ := clock.Behind()
	switch ahead := -behind; {
	case ahead > skewAllowed:
		c.note(fmt.Sprintf("its clock is %s ahead of the one here", span(ahead)))
	case ahead < -skewAllowed:
		c.note(fmt.Sprintf("its clock is %s behind the one here", span(-ahead)))
	}
}

// askNetworks reads the ranges of pod addresses, as far as nodes tell them.
func (c *checked) askNetworks(ctx context.Context, client kubernetes.Interface) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: sample})
	if err != nil {
		return // optional; that the right is missing shows among the rights
	}
	for i := range nodes.Items {
		for _, text := range nodes.Items[i].Spec.PodCIDRs {
			if network, err := netip.ParsePrefix(text); err == nil {
				c.networks = append(c.networks, network)
			}
		}
	}
}

// noteOverlaps says which clusters have pods in the same ranges: an address then
// leads to whichever of them the network here knows.
func noteOverlaps(results []checked) {
	for i := range results {
		for j := range i {
			if results[i].identity != "" && results[i].identity == results[j].identity {
				continue // the same cluster; noted
			}
			if network, found := overlap(results[i].networks, results[j].networks); found {
				results[i].note(fmt.Sprintf("pods of %s have addresses in %s as well", results[j].Cluster, network))
			}
		}
	}
}

func overlap(a, b []netip.Prefix) (netip.Prefix, bool) {
	for _, network := range a {
		if slices.ContainsFunc(b, network.Overlaps) {
			return network, true
		}
	}
	return netip.Prefix{}, false
}

// noteTwins says which names lead to the same cluster: allowed, and rarely meant.
func noteTwins(results []checked) {
	first := map[string]string{}
	for i := range results {
		id := results[i].identity
		if id == "" {
			continue
		}
		if other, seen := first[id]; seen {
			results[i].note("is the same cluster as " + other)
			continue
		}
		first[id] = results[i].Cluster
	}
}

// dialPod tries to reach a ready pod of the member, as an ingress controller would.
// A refused connection has reached its host.
func (c *checked) dialPod(ctx context.Context, client kubernetes.Interface, namespaces []string) {
	address, pod, err := somePod(ctx, client, namespaces)
	switch {
	case err != nil:
		c.note(fmt.Sprintf("no pod was tried: %v", err))
		return
	case address == "":
		c.note("no pod was tried: none is ready and names a TCP port")
		return
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
		connection.Close()
		c.note(fmt.Sprintf("pod %s is reached from here at %s", pod, address))
	case errors.Is(err, syscall.ECONNREFUSED):
		c.note(fmt.Sprintf("the host of pod %s is reached from here at %s, where nothing listens", pod, address))
	default:
		c.note(fmt.Sprintf("pod %s is not reached from here at %s: %v; are pod addresses of the member routed to this network?", pod, address, err))
	}
}

// somePod finds a ready pod and a TCP port of it, in these namespaces; none are all.
func somePod(ctx context.Context, client kubernetes.Interface, namespaces []string) (address, name string, err error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if address, name, err = podIn(ctx, client, namespace); err != nil || address != "" {
			break
		}
	}
	return address, name, err
}

func podIn(ctx context.Context, client kubernetes.Interface, namespace string) (address, name string, err error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: sample, FieldSelector: "status.phase=Running"})
	if err != nil {
		return "", "", err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if !ready || pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
			continue
		}
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if port.Protocol == "" || port.Protocol == corev1.ProtocolTCP {
					return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort))), pod.Namespace + "/" + pod.Name, nil
				}
			}
		}
	}
	return "", "", nil
}
