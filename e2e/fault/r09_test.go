// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestR09ShortLists lets a member answer 200 with no pod, with a fifth of them, or with no
// Service, to whoever lists anew, while its watches work: of nothing that lives is
// anything written. What is seen to happen passes at once meanwhile.
func TestR09ShortLists(t *testing.T) {
	w := newWorld(t, "r09")
	proxy := w.proxyTo(w.a)
	w.service("web", 30, w.a)
	w.service("api", 4, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	w.settled()
	for i, lie := range w.lies() {
		quiet := w.quiet()
		proxy.Set(lie)
		proxy.Relist("pods", "services")
		w.eventually(20*time.Second, metAtLeast(lie, 1))
		w.eventually(20*time.Second, w.asksNothing)
		w.pause(time.Duration(size(1, 60)) * time.Second)
		quiet.End()
		w.must(w.a.Remove(t.Context(), w.ns, fmt.Sprintf("api-%d", i)))
		w.eventually(3*time.Second, w.counts("api", 8-i-1))
		proxy.Set()
		w.settled()
	}
	w.emptied("web", 30, 0)
	proxy.Relist("pods", "services")
	w.converges(10 * time.Second)
	w.judge()
}

// TestR10ShortAtStart does the same to a tributary that has just been restarted: what
// is published is more than what is listed.
func TestR10ShortAtStart(t *testing.T) {
	w := newWorld(t, "r10")
	proxy := w.proxyTo(w.a)
	w.service("web", 30, w.a)
	w.service("api", 4, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	for _, lie := range w.lies() {
		w.settled()
		w.kill()
		quiet := w.quiet()
		proxy.Set(lie)
		w.restart()
		w.eventually(20*time.Second, w.asksNothing)
		w.pause(time.Duration(size(1, 60)) * time.Second)
		quiet.End()
		proxy.Set()
	}
	w.pods(w.a, "web", 100, 1)
	w.converges(10 * time.Second)
	w.judge()
}

// lies are what lists lack of this test's namespace.
func (w *world) lies() []*Fault {
	return []*Fault{
		{Match: Lists("pods"), Hide: w.ofThis(all)},
		{Match: Lists("pods"), Hide: w.ofThis(tenths(8))},
		{Match: Lists("services"), Hide: w.ofThis(all)},
	}
}

// ofThis restricts a choice to this test's namespace.
func (w *world) ofThis(choose func(metav1.Object) bool) func(metav1.Object) bool {
	return func(o metav1.Object) bool { return o.GetNamespace() == w.ns && choose(o) }
}

func all(metav1.Object) bool { return true }

// tenths chooses so many tenths of the pods, by their numbers.
func tenths(n int) func(metav1.Object) bool {
	return func(o metav1.Object) bool {
		name := o.GetName()
		return int(name[len(name)-1]-'0') < n
	}
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
	took := w.eventually(3*time.Second, w.counts(service, after))
	w.Logf("all of a Service's pods deleted: gone after %s", took)
}
