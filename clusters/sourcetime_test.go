// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSourceTimes: the cause of a change tells when the member says that it began, and an edit of something else does not.
func TestSourceTimes(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		begun := time.Now().Truncate(time.Second).UTC()
		web := func(ready bool, since time.Duration) *corev1.Pod {
			p := newPod("shop", "web", 1)
			if !ready {
				notReady(p)
			}
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(begun.Add(since))
			return p
		}
		a := w.api("uid-a")
		a.put(newService("shop", "web"), web(true, -time.Hour))
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		expect := func(change *corev1.Pod, want time.Time) {
			t.Helper()
			w.sink.take()
			a.put(change)
			w.pass(0)
			w.sink.mu.Lock()
			defer w.sink.mu.Unlock()
			if calls := w.sink.calls; len(calls) != 1 || !calls[0].cause.SourceTime.Equal(want) {
				t.Errorf("%+v, want one change that began %s", calls, want)
			}
		}
		expect(web(false, 3*time.Second), begun.Add(3*time.Second))
		moved := web(false, 3*time.Second)
		moved.Status.PodIPs, moved.Status.PodIP = []corev1.PodIP{{IP: "10.9.9.9"}}, "10.9.9.9"
		expect(moved, time.Time{})
		going := web(false, 3*time.Second)
		going.DeletionTimestamp, going.DeletionGracePeriodSeconds = new(metav1.NewTime(begun.Add(40*time.Second))), new(int64(30))
		expect(going, begun.Add(10*time.Second))
	})
}
