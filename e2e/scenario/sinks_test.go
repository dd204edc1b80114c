// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// TestSinks tells a receiver what replicas are: everything once after a start, with an
// inventory that tells what is gone; then what differs; and the newest state after a time
// without an answer, which holds nothing up.
func TestSinks(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.configure(a)
	slb := w.tell()
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
	web := pod.Status.PodIP + " " + second.Status.PodIP
	w.tells(slb, map[string]string{"shop/web": web, "shop/still": still.Status.PodIP, "shop/gone": gone.Status.PodIP})

	// Who starts tells everything once: after a clean end ...
	w.must(w.proc.Stop(ctx))
	slb.forget()
	w.must(a.MarkNotReady(ctx, "shop", "web-0"))
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.tells(slb, map[string]string{"shop/web": second.Status.PodIP, "shop/still": still.Status.PodIP, "shop/gone": gone.Status.PodIP})
	// ... and after a crash; its inventory lacks a Service that is gone.
	w.proc.Kill()
	slb.forget()
	w.must(a.MarkReady(ctx, "shop", "web-0"))
	w.must(a.Client.CoreV1().Services("shop").Delete(ctx, "gone", metav1.DeleteOptions{}))
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.tells(slb, map[string]string{"shop/web": web, "shop/still": still.Status.PodIP, "shop/gone": ""})

	// A receiver that does not answer holds nothing up, and is then told how it is now: what differs, and what it was about
	// to be told once more.
	release := slb.hang()
	w.must(a.MarkNotReady(ctx, "shop", "web-0"))
	w.must(a.MarkNotReady(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, pod, "off"), line(a, second, "off"))
	w.must(a.MarkReady(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, pod, "off"), line(a, second, "ready+serving"))
	release()
	w.tells(slb, map[string]string{"shop/web": second.Status.PodIP, "shop/still": still.Status.PodIP, "shop/gone": ""})

	if code, out := w.command("status", "--server", w.proc.URL); code != 0 || !strings.Contains(out, "slb") {
		t.Errorf("status: exit %d, and nothing of the sink in\n%s", code, out)
	}
	if wrong := slb.faults(); len(wrong) > 0 {
		t.Errorf("the receiver was told wrongly: %q", wrong)
	}
}

// TestSinkIsTakenOver lets two processes of an installation tell a receiver, one after the other. The one that leads ends
// while it waits for an answer, as it should and by a crash, and more changes before there is another leader. That one
// tells everything once, as it is; of no Service an older state comes after a newer one.
func TestSinkIsTakenOver(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx, a := t.Context(), w.fleet.Member("idc-a")
	slb := w.tell()
	w.must(a.CreateNamespaces(ctx, "shop"))
	all, pods := map[string]string{}, map[string]*corev1.Pod{}
	for _, name := range []string{"web", "still", "gone", "late"} {
		w.must(a.Create(ctx, fleet.NewService("shop", name)))
		pods[name] = w.pod(a, "shop", name, name)
		all["shop/"+name] = pods[name].Status.PodIP
	}
	w.start()
	first := w.proc
	w.state(first, "leading")
	w.tells(slb, all)
	second := w.standby()
	w.state(second, "standby")

	slb.forget()
	release := slb.hang()
	w.must(a.MarkNotReady(ctx, "shop", "web"))
	w.asks(slb)
	w.must(first.Stop(ctx))
	w.must(a.Client.CoreV1().Services("shop").Delete(ctx, "gone", metav1.DeleteOptions{}))
	w.state(second, "leading")
	release()
	w.tells(slb, map[string]string{"shop/web": "", "shop/gone": "", "shop/still": all["shop/still"], "shop/late": all["shop/late"]})

	w.must(first.Start(ctx))
	w.must(first.WaitReady(ctx))
	w.state(first, "standby")
	slb.forget()
	release = slb.hang()
	w.must(a.MarkReady(ctx, "shop", "web"))
	w.asks(slb)
	second.Kill()
	extra := w.pod(a, "shop", "extra", "web")
	w.must(a.MarkNotReady(ctx, "shop", "late"))
	w.state(first, "leading")
	release()
	w.tells(slb, map[string]string{"shop/web": pods["web"].Status.PodIP + " " + extra.Status.PodIP, "shop/late": "", "shop/still": all["shop/still"]})
	if wrong := slb.faults(); len(wrong) > 0 {
		t.Errorf("the receiver was told wrongly: %q", wrong)
	}
}

// standby runs a second process of the installation, and waits until it is ready.
func (w *world) standby() *fleet.Tributary {
	w.Helper()
	text, err := os.ReadFile(w.config)
	w.must(err)
	path := filepath.Join(w.dir, "standby.yaml")
	w.must(os.WriteFile(path, []byte(strings.Replace(string(text), w.listen, free(w.T), 1)), 0o600))
	p := fleettest.RunTributary(w.T, fleet.TributaryOptions{Config: path})
	w.must(p.WaitReady(w.Context()))
	return p
}

// state waits until a process says that it leads, or that it is on standby.
func (w *world) state(p *fleet.Tributary, want string) {
	w.Helper()
	fleettest.Eventually(w.T, 2*soon, func(ctx context.Context) error {
		body, err := p.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status struct{ Leader struct{ State string } }
		if err := json.Unmarshal(body, &status); err != nil || status.Leader.State != want {
			return fmt.Errorf("it is %q, want %q: %w", status.Leader.State, want, err)
		}
		return nil
	})
}

// tell starts a receiver, and makes it a sink.
func (w *world) tell() *receiver {
	w.Helper()
	slb := &receiver{told: map[string]told{}, last: map[string]told{}}
	server := httptest.NewServer(slb)
	w.Cleanup(server.Close)
	w.replaceConfig(func(s string) string {
		return s + fmt.Sprintf("sinks:\n- name: slb\n  url: %s/v1/members\n  namespaces: [shop]\n  window: 100ms\n", server.URL)
	})
	return slb
}

// typeInventory is the type of an event that names all Services that there are.
const typeInventory = "dev.tributary.inventory.v1"

// event is what receivers read of an event.
type event struct {
	Type, Subject string
	Data          struct {
		Generation int64
		Services   []string // of an inventory
		Endpoints  []struct {
			Address string
			Ready   bool
		}
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
	last  map[string]told
	wrong []string
	// hangs is closed when it is to answer again; asked counts the requests that wait for that.
	hangs chan struct{}
	asked int
}

func (r *receiver) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodHead {
		return // `check` asks whether anybody is here
	}
	r.mu.Lock()
	hangs := r.hangs
	r.asked++
	r.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-request.Context().Done():
		}
		answer.WriteHeader(http.StatusServiceUnavailable) // it has taken nothing
		return
	}
	var batch []event
	err := json.NewDecoder(request.Body).Decode(&batch)
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind := request.Header.Get("Content-Type"); err != nil || kind != "application/cloudevents-batch+json" {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %v", kind, err))
	}
	for _, e := range batch {
		if e.Type == typeInventory {
			for subject, was := range r.last {
				if !slices.Contains(e.Data.Services, subject) && was.ready != "" {
					r.last[subject] = told{generation: e.Data.Generation}
					r.told[subject] = r.last[subject]
				}
			}
			continue
		}
		var ready []string
		for _, ep := range e.Data.Endpoints {
			if ep.Ready {
				ready = append(ready, ep.Address)
			}
		}
		slices.Sort(ready)
		is, was := told{generation: e.Data.Generation, ready: strings.Join(ready, " ")}, r.last[e.Subject]
		if is.generation < was.generation || is.generation == was.generation && is != was {
			r.wrong = append(r.wrong, fmt.Sprintf("%s went from %+v to %+v", e.Subject, was, is))
		}
		r.last[e.Subject], r.told[e.Subject] = is, is
	}
}

// hang answers nothing until it is released.
func (r *receiver) hang() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hangs := make(chan struct{})
	r.hangs, r.asked = hangs, 0
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hangs = nil
		close(hangs)
	}
}

// asks waits until a request waits for an answer.
func (w *world) asks(r *receiver) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.asked == 0 {
			return errors.New("nothing is told")
		}
		return nil
	})
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
// addresses in any order.
func (w *world) tells(r *receiver, want map[string]string) {
	w.Helper()
	sorted := map[string]string{}
	for subject, addresses := range want {
		sorted[subject] = strings.Join(slices.Sorted(strings.FieldsSeq(addresses)), " ")
	}
	fleettest.Eventually(w.T, soon, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		got := map[string]string{}
		for subject, t := range r.told {
			got[subject] = t.ready
		}
		if !maps.Equal(got, sorted) {
			return fmt.Errorf("the receiver was told %q, want %q", got, sorted)
		}
		return nil
	})
}
