// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/history"
)

// TestR09EmptyList lets a member answer 200 with no pod, then with no Service, to
// whoever lists anew, while its watches work. Nothing is believed of it, nothing
// is written, and the hold ends when the real list is back.
func TestR09EmptyList(t *testing.T) {
	w := newWorld(t, "r09")
	proxy := w.proxyTo(w.a)
	w.service("web", 30, w.a)
	w.service("api", 4, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	for _, resource := range []string{"pods", "services"} {
		soft, quiet := w.rec.Begin(history.Soft, w.a.Name()), w.quiet()
		proxy.Set(&Fault{Match: Lists(resource), Hide: w.ofThis(all)})
		proxy.Relist(resource)
		held := w.holds(w.a.Name(), 20*time.Second)
		w.pause(time.Duration(size(4, 60)) * time.Second)
		proxy.Set()
		proxy.Relist(resource)
		released := w.holdsNothing(90 * time.Second)
		w.pause(time.Second)
		quiet.End()
		soft.End()
		t.Logf("no %s: held after %s, forgotten %s after the list was whole", resource, held, released)
	}
	// What is seen to happen passes at once, also while something is held.
	soft := w.rec.Begin(history.Soft, w.a.Name())
	proxy.Set(&Fault{Match: Lists("pods"), Hide: w.ofThis(all)})
	proxy.Relist("pods")
	w.holds(w.a.Name(), 20*time.Second)
	proxy.Set()
	w.must(w.a.Remove(t.Context(), w.ns, "api-0"))
	w.pods(w.b, "api", 100, 1)
	w.eventually(5*time.Second, func(ctx context.Context) error {
		_, inSlices, err := w.readyAddresses(ctx, "api")
		if err == nil && len(inSlices) < 8 {
			err = fmt.Errorf("%d addresses", len(inSlices))
		}
		return err
	})
	w.holdsNothing(90 * time.Second)
	w.converges(10 * time.Second)
	soft.End()
	w.judge()
}

// TestR09EmptyAtStart does the same to a tributary that has just been restarted:
// what stands is more than what is listed.
func TestR09EmptyAtStart(t *testing.T) {
	w := newWorld(t, "r09b")
	proxy := w.proxyTo(w.a)
	w.service("web", 30, w.a)
	w.service("api", 4, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	for _, resource := range []string{"pods", "services"}[:size(1, 2)] {
		w.kill()
		soft, quiet := w.rec.Begin(history.Soft, w.a.Name()), w.quiet()
		proxy.Set(&Fault{Match: Lists(resource), Hide: w.ofThis(all)})
		w.restartDoubtful()
		held := w.holds(w.a.Name(), 20*time.Second)
		w.pause(time.Duration(size(4, 60)) * time.Second)
		proxy.Set()
		proxy.Relist(resource)
		released := w.holdsNothing(90 * time.Second)
		w.pause(time.Second)
		quiet.End()
		soft.End()
		t.Logf("no %s: held %s after the start, forgotten %s after the list was whole", resource, held, released)
	}
	w.pods(w.a, "web", 100, 1)
	w.converges(10 * time.Second)
	w.judge()
}

// ofThis restricts a choice to this test's namespace.
func (w *world) ofThis(choose func(metav1.Object) bool) func(metav1.Object) bool {
	return func(o metav1.Object) bool { return o.GetNamespace() == w.ns && choose(o) }
}

func all(metav1.Object) bool { return true }
