// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// sentinel is a Service of the bulk member, outside the bulk namespaces: when a change of
// it is published, that member is followed again.
const sentinel = "sentinel"

func (w *world) prepareSentinel() {
	w.Helper()
	ctx := w.Context()
	w.must(w.bulk.CreateNamespaces(ctx, probe))
	w.must(w.bulk.Create(ctx, fleet.NewService(probe, sentinel)))
	w.must(w.bulk.RunPods(ctx, fleet.NewPod(probe, sentinel, sentinel)))
	w.shows(sentinel, true)
}

// shows waits until the Service of the probe's namespace has a ready address, or none.
func (w *world) shows(name string, ready bool) {
	w.Helper()
	w.eventually(2*time.Minute, fmt.Sprintf("%s is ready: %v", name, ready), func(ctx context.Context) (bool, error) {
		e, err := w.fleet.Ingress.Client.CoreV1().Endpoints(probe).Get(ctx, name, getOptions)
		return err == nil && (len(e.Subsets) > 0 && len(e.Subsets[0].Addresses) > 0) == ready, err
	})
}

// alive changes something in each member and returns when all of it is visible.
func (w *world) alive() {
	w.Helper()
	ctx := w.Context()
	for _, ready := range []bool{false, true} {
		w.must(mark(ctx, w.bulk, probe, sentinel, ready))
		w.shows(sentinel, ready)
	}
	s := w.session()
	defer s.Close()
	w.flip(s, 2, nil)
}

func mark(ctx context.Context, site *fleet.Site, namespace, pod string, ready bool) error {
	if ready {
		return site.MarkReady(ctx, namespace, pod)
	}
	return site.MarkNotReady(ctx, namespace, pod)
}

// zero makes changes to the fleet that change no endpoint: nothing may be written to a bulk
// replica.
func (w *world) zero() {
	w.Helper()
	ctx := w.Context()
	restart := func(p *cluster.Process) { p.Kill(); w.must(p.Start(ctx)) }
	relist := func(sites ...*fleet.Site) {
		w.must(w.proc.Freeze()) // or it may have seen all there is, and resume
		for _, site := range sites {
			w.must(site.CreateNamespaces(ctx, "news"))
			w.must(site.Compact(ctx))
			restart(site.APIServer())
		}
		before := w.podLists()
		w.must(w.proc.Thaw())
		w.eventually(2*time.Minute, "the member is listed again", func(context.Context) (bool, error) { return w.podLists() > before, nil })
	}
	type step struct {
		name string
		do   func()
	}
	steps := []step{
		{"tributary is restarted", func() { w.must(w.proc.Restart(ctx)); w.must(w.proc.WaitReady(ctx)) }},
		{"both pasts are compacted, the API servers killed and started", func() { relist(w.bulk, w.fleet.Ingress) }},
		{"both credentials are others", func() {
			w.rotate(w.bulk, fleet.MemberRules()...)
			w.rotate(w.fleet.Ingress, fleet.IngressRules()...)
		}},
	}
	if full() {
		steps = append(steps,
			step{"tributary is killed and started", func() { w.proc.Kill(); w.must(w.proc.Start(ctx)); w.must(w.proc.WaitReady(ctx)) }},
			step{"the member's API server is restarted", func() { w.must(w.bulk.APIServer().Restart(ctx)) }},
			step{"the ingress cluster's API server is restarted", func() { w.must(w.fleet.Ingress.APIServer().Restart(ctx)) }},
			step{"the member's API server is killed and started", func() { restart(w.bulk.APIServer()) }},
			step{"the ingress cluster's API server is killed and started", func() { restart(w.fleet.Ingress.APIServer()) }})
	}
	seen := len(w.writes())
	for _, step := range steps {
		start := time.Now()
		step.do()
		w.alive()
		after := w.writes()
		if wrong := bulkWrites(after[seen:]); len(wrong) > 0 {
			w.Errorf("%s: %d writes to replicas of which nothing has changed, the first: %+v", step.name, len(wrong), wrong[0])
		}
		w.figure("%.1f s: %s: %d writes to %d bulk replicas, %d for what was changed meanwhile", time.Since(start).Seconds(), step.name, len(bulkWrites(after[seen:])), *services, len(after)-seen)
		seen = len(after)
	}
}

// rotate gets tributary credentials of another user, and revokes the old ones.
func (w *world) rotate(site *fleet.Site, rules ...rbacv1.PolicyRule) {
	w.Helper()
	ctx := w.Context()
	u, err := site.NewUser(ctx, "tributary-next", rules...)
	w.must(err)
	w.users[u.Name] = true
	text, err := site.Cluster.Kubeconfig(u)
	w.must(err)
	temp := site.Kubeconfig + ".next"
	w.must(os.WriteFile(temp, text, 0o600))
	w.must(os.Rename(temp, site.Kubeconfig))
	w.must(site.Revoke(ctx, fleet.ProductUser))
}

// podLists is how often the bulk member's API server has listed pods since it started.
func (w *world) podLists() float64 {
	w.Helper()
	text, err := w.bulk.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(w.Context())
	w.must(err)
	return sum(text, "apiserver_request_total", `resource="pods",scope="cluster",subresource="",verb="LIST"`)
}

// metric sums a metric of tributary over the lines that contain labels.
func (w *world) metric(name, labels string) float64 {
	w.Helper()
	text, err := w.proc.Get(w.Context(), "/metrics")
	if err != nil {
		return 0 // it is starting
	}
	return sum(text, name, labels)
}

// sum adds up a metric over the lines that contain labels.
func sum(text []byte, name, labels string) (sum float64) {
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(line, name)
		if !found || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") || !strings.Contains(rest, labels) {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &value); err == nil {
			sum += value
		}
	}
	return sum
}
