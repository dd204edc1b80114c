// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	endpointsliceutil "k8s.io/endpointslice/util"

	"tributary.dev/tributary/internal/dice"
)

// TestNextTriggerEqualsUpstream drives upstream's tracker and ours through the
// same random edits of a Service and its pods.
func TestNextTriggerEqualsUpstream(t *testing.T) {
	seed := dice.Seed(t)
	for i := range 2000 {
		g := newGenerator(seed, uint64(i))
		c := NewCase(seed, uint64(i))
		c.Pods = c.Pods[:min(len(c.Pods), 12)]
		tracker := endpointsliceutil.NewTriggerTimeTracker()
		c.Service.Spec.Type, c.Service.Spec.Selector = corev1.ServiceTypeClusterIP, map[string]string{} // all pods
		ours := newOurWorld()
		for step := range 12 {
			want := tracker.ComputeEndpointLastChangeTriggerTime(c.Name(), c.Service, c.Pods)
			c.Service.Labels = map[string]string{"step": fmt.Sprint(step)} // without a change ours would repeat itself
			ours.take(c)
			if got := ours.contribution().Trigger; !got.Equal(want) {
				t.Fatalf("seed %d, case %d, step %d: %v, upstream %v", seed, i, step, got, want)
			}
			if g.chance(10) { // deleted and recreated
				tracker.DeleteService(c.Name(), c.Service.Name)
				c.Service.UID += "-again"
				c.Service.CreationTimestamp = g.second()
			}
			g.editTimes(c)
		}
	}
}

// editTimes makes a few of the changes that the tracker considers.
func (g *generator) editTimes(c *Case) {
	for range g.IntN(3) {
		switch n := len(c.Pods); {
		case n > 0 && g.chance(30):
			at := g.IntN(n)
			c.Pods = slices.Delete(slices.Clone(c.Pods), at, at+1)
		case n > 0:
			setReadyTime(c.Pods[g.IntN(n)], g.second())
		default:
			c.Pods = append(c.Pods, g.pod(c.Name(), 20+g.IntN(3), false, g.podSpec()))
		}
	}
}

func setReadyTime(p *corev1.Pod, at metav1.Time) {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodReady {
			p.Status.Conditions[i].LastTransitionTime = at
		}
	}
}
