// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/evidence"
)

// failings are ways in which a namespace fails without being refused.
var failings = map[string]http.HandlerFunc{
	"answers 500": func(rw http.ResponseWriter, _ *http.Request) { fail(rw, http.StatusInternalServerError) },
	"hangs":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"answers what is no list": func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
	},
	"answers a page of a proxy": func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte("<html>no backend</html>"))
	},
}

// A namespace that fails concerns itself alone, also where its member is to be listed anew: what
// is gone elsewhere goes, what is known of it stays, and what is gone there goes as soon as it
// answers.
func TestNamespaceThatFails(t *testing.T) {
	for name, answer := range failings {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				a, asked := sides(w)
				w.reach("a", a.config(""), "1")
				w.pass(time.Minute)
				w.wantState("a", evidence.Live, evidence.ReasonNone)
				for n := 1; n <= 5; n++ {
					a.remove("pods", "side", fmt.Sprintf("api-%d", 10+n))
				}
				a.put(newPod("side", "api", 16))
				w.pass(time.Second)
				side := w.addresses("side", "api")
				if len(side) != 1 {
					t.Fatalf("of the namespace beside: %q", side)
				}
				a.refuseSide(asked, answer)
				w.pass(time.Second)
				a.remove("pods", "shop", "web-1")
				a.remove("pods", "side", "api-16")
				a.with(func() { a.oldest = a.rv })
				w.pass(15 * time.Second)
				w.wantAddresses("shop", "web", "a 10.1.0.2", "a 10.1.0.3", "a 10.1.0.4", "a 10.1.0.5")
				for range 20 {
					w.set.applied.Load().members[0].Relist()
					w.pass(time.Minute)
					w.wantState("a", evidence.Live, evidence.ReasonNamespaceFails)
				}
				a.remove("pods", "shop", "web-2")
				w.pass(time.Second)
				w.wantAddresses("shop", "web", "a 10.1.0.3", "a 10.1.0.4", "a 10.1.0.5")
				w.wantAddresses("side", "api", side...)
				s := w.status("a")
				if all := strings.Join(s.Remarks, "; "); !strings.Contains(s.LastError, "side") || !strings.Contains(all, "pods of namespaces that fail cannot be listed and watched in side") {
					t.Errorf("said: %q, remarks %q", s.LastError, all)
				}
				a.with(func() { a.hook, a.oldest = nil, a.rv })
				w.pass(90 * time.Second)
				w.wantState("a", evidence.Live, evidence.ReasonNone)
				w.wantAddresses("side", "api")
				w.wantAddresses("shop", "web", "a 10.1.0.3", "a 10.1.0.4", "a 10.1.0.5")
				if s := w.status("a"); len(s.Remarks) > 0 {
					t.Errorf("remarks %q", s.Remarks)
				}
			})
		})
	}
}

// Who starts beside it takes away what is gone elsewhere, and leaves what stands of it until it answers.
func TestStartBesideNamespaceThatFails(t *testing.T) {
	for name, answer := range failings {
		t.Run(name, func(t *testing.T) {
			startBesideSide(t, answer, evidence.ReasonNamespaceFails, func(w *world, a *fakeAPI) {
				a.with(func() { a.hook = nil })
				w.pass(90 * time.Second)
				w.wantState("a", evidence.Live, evidence.ReasonNone)
				w.wantAddresses("side", "api", "a 10.1.0.11", "a 10.1.0.12", "a 10.1.0.13", "a 10.1.0.14", "a 10.1.0.15")
			})
		})
	}
}

// Where every namespace fails, the member does.
func TestEveryNamespaceFails(t *testing.T) {
	for name, answer := range failings {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				a, asked := sides(w)
				w.reach("a", a.config(""), "1")
				w.pass(time.Minute)
				a.refuseSide(asked, answer)
				a.with(func() {
					a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
						if !strings.Contains(r.URL.Path, "/namespaces/s") {
							return false
						}
						answer(rw, r)
						return true
					}
				})
				w.pass(40 * time.Second)
				w.wantState("a", evidence.Silent, evidence.ReasonUnusable)
				if got := append(w.addresses("shop", "web"), w.addresses("side", "api")...); len(got) != 10 {
					t.Errorf("left are %q", got)
				}
			})
		})
	}
}
