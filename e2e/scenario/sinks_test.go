// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// TestSinks tells a receiver what replicas are: everything at first, what differs after
// a clean end and after a crash, the newest state after a time without an answer, which
// holds nothing up, and everything again when it is asked for.
func TestSinks(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, ingress := w.fleet.Member("idc-a"), w.fleet.Ingress
	w.must(ingress.CreateNamespaces(ctx, "tributary-system"))
	w.must(ingress.Grant(ctx, fleet.ProductUser, append(fleet.IngressRules(),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "update", "delete"}})...))
	w.configure(a)
	slb := &receiver{told: map[string]told{}}
	server := httptest.NewServer(slb)
	t.Cleanup(server.Close)
	w.replaceConfig(func(s string) string {
		return s + fmt.Sprintf("sinks:\n- name: slb\n  type: HTTP\n  url: %s/v1/members\n  namespaces: [shop]\n  window: 100ms\n", server.URL)
	})
	if code, out := w.command("check", "--config", w.config); code != 0 {
		t.Errorf("check: exit %d\n%s", code, out)
	}
	w.must(a.CreateNamespaces(ctx, "shop", "hidden"))
	for _, name := range []string{"web", "still", "gone"} {
		w.must(a.Create(ctx, fleet.NewService("shop", name)))
	}
	w.must(a.Create(ctx, fleet.NewService("hidden", "web")))
	w.pod(a, "hidden", "web-0", "web")
	pod, second := w.pod(a, "shop", "web-0", "web"), w.pod(a, "shop", "web-1", "web")
	still := w.pod(a, "shop", "still-0", "still")
	gone := w.pod(a, "shop", "gone-0", "gone")
	w.start()
	ip := func(ips ...string) string { return strings.Join(ips, " ") }
	w.tells(slb, map[string]string{"shop/web": ip(pod.Status.PodIP, second.Status.PodIP), "shop/still": still.Status.PodIP, "shop/gone": gone.Status.PodIP})

	// What changed while nobody looked is told, and nothing else: after a clean end ...
	w.must(w.proc.Stop(ctx))
	slb.forget()
	w.must(a.MarkNotReady(ctx, "shop", "web-0"))
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.tells(slb, map[string]string{"shop/web": second.Status.PodIP})
	// ... and after a crash, a Service that is gone included.
	w.proc.Kill()
	slb.forget()
	w.must(a.MarkReady(ctx, "shop", "web-0"))
	w.must(a.Client.CoreV1().Services("shop").Delete(ctx, "gone", metav1.DeleteOptions{}))
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.tells(slb, map[string]string{"shop/web": ip(pod.Status.PodIP, second.Status.PodIP), "shop/gone": ""})

	// A receiver that does not answer holds nothing up, and is then told how it is now.
	slb.forget()
	release := slb.hang()
	w.must(a.MarkNotReady(ctx, "shop", "web-0"))
	w.must(a.MarkNotReady(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, pod, "off"), line(a, second, "off"))
	w.must(a.MarkReady(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, pod, "off"), line(a, second, "ready+serving"))
	release()
	w.tells(slb, map[string]string{"shop/web": second.Status.PodIP})

	slb.forget()
	if code, out := w.command("resync", "--server", w.proc.URL, "--sink", "slb"); code != 0 {
		t.Errorf("resync: exit %d\n%s", code, out)
	}
	w.tells(slb, map[string]string{"shop/web": second.Status.PodIP, "shop/still": still.Status.PodIP})
	if code, out := w.command("status", "--server", w.proc.URL); code != 0 || !strings.Contains(out, "slb") {
		t.Errorf("status: exit %d, and nothing of the sink in\n%s", code, out)
	}
	if wrong := slb.faults(); len(wrong) > 0 {
		t.Errorf("the receiver was told wrongly: %q", wrong)
	}
}

// told is what a receiver was told last of a Service: a generation and its ready addresses.
type told struct {
	generation int64
	ready      string
}

// receiver is a load balancer's API. It is safe for concurrent use.
type receiver struct {
	mu    sync.Mutex
	told  map[string]told // since it was made to forget
	last  map[string]int64
	wrong []string
	hangs chan struct{}
}

func (r *receiver) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodHead {
		return // `check` asks whether anybody is here
	}
	r.mu.Lock()
	hangs := r.hangs
	r.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-request.Context().Done():
		}
		answer.WriteHeader(http.StatusServiceUnavailable) // it has taken nothing
		return
	}
	var batch []struct {
		Subject string
		Data    struct {
			Generation int64
			Endpoints  []struct {
				Address string
				Ready   bool
			}
		}
	}
	err := json.NewDecoder(request.Body).Decode(&batch)
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind := request.Header.Get("Content-Type"); err != nil || kind != "application/cloudevents-batch+json" {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %v", kind, err))
	}
	for _, e := range batch {
		if e.Data.Generation < r.last[e.Subject] {
			r.wrong = append(r.wrong, fmt.Sprintf("%s went back from %d to %d", e.Subject, r.last[e.Subject], e.Data.Generation))
		}
		var ready []string
		for _, ep := range e.Data.Endpoints {
			if ep.Ready {
				ready = append(ready, ep.Address)
			}
		}
		slices.Sort(ready)
		if r.last == nil {
			r.last = map[string]int64{}
		}
		r.last[e.Subject] = e.Data.Generation
		r.told[e.Subject] = told{generation: e.Data.Generation, ready: strings.Join(ready, " ")}
	}
}

// hang answers nothing until it is released.
func (r *receiver) hang() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hangs := make(chan struct{})
	r.hangs = hangs
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hangs = nil
		close(hangs)
	}
}

// forget lets everything that is told from now on be seen.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = map[string]told{}
}

func (r *receiver) faults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wrong)
}

// tells waits until the receiver was told of exactly these Services, with these ready
// addresses.
func (w *world) tells(r *receiver, want map[string]string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		got := map[string]string{}
		for subject, t := range r.told {
			got[subject] = t.ready
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("the receiver was told %q, want %q", got, want)
		}
		return nil
	})
}
