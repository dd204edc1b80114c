// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/evidence"
)

// A watch that is frozen behind a proxy, while the connection and all else answer, is
// found by what it does not bring, over both protocols, and is not believed when nothing
// can be learnt of it.
func TestFrozenWatch(t *testing.T) {
	for name, protocols := range map[string][]string{"HTTP/2": nil, "HTTP/1.1": {"http/1.1"}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				a := w.api("uid-a")
				a.put(newService("shop", "web"), newPod("shop", "web", 1), newPod("shop", "web", 2))
				access := a.config("")
				access.NextProtos = protocols
				w.reach("a", access, "1")
				w.pass(time.Minute)
				w.wantState("a", Live, ReasonNone)
				w.sink.take()
				lists := a.listed()
				a.with(func() { a.muted = a.opened })
				a.remove("pods", "shop", "web-2") // of which was heard last: no sign of a restored store
				w.pass(20 * time.Second)
				w.wantDirty("removal shop/web: Pod shop/web-2 deleted (gone)")
				w.wantState("a", Live, ReasonNone)
				w.pass(time.Minute)
				w.wantState("a", Live, ReasonNone)
				a.put(notReady(newPod("shop", "web", 1)))
				w.pass(0)
				w.wantDirty("removal shop/web: Pod shop/web-1 modified (not ready)")
				if a.listed() != lists {
					t.Errorf("%d lists", a.listed()-lists)
				}
				a.with(func() {
					a.muted = 1 << 30
					a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
						short := r.URL.Query().Get("timeoutSeconds") == "2"
						if short {
							<-r.Context().Done()
						}
						return short
					}
				})
				w.pass(30 * time.Second)
				for range 60 {
					w.wantState("a", Silent, evidence.ReasonUnusable)
					w.pass(time.Second)
				}
				w.wantAddresses("shop", "web")
			})
		})
	}
}

// Nodes are worth waiting for, but not for long: an API that never answers for them does
// not keep the member from being read whole.
func TestHangingNodes(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1), newNode("node-1", "z1"))
		a.with(func() {
			a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
				hangs := strings.HasSuffix(r.URL.Path, "/nodes")
				if hangs {
					<-r.Context().Done()
				}
				return hangs
			}
		})
		w.reach("a", a.config(""), "1")
		w.pass(evidence.NodesPatience - time.Second)
		w.wantState("a", Syncing, ReasonNone)
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "web", "a 10.1.0.1")
	})
}
