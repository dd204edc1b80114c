// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The comparisons that upstream once got or still gets wrong, by the numbers of their
// issues. Each test starts from a replica that was just written.

// settled is a Service with pods, known to both worlds and written by both.
type settled struct {
	*Case
	upstream *upstreamWorld
	ours     *ourWorld
}

// settle writes a case whose Service has a numbered port, and a named one that pods
// resolve differently, so that there are several subsets.
func settle(t *testing.T, pods int, change func(*corev1.Service)) *settled {
	t.Helper()
	services, list := crowd(max(pods, 10))
	s := services[0]
	s.Namespace, s.Spec.Selector = "case-0", map[string]string{}
	named := corev1.ServicePort{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 81}
	named.TargetPort.Type, named.TargetPort.StrVal = 1, "admin"
	s.Spec.Ports = append(s.Spec.Ports, named)
	change(s)
	for i, p := range list {
		p.Namespace = s.Namespace
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "admin", Protocol: corev1.ProtocolTCP, ContainerPort: int32(9000 + i%3)}}}}
	}
	c := &settled{Case: &Case{Service: s, Pods: list[:pods]}, ours: newOurWorld()}
	c.upstream = newUpstreamWorld(t, c.Case)
	t.Cleanup(func() { stop(context.Background(), c.upstream.controller) })
	if theirs, mine := c.sync(t); !theirs || !mine {
		t.Fatalf("first write: upstream %v, ours %v", theirs, mine)
	}
	return c
}

// sync runs one sync on both sides, and returns who wrote.
func (c *settled) sync(t *testing.T) (theirs, mine bool) {
	t.Helper()
	c.upstream.set(c.withoutRefusals())
	theirs, err := c.upstream.sync(t.Context(), c.Case)
	if err != nil {
		t.Fatal(err)
	}
	return theirs, c.ours.step(c.Case)
}

// wantWrites syncs three times: what must not happen is a needless write at every sync.
func (c *settled) wantWrites(t *testing.T, theirs, mine bool) {
	t.Helper()
	for range 3 {
		if u, o := c.sync(t); u != theirs || o != mine {
			t.Fatalf("upstream wrote: %v, want %v; we wrote: %v, want %v", u, theirs, o, mine)
		}
	}
}

func ordinary(*corev1.Service) {}

func headless(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }

// TestKubernetes94112TheHeadlessLabelAndTheOrderAreNoDifference is the comparison that started it all: Endpoints of
// headless Services carry a label that their Service does not, and the current
// subsets are not sorted. Every resync rewrote them.
func TestKubernetes94112TheHeadlessLabelAndTheOrderAreNoDifference(t *testing.T) {
	c := settle(t, 9, headless)
	c.wantWrites(t, false, false)
	slices.Reverse(c.upstream.current.Subsets)
	slices.Reverse(c.ours.current.Endpoints.Subsets)
	c.wantWrites(t, false, false)
}

// TestKubernetes50936And108077PodChangesThatNoEndpointShowsWriteNothing: pods change all the time in fields that no
// endpoint shows; a resync that rewrites everything for them delays what matters.
func TestKubernetes50936And108077PodChangesThatNoEndpointShowsWriteNothing(t *testing.T) {
	c := settle(t, 9, ordinary)
	for i, p := range c.Pods {
		p.ResourceVersion = fmt.Sprint(1000 + i)
		p.Annotations = map[string]string{"example.com/checked": fmt.Sprint(i)}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: int32(i)}}
	}
	c.wantWrites(t, false, false)
}

// TestKubernetes129652AnotherOrderOfPortsAndSubsetsIsNoDifference: the hash that orders subsets has changed between
// releases; objects of an older release must not be rewritten because of their order.
func TestKubernetes129652AnotherOrderOfPortsAndSubsetsIsNoDifference(t *testing.T) {
	c := settle(t, 9, func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Protocol: corev1.ProtocolTCP, Port: 82})
		s.Spec.Ports[2].TargetPort.IntVal = 8082
	})
	shuffled := 0
	for i := range c.ours.current.Endpoints.Subsets {
		if ports := c.ours.current.Endpoints.Subsets[i].Ports; len(ports) > 1 {
			slices.Reverse(ports)
			shuffled++
		}
	}
	for i := range c.upstream.current.Subsets {
		slices.Reverse(c.upstream.current.Subsets[i].Ports)
	}
	slices.Reverse(c.ours.current.Endpoints.Subsets)
	slices.Reverse(c.upstream.current.Subsets)
	if shuffled == 0 || len(c.ours.current.Endpoints.Subsets) < 2 {
		t.Fatal("the case has nothing to shuffle")
	}
	c.wantWrites(t, false, false)
}

// TestReservedLabelsOfAServiceAreNoDifference (D3): upstream writes at every sync, for ever.
func TestReservedLabelsOfAServiceAreNoDifference(t *testing.T) {
	for _, label := range []string{"service.kubernetes.io/headless", "endpoints.kubernetes.io/managed-by"} {
		c := settle(t, 3, func(s *corev1.Service) { s.Labels = map[string]string{label: "mine"} })
		c.wantWrites(t, true, false)
	}
}

// TestMoreThanAThousandAddressesAreNoDifference (D4): upstream compares what it wants before truncating with
// the current object, which is truncated, and writes at every sync.
func TestMoreThanAThousandAddressesAreNoDifference(t *testing.T) {
	c := settle(t, 1200, ordinary)
	c.wantWrites(t, true, false)
	at := settle(t, 1000, func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] })
	at.wantWrites(t, false, false)
}

// TestAFailedPodThatNeverWasReadyLeaves (D1): upstream would remove it, but does not
// sync because of it.
func TestAFailedPodThatNeverWasReadyLeaves(t *testing.T) {
	c := settle(t, 3, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	p := c.Pods[1].DeepCopy()
	p.ResourceVersion, p.Status.Phase = "5000", corev1.PodFailed
	if dirty := c.ours.store.SetPod(c.ours.decoder.Pod(p)); len(dirty) != 1 {
		t.Fatalf("dirty: %v", dirty)
	}
	c.Pods[1] = p
	if theirs, mine := c.sync(t); !theirs || !mine {
		t.Fatalf("written by upstream: %v, by us: %v", theirs, mine)
	}
}
