// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// site is a label that the pods of TestPanicGivesWay share.
const site = "site"

// TestPanicGivesWay: all pods of a site that serve turn not ready at once, beside a crowd
// of ready ones that no Service selects, and under a Service that selects all of them.
// In a union the site's endpoints stay; in a failover the next site has the traffic, and
// the first has it back when it is well again.
func TestPanicGivesWay(t *testing.T) {
	w := newWorld(t, "panic")
	ctx := t.Context()
	pay := w.failover("pay", 3)
	down := w.labelled("web", 30)
	down = append(down, w.labelled("api", 20)...)
	umbrella := fleet.NewService(w.ns, "umbrella")
	umbrella.Spec.Selector = map[string]string{site: "a"}
	w.must(w.a.Create(ctx, umbrella))
	w.service("api", 2, w.b)
	w.pods(w.a, "nobody", 0, 80)
	w.start()
	w.converges(20 * time.Second)
	w.eventually(5*time.Second, pay.servedBy(w.a))

	// What turns not ready before it is a mass goes, and comes back.
	free := w.rec.Begin(history.Free, w.a.Name())
	for _, p := range slices.Concat(down, pay.pods[w.a]) {
		w.must(w.a.MarkNotReady(ctx, p.Namespace, p.Name))
	}
	noticed := w.holds(w.a.Name(), 5*time.Second)
	gaveWay := w.eventually(3*time.Second, pay.servedBy(w.b))
	w.eventually(5*time.Second, w.counts("web", 30))
	w.eventually(time.Second, w.counts("api", 22))
	quiet := w.quiet()
	w.pause(time.Duration(size(3, 60)) * time.Second)
	quiet.End()
	w.must(pay.servedBy(w.b)(ctx))
	w.pods(w.b, "api", 100, 1)
	w.eventually(2*time.Second, w.counts("api", 23))

	for _, p := range slices.Concat(down, pay.pods[w.a]) {
		w.must(w.a.MarkReady(ctx, p.Namespace, p.Name))
	}
	w.holdsNothing(30 * time.Second)
	back := w.eventually(5*time.Second, pay.servedBy(w.a))
	w.converges(10 * time.Second)
	free.End()
	t.Logf("noticed %s after the last pod, the failover had given way %s later; the site has it back after %s", noticed, gaveWay, back)
	w.judge()
}

// labelled makes a Service of idc-a with ready pods that have the label site.
func (w *world) labelled(name string, n int) (made []*corev1.Pod) {
	w.Helper()
	for i := range n {
		p := fleet.NewPod(w.ns, fmt.Sprintf("%s-%d", name, i), name)
		p.Labels[site] = "a"
		made = append(made, p)
	}
	w.must(w.a.Create(w.Context(), fleet.NewService(w.ns, name)))
	w.must(w.a.RunPods(w.Context(), made...))
	return made
}

// failoverReplica is a replica that the members serve one at a time, in a namespace that
// the checker of histories leaves alone: it knows unions.
type failoverReplica struct {
	w               *world
	namespace, name string
	pods            map[*fleet.Site][]*corev1.Pod
}

// failover makes one, idc-a first, and lets tributary take its namespace.
func (w *world) failover(name string, pods int) *failoverReplica {
	w.Helper()
	r := &failoverReplica{w: w, namespace: w.ns + "-failover", name: name, pods: map[*fleet.Site][]*corev1.Pod{}}
	w.must(w.ingress.CreateNamespaces(w.Context(), r.namespace))
	for i, s := range []*fleet.Site{w.a, w.b} {
		w.must(s.CreateNamespaces(w.Context(), r.namespace))
		svc := fleet.NewService(r.namespace, name)
		svc.Annotations = map[string]string{"tributary.dev/failover": w.a.Name() + "," + w.b.Name()}
		w.must(s.Create(w.Context(), svc))
		for n := range pods {
			r.pods[s] = append(r.pods[s], fleet.NewPod(r.namespace, fmt.Sprintf("%s-%d", name, n), name))
		}
		w.must(s.RunPods(w.Context(), r.pods[s]...))
		w.config.members[i].Namespaces.Include = append(w.config.members[i].Namespaces.Include, r.namespace)
	}
	w.Cleanup(func() {
		for _, s := range w.fleet.Sites() {
			if err := clear(context.WithoutCancel(w.Context()), s, r.namespace); err != nil {
				w.Error(err)
			}
		}
	})
	return r
}

// servedBy returns nil when one site alone serves the replica, with all its pods.
func (r *failoverReplica) servedBy(s *fleet.Site) func(context.Context) error {
	var want []string
	for _, p := range r.pods[s] {
		want = append(want, p.Status.PodIP)
	}
	slices.Sort(want)
	return func(ctx context.Context) error {
		inEndpoints, inSlices, err := r.w.readyIn(ctx, r.namespace, r.name)
		if err != nil {
			return err
		}
		if !slices.Equal(inEndpoints, want) || !slices.Equal(inSlices, want) {
			return fmt.Errorf("%s has %q in Endpoints and %q in slices, want %q of %s", r.name, inEndpoints, inSlices, want, s.Name())
		}
		return nil
	}
}
