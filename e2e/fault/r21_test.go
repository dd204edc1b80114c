// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

// TestR21Reused deletes Services and makes others of the same name at once, and
// gives the addresses of pods that went to pods of another Service. What is shown
// never mixes the two.
func TestR21Reused(t *testing.T) {
	w := newWorld(t, "r21")
	ctx := t.Context()
	w.service("red", 3, w.a)
	w.service("blue", 3, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	services := w.a.Client.CoreV1().Services(w.ns)
	colours := []string{"red", "blue"}
	for round := range size(10, 200) {
		// "red" is deleted and comes back with the other selector.
		app := colours[(round+1)%2]
		w.must(services.Delete(ctx, "red", metav1.DeleteOptions{}))
		next := fleet.NewService(w.ns, "red")
		next.Spec.Selector = map[string]string{fleet.AppLabel: app}
		w.must(w.a.Create(ctx, next))
		// A pod goes, another of the same name and address comes, of the other app.
		name := fmt.Sprintf("reused-%d", round%3)
		var address corev1.PodStatus
		if old, err := w.a.Client.CoreV1().Pods(w.ns).Get(ctx, name, metav1.GetOptions{}); err == nil {
			address = corev1.PodStatus{PodIP: old.Status.PodIP}
			w.must(w.a.Remove(ctx, w.ns, name))
		}
		pod := fleet.NewPod(w.ns, name, colours[w.dice.IntN(2)])
		pod.Status = address
		w.must(w.a.RunPods(ctx, pod))
	}
	took := w.converges(5 * time.Second)
	t.Logf("converged %s after the last change", took)
	w.unchanged()
	w.judge()
}
