// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/clusters/evidence"
)

// A proxy that keeps our connection leads to another cluster, whose revisions are higher:
// no dial tells, and nothing of this one is gone, nor does the other's take its place.
func TestBelievesNoOtherClusterOverTheSameConnection(t *testing.T) {
	for name, twin := range map[string]bool{"without our pods": false, "with the same Services": true} {
		t.Run(name, func(t *testing.T) {
			guarded(t, nil, func(w *world, a *fakeAPI) {
				had := map[string][]string{}
				for _, app := range []string{"web", "api", "db"} {
					had[app] = w.addresses("shop", app)
				}
				a.with(func() {
					a.uid = "uid-b"
					a.drop("pods", func(string) bool { return true })
					for n := 101; twin && n <= 133; n++ {
						p := newPod("shop", appOf(n-100), n)
						p.UID, p.ResourceVersion = types.UID(p.Name+"-uid"), strconv.Itoa(8000+n)
						a.events = append(a.events, fakeEvent{1, "pods", "ADDED", nil, p})
					}
					a.rv, a.oldest = 9000, 9000
					a.closing = a.opened
				})
				w.pass(10 * time.Minute)
				w.wantState("a", Suspect, evidence.ReasonIdentityMismatch)
				for app, before := range had {
					if got := w.addresses("shop", app); !slices.Equal(got, before) {
						t.Errorf("%s has %v, had %v", app, got, before)
					}
				}
			})
		})
	}
}

// What answers a question for a pod is another pod, or has no name: nothing is learnt.
func TestTakesNoAnswerForAnother(t *testing.T) {
	for name, body := range map[string]string{
		"another pod":  `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web-1","uid":"web-1-uid","resourceVersion":"105"}}`,
		"without name": `{"kind":"Pod","apiVersion":"v1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			guarded(t, nil, func(w *world, a *fakeAPI) {
				a.hide("pods", func(name string) bool { return strings.HasPrefix(name, "api") })
				a.with(func() {
					a.closing, a.oldest = a.opened, a.rv+1
					a.rv += 2
					a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
						if !strings.Contains(r.URL.Path, "/pods/") {
							return false
						}
						rw.Header().Set("Content-Type", "application/json")
						_, _ = rw.Write([]byte(body))
						return true
					}
				})
				w.pass(10 * time.Second)
				if n := len(w.addresses("shop", "api")); n != 12 {
					t.Errorf("api has %d of 12", n)
				}
				w.wantState("a", Live, evidence.ReasonChangesHeld)
			})
		})
	}
}

// TestIdentityThatFailsAlone: where nothing but the question for the identity fails, lists and
// reads over the same connection count.
func TestIdentityThatFailsAlone(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusUnauthorized} {
		t.Run(strconv.Itoa(code), func(t *testing.T) { identityFails(t, code) })
	}
}

func identityFails(t *testing.T, code int) {
	t.Helper()
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() {
			a.deny["kube-system"] = code
			a.drop("pods", func(name string) bool { n := numberOf(name); return n >= 21 && n <= 32 })
			a.closing, a.oldest = a.opened, a.rv+1
			a.rv += 2
		})
		for range 60 {
			w.pass(time.Second)
			w.wantState("a", Live, evidence.ReasonNone)
		}
		if got := w.addresses("shop", "api"); len(got) != 0 {
			t.Errorf("%d: shop/api has %q", code, got)
		}
	})
}

// Where lists fail as well, that they are followed by watches from a cache is no contact: nothing
// new may come into it.
func TestIdentityThatFailsWithLists(t *testing.T) {
	for code, want := range map[int]evidence.Condition{
		http.StatusInternalServerError: Silent, http.StatusServiceUnavailable: Silent, http.StatusUnauthorized: Forbidden,
	} {
		t.Run(strconv.Itoa(code), func(t *testing.T) { identityFailsWithLists(t, code, want) })
	}
}

func identityFailsWithLists(t *testing.T, code int, want evidence.Condition) {
	t.Helper()
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() {
			a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("watch") != "" {
					return false
				}
				fail(rw, code)
				return true
			}
		})
		w.pass(10 * time.Second)
		if got := w.status("a").State; got != string(want) {
			t.Errorf("%d: the member is %s, want %s", code, got, want)
		}
		if got := w.addresses("shop", "api"); len(got) != 12 {
			t.Errorf("%d: shop/api has %q", code, got)
		}
		a.with(func() { a.hook = nil })
		w.pass(5 * time.Second)
		w.wantState("a", Live, evidence.ReasonNone)
	})
}
