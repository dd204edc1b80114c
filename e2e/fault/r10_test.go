// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/history"
)

// tenths chooses so many tenths of the pods, by their numbers.
func tenths(n int) func(metav1.Object) bool {
	return func(o metav1.Object) bool {
		name := o.GetName()
		return int(name[len(name)-1]-'0') < n
	}
}

// TestR10PodsVanish lets 30 % and then 80 % of a member's pods be missing from a
// list, where single pods may not be read (TestListThatLies is about where they may). The third waits until another list says the same; the rest waits for
// somebody to say so. A Service whose pods are all seen to be deleted is empty at
// once.
func TestR10PodsVanish(t *testing.T) {
	w := newWorld(t, "r10")
	ctx := t.Context()
	proxy := w.poor(w.a)
	w.service("web", 40, w.a)
	w.service("api", 10, w.a)
	w.service("live", 10, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)

	// 80 %: nothing goes.
	soft, quiet := w.rec.Begin(history.Soft, w.a.Name()), w.quiet()
	proxy.Set(&Fault{Match: Lists("pods"), Hide: w.ofThis(tenths(8))})
	proxy.Relist("pods")
	held := w.holds(w.a.Name(), 20*time.Second)
	w.pause(time.Duration(size(5, 120)) * time.Second)
	proxy.Set()
	proxy.Relist("pods")
	forgotten := w.holdsNothing(90 * time.Second)
	quiet.End()
	soft.End()

	// 30 %: nothing goes at first.
	soft = w.rec.Begin(history.Soft, w.a.Name())
	proxy.Set(&Fault{Match: Lists("pods"), Hide: w.ofThis(tenths(3))})
	proxy.Relist("pods")
	w.holds(w.a.Name(), 20*time.Second)
	w.must(w.counts("web", 40)(ctx))
	soft.End()
	free := w.rec.Begin(history.Free, w.a.Name())
	confirmed := w.eventually(30*time.Second, w.counts("web", 28))
	w.eventually(5*time.Second, w.counts("api", 7))
	proxy.Set()
	proxy.Relist("pods")
	w.converges(20 * time.Second)
	free.End()

	w.emptied("live", 20, 10)
	t.Logf("80 %%: held after %s, forgotten %s after the list was whole; 30 %%: gone %s after it was held", held, forgotten, confirmed)
	w.judge()
}

// emptied deletes all of a member's pods of a Service and waits until they are
// gone from the replica.
func (w *world) emptied(service string, before, after int) {
	w.Helper()
	w.must(w.counts(service, before)(w.Context()))
	var names []string
	for i := range before - after {
		names = append(names, fmt.Sprintf("%s-%d", service, i))
	}
	w.must(w.a.Remove(w.Context(), w.ns, names...))
	took := w.eventually(2*time.Second, w.counts(service, after))
	w.Logf("all of a Service's pods deleted: gone after %s", took)
}
